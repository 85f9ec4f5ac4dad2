"""The automatic choice for unbiased histograms of more than twelve values: follow the prior, or take values as alike?

A circle follows the prior and wins by it, up to three quarters of LDP's variance. Under LDP and in wide balls of
priors nothing is won: its best form has one cell for each value, which is subset selection. At a large ε, where
sampling is nearly all of the variance, next to nothing is. A block design (`without_prior`) is the same mechanism up to
its tolerance of 2% of the variance, with a hundredth of the work for drawing and counting a report, and its promise,
LDP, implies LIP for every prior there is. The plane circle does as little work and follows the prior; its orders
are few, which costs some hundredths of the variance, and it holds some tens of thousands of values.

The rule.  The block design is taken if its variance under the prior is at most 2% (`TOLERANCE`) above that of the
shuffled circle; else the plane circle if its is at most 5% (`IN_PLANE`) above, and what reports determine is found in
a few seconds for all groups of a plan (`MOST_WORK` steps); and else the shuffled circle, for which that takes no time.
Variances are those of the finished integers; whatever is taken is audited.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.linalg import LinAlgError

from tacit.designs.circles import in_plane
from tacit.designs.methods import Design, Request, plane_circle, shuffled_circle
from tacit.designs.without_prior import TOLERANCE, without_prior
from tacit.mechanism import PrivacyError

#: So much of the variance may be given for reports that are drawn and counted in no time.
IN_PLANE = 0.05
#: And so many steps for reading a plan.
MOST_WORK = 2**29


def large_histogram(request: Request) -> Design:
    """A block design where it is as good as the shuffled circle, which it is where values are all alike; or a plane."""
    try:
        alike = without_prior(request)
    except ArithmeticError:  # So many values that no block design has room for them.
        return _following(request)
    if _near(alike, alike.certificate.unbiased_variance_lower_bound, TOLERANCE):
        return alike
    try:
        following = _following(request)
    except (PrivacyError, ArithmeticError, LinAlgError):
        return alike
    if _near(alike, following.certificate.unbiased_variance, TOLERANCE):
        return replace(alike, certificate=replace(alike.certificate, notes=following.certificate.notes))
    return following


def _following(request: Request) -> Design:
    """The shuffled circle, in a plane if that is nearly as good."""
    shuffled = shuffled_circle(request)
    circle: Any = shuffled.mechanism
    try:
        if in_plane(circle).work * request.groups > MOST_WORK:
            return shuffled
        found = plane_circle(request)
    except (ValueError, ArithmeticError):  # More values than a plane of bounded size holds.
        return shuffled
    return found if _near(found, shuffled.certificate.unbiased_variance, IN_PLANE) else shuffled


def _near(found: Design, variance: float, tolerance: float) -> bool:
    return found.certificate.unbiased_variance <= (1 + tolerance) * variance
