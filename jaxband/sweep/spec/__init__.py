"""What to run: a spec, its settings and problems, and the cells that it expands to."""
