"""The paper's tables and figures: what was run is data here, how it is run is the library."""
