"""Answers, reports and tallies in files and tables, streaming, in bounded memory."""

from tacit.files.answers import BadRowsError, PerturbSummary, perturb_file, perturb_table
from tacit.files.arms import arms_drawn
from tacit.files.breakdowns import read_cells, read_population
from tacit.files.labelled import label_file
from tacit.files.pseudo_values import ExportSummary, export_file, pseudo_table
from tacit.files.reading import InputError
from tacit.files.regressions import RegressionSummary, regress_file
from tacit.files.tallies import load_tally, read_tallies, save_tally, tally_file, tally_table

__all__ = [
    "BadRowsError",
    "ExportSummary",
    "InputError",
    "PerturbSummary",
    "RegressionSummary",
    "arms_drawn",
    "export_file",
    "label_file",
    "load_tally",
    "perturb_file",
    "perturb_table",
    "pseudo_table",
    "read_cells",
    "read_population",
    "read_tallies",
    "regress_file",
    "save_tally",
    "tally_file",
    "tally_table",
]
