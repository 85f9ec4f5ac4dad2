"""Answers, reports, tallies and priors in files."""
