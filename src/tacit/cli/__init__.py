"""The `tacit` command: parsing and printing only, one file for each group of commands."""
