"""Secure random words, and the randomizer that turns answers into reports."""

from tacit.randomize.randomizer import Randomizer, RecordRandomizer, secure_words, words_of
from tacit.randomize.randomness import DerivedWords, SecureWords, SeededWords

__all__ = ["DerivedWords", "Randomizer", "RecordRandomizer", "SecureWords", "SeededWords", "secure_words", "words_of"]
