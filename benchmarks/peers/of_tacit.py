"""Tacit's rows: unbiased LIP with the exact prior and with one off by τ, the paper's MMSE, LDP without a prior."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any, get_args

from peers.peer import Exact, Integers, Peer, Shares, bytes_for
from peers.truth import shifted
from tacit import Design, Group, Histogram, Plan, Prior, PrivacyError, Randomizer, Tally, design, estimate
from tacit.designs import Promise, Search
from tacit.designs._design import Method
from tacit.prior import Ball

SYSTEM = "Tacit"
EXACT, MMSE = "LIP, exact prior", "LIP, MMSE"
#: How far the stated prior is from the truth; the plan keeps its promise for every prior so far away.
RADII = (Fraction(3, 100), Fraction(1, 10))
#: The LDP mechanisms by the name that `design` has for them, with how the table calls them; one line for each. Those
#: that it does not know, or that cannot serve so many values, are left out.
LDP_METHODS: dict[Any, str] = {
    "auto": "LDP",
    "subset-selection": "LDP, subset",
    "projective": "LDP, projective",
}


def off_by(tau: Fraction) -> str:
    """The name of the row whose prior is off by τ."""
    return f"LIP, τ = {float(tau):g}"


def peers(truth: Prior, epsilon: float) -> Iterator[Peer]:
    """All rows, each for the truth that people's values are drawn from."""
    budget, task = Fraction(str(epsilon)), Histogram()
    yield _peer(EXACT, design(truth, task, budget), "unbiased")
    for tau in RADII:
        stated = shifted(truth, tau)
        yield _peer(off_by(tau), design(stated, task, Promise(budget, prior_set=Ball(stated, tau))), "unbiased")
    yield _peer(MMSE, design(truth, task, budget, aim="mmse"), "mmse", "holds if the prior is exactly right")
    nobody_knows = Prior.uniform(len(truth))
    for method, name in LDP_METHODS.items():
        if method in get_args(Method):
            with suppress(PrivacyError, ValueError):
                found = design(nobody_knows, task, Promise(budget, notion="ldp"), search=Search(method=method))
                yield _peer(name, found, "unbiased")


def plan_of(found: Design) -> Plan:
    """A plan of one group."""
    return Plan.of_groups(
        Histogram(),
        (
            Group(
                name=None,
                epsilon=found.promise.main[1],
                mechanism=found.mechanism,
                notion=found.promise.main[0],
                prior_set=found.promise.prior_set,
            ),
        ),
    )


def _peer(name: str, found: Design, estimator: Any, note: str = "") -> Peer:
    plan = plan_of(found)
    randomizer = Randomizer(plan)
    # Some mechanisms know how many reports they have although these are too many to be listed.
    n_reports = found.mechanism.n_possible_reports or getattr(found.mechanism, "n_reports", None)

    def read(reports: Integers) -> Shares:
        counts = estimate(plan, Tally.of(plan, reports), estimator).columns
        estimated, low, high = (counts[name] / len(reports) for name in ("estimate", "low", "high"))
        return Shares(estimated, None, low, high)

    return Peer(
        system=SYSTEM, protocol=name, epsilon=float(found.promise.main[1]), secure=True,
        notion="LDP" if found.promise.main[0] == "ldp" else "LIP",
        bytes_per_report=8 if n_reports is None else bytes_for(n_reports),
        perturb=lambda values: randomizer.reports(0, values),
        estimate=read,
        in_full=True,
        exact=lambda: _level(found),
        note=f"{found.mechanism.kind}{note and f'; {note}'}",
    )  # fmt: skip


def _level(found: Design) -> Exact:
    """The mechanism's own audit, in integers: for the notion promised, for every prior of the set if there is one."""
    audit = found.mechanism.audit()
    if found.promise.main[0] == "ldp":
        promised = audit.ldp.ratio
    elif found.promise.prior_set is not None:
        sides = [side.ratio for side in found.mechanism.set_levels(found.promise.prior_set)]
        promised = None if None in sides else max(side for side in sides if side is not None)
    else:
        promised = audit.lip.ratio
    if promised is None or audit.ldp.ratio is None:
        raise ValueError(f"{found.mechanism.kind} has no finite level.")
    return Exact(promised, audit.ldp.ratio)
