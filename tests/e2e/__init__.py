"""End to end; a package, so that fixtures can be for all of these files."""
