"""Rewards by name, and how answers to mathematics problems are read and compared."""
