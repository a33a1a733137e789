"""The host side: devices, the compilation cache, Ctrl-C, progress, processes, files. Nothing here is about bandits."""
