"""The pages and what they load, as files with their hashes."""
