"""Reports one by one: pseudo-values for any software, and regressions of them on public columns."""

from tacit.estimates.analysis._private_predictors import regress_on_private
from tacit.estimates.analysis._pseudo_values import positions_of, pseudo_names, pseudo_values
from tacit.estimates.analysis._regression import (
    Coefficient,
    CovariateLevels,
    Regression,
    covariate_levels,
    regress,
)
from tacit.task import Model

__all__ = [
    "Coefficient",
    "CovariateLevels",
    "Model",
    "Regression",
    "covariate_levels",
    "positions_of",
    "pseudo_names",
    "pseudo_values",
    "regress",
    "regress_on_private",
]
