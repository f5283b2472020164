"""The policies that choose a group size, one file each, behind one protocol; registry.py knows them by name."""
