"""Secure random words, and the randomizer that turns answers into reports."""

from tacit.randomize.randomizer import Randomizer, secure_words
from tacit.randomize.randomness import DerivedWords, SecureWords, SeededWords

__all__ = ["DerivedWords", "Randomizer", "SecureWords", "SeededWords", "secure_words"]
