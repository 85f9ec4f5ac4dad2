"""From records of people, as last year's spreadsheet has them, to priors with counts."""

from tacit.microdata._priors import PriorTable, priors_from

__all__ = ["PriorTable", "priors_from"]
