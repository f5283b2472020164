"""The machine underneath: files, paths, environment, processor time."""
