"""A package, because OpenRLHF installs one of the same name, which would be found in its place."""
