"""What a grid and a run are: sections, validation, hash."""
