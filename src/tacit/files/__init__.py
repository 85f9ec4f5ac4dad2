"""Answers, reports and tallies in files and tables, streaming, in bounded memory."""

from tacit.files.answers import BadRowsError, PerturbSummary, perturb_file, perturb_table
from tacit.files.reading import InputError
from tacit.files.tallies import load_tally, read_tallies, save_tally, tally_file, tally_table

__all__ = [
    "BadRowsError",
    "InputError",
    "PerturbSummary",
    "load_tally",
    "perturb_file",
    "perturb_table",
    "read_tallies",
    "save_tally",
    "tally_file",
    "tally_table",
]
