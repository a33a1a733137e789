"""Results on disk: files that are whole or absent, and a directory that can be resumed."""
