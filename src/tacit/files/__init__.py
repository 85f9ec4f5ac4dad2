"""Answers, reports and tallies in files and tables, streaming, in bounded memory."""

from tacit.files._analysis import (
    ExportSummary,
    RegressionSummary,
    export_file,
    linked,
    pseudo_table,
    regress_file,
)
from tacit.files.answers import BadRowsError, add_perturb
from tacit.files.columns import InputError
from tacit.files.ledger import Ledger
from tacit.files.perturbing import PerturbSummary, arms_drawn, followed, label_file, perturb_file, perturb_table
from tacit.files.tallies import (
    load_tally,
    read_cells,
    read_population,
    read_tally,
    save_tally,
    tally_by,
    tally_file,
)

__all__ = [
    "BadRowsError", "ExportSummary", "InputError", "Ledger", "PerturbSummary", "RegressionSummary", "add_perturb",
    "arms_drawn", "export_file", "followed", "label_file", "linked", "load_tally", "perturb_file", "perturb_table",
    "pseudo_table", "read_cells", "read_population", "read_tally", "regress_file", "save_tally", "tally_by",
    "tally_file",
]  # fmt: skip
