"""Secure random words, and the randomizer that turns answers into reports."""
