"""Secure random words, and the randomizer that turns answers into reports."""

from tacit.randomize.randomizer import Randomizer, secure_words
from tacit.randomize.randomness import SecureWords, SeededWords

__all__ = ["Randomizer", "SecureWords", "SeededWords", "secure_words"]
