"""The configuration of a grid and of a run: sections, validation, hash."""
