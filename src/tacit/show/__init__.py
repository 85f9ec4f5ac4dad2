"""Plans, promises and estimates as people see them: sentences, the terminal, a page."""
