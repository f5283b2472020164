"""The policies that choose a group size, a file each, behind one protocol; registry.py knows them by name."""
