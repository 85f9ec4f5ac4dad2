"""What a plan promises and claims, judged from the definitions alone: nothing of the package is used here.

A plan is taken as the JSON it is. Privacy is decided in fractions: e^ε is enclosed by its series. Errors are computed
from their definitions, and claims about all channels are held against a linear program over the vertices of the
promise (`support.oracle`) and against channels drawn at random from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog

from support.oracle import best_gain, box_vertices, gain_of, ldp_vertices, ratio_vertices

#: Linear programs in floats tell nothing about values that are less likely than this.
SMALLEST = 1e-5


def exp_between(epsilon: Fraction, terms: int) -> tuple[Fraction, Fraction]:
    """Σ_{k<n} ε^k/k! and the same with a bound of the rest, n > 2ε: each further term is less than half of the last."""
    term = total = Fraction(1)
    for k in range(1, terms):
        term *= epsilon / k
        total += term
    return total, total + 2 * term


def at_most_exp(ratio: Fraction, epsilon: Fraction) -> bool:
    """ratio ≤ e^ε."""
    terms = 3 * math.ceil(epsilon) + 20
    while True:
        low, high = exp_between(epsilon, terms)
        if ratio <= low or ratio > high:
            return ratio <= low
        terms *= 2


def complaints(plan: dict[str, Any], rng: np.random.Generator) -> Iterator[str]:
    """What is wrong with a plan of tables, in words; nothing if all is right."""
    for group in plan["blocks"][0]["groups"]:
        rows = [[Fraction(cell) for cell in row] for row in group["mechanism"]["rows"]]
        prior = [Fraction(weight) for weight in group["prior"]]
        prior = [weight / sum(prior) for weight in prior]
        denominator = Fraction(group["mechanism"]["denominator"])
        if any(sum(row) != denominator or min(row) < 0 for row in rows):
            yield "a row is no distribution"
        yield from _broken_promises(group, prior, [[cell / denominator for cell in row] for row in rows])
        if group["certificate"] is not None:
            yield from _false_claims(plan, group, prior, rows, rng)


def _broken_promises(group: dict[str, Any], prior: list[Fraction], q: list[list[Fraction]]) -> Iterator[str]:
    epsilon, inside = Fraction(group["epsilon"]), [x for x, p in enumerate(prior) if p]
    for column in zip(*q, strict=True):
        if not any(column[x] for x in inside):
            continue
        if group["notion"] == "lip":
            for least, most in (_means(group.get("prior_set"), prior, column),):
                for x in inside:
                    if not least or not at_most_exp(column[x] / least, epsilon):
                        yield f"a belief in value {x} rises by more than e^{epsilon}"
                    if not column[x] or not at_most_exp(most / column[x], epsilon):
                        yield f"a belief in value {x} falls by more than e^{epsilon}"
        caps = [Fraction(group["ldp_cap"])] if "ldp_cap" in group else []
        for level in [*caps, *([epsilon] if group["notion"] == "ldp" else [])]:
            if not min(column) or not at_most_exp(max(column) / min(column), level):
                yield f"odds move by more than e^{level}"


def _means(around: dict[str, Any] | None, prior: list[Fraction], column: Sequence[Fraction]) -> tuple[Any, Any]:
    """The least and the largest P·w over the priors of a set."""
    if around is None:
        mean = sum(p * w for p, w in zip(prior, column, strict=True))
        return mean, mean
    if around["kind"] == "hull":
        members = [prior] + [[Fraction(weight) for weight in each] for each in around["candidates"]]
        means = [sum(p * w for p, w in zip(each, column, strict=True)) / sum(each) for each in members]
        return min(means), max(means)
    assert around["kind"] == "ball"
    inside = [x for x, p in enumerate(prior) if p]
    ends = []
    for sign in (1, -1):
        order = sorted(inside, key=lambda x: sign * column[x])
        moved, masses, left = Fraction(0), list(prior), Fraction(around["radius"])
        for x in reversed(order[1:]):
            taken = min(masses[x], left)
            masses[x] -= taken
            left -= taken
            moved += taken
        masses[order[0]] += moved
        ends.append(sum(p * w for p, w in zip(masses, column, strict=True)))
    return min(ends), max(ends)


def _false_claims(
    plan: dict[str, Any], group: dict[str, Any], prior: list[Fraction], rows: Any, rng: np.random.Generator
) -> Iterator[str]:
    stated, inside = group["certificate"], [x for x, p in enumerate(prior) if p]
    p, g = np.array([float(prior[x]) for x in inside]), _task(plan)[inside]
    q = np.array([[float(cell) for cell in rows[x]] for x in inside]) / float(group["mechanism"]["denominator"])
    marginal = p @ q
    lifts = (q[:, marginal > 0] / marginal[marginal > 0]).T
    spread = float(p @ ((g - p @ g) ** 2).sum(axis=1))
    error = spread - float(marginal[marginal > 0] @ gain_of(p, g, lifts))
    # What floats lose in differences of numbers of the size of g².
    scale = 1e-7 * spread + 1e-13 * float((g**2).max())
    if abs(stated["mse"] - error) > scale or abs(stated["prior_variance"] - spread) > scale:
        yield f"the mse is {error}, not {stated['mse']}"
    if p.min() < SMALLEST or "prior_set" in group or len(inside) == 1:
        return
    vertices = _vertices(group, p)
    best = best_gain(p, g, vertices)
    if stated["aim"] == "mmse" and spread - stated["lower_bound"] < best * (1 - 1e-6) - scale:
        yield f"a channel removes {best}, more than the stated bound {spread - stated['lower_bound']}"
    if stated["aim"] == "unbiased":
        found = _variance(p, g, lifts, marginal[marginal > 0])
        if not math.isclose(stated["unbiased_variance"] or 0, found, rel_tol=1e-5, abs_tol=scale):
            yield f"the unbiased variance is {found}, not {stated['unbiased_variance']}"
        for other in _rivals(p, vertices, rng):
            rival = _variance(p, g, vertices, other)
            if rival < stated["lower_bound"] * (1 - 1e-6) - scale:
                yield f"a channel has the variance {rival}, below {stated['lower_bound']}"


def _task(plan: dict[str, Any]) -> np.ndarray:
    values, kind = plan["questions"][0]["answers"], plan["blocks"][0]["task"]["kind"]
    if kind == "histogram":
        return np.eye(len(values))
    if kind == "survey":
        return np.array([[float(x in plan["blocks"][0]["task"]["values"])] for x in range(len(values))])
    return np.array([[float(value)] for value in values])


def _vertices(group: dict[str, Any], p: np.ndarray) -> np.ndarray:
    e = math.exp(Fraction(group["epsilon"]))
    if group["notion"] == "ldp":
        return ldp_vertices(p, e)
    if "ldp_cap" in group:
        return ratio_vertices(p, 1 / e, e, math.exp(Fraction(group["ldp_cap"])))
    return box_vertices(p, 1 / e, e)


def _variance(p: np.ndarray, g: np.ndarray, lifts: np.ndarray, marginal: np.ndarray) -> float:
    """tr(gᵀ J⁺ g) − |E g|², J = Σ λ v vᵀ; infinite where J does not determine g."""
    moment = (lifts * marginal[:, None]).T @ lifts
    inverse = np.linalg.pinv(moment, rcond=1e-9, hermitian=True)
    if np.abs(moment @ inverse @ g - g).max() > 1e-5 * max(1.0, np.abs(g).max()):
        return math.inf
    return float((g * (inverse @ g)).sum() - ((p @ g) ** 2).sum())


def _rivals(p: np.ndarray, vertices: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Report probabilities over the vertices: the best for random objectives, mixed."""
    drawn = []
    for _ in range(4):
        cost = rng.normal(size=len(vertices))
        found = linprog(cost, A_eq=vertices.T, b_eq=np.ones(len(p)), method="highs", options={"time_limit": 5.0})
        if found.status == 0:
            drawn.append(found.x)
    for _ in range(4 if drawn else 0):
        share = rng.dirichlet(np.ones(len(drawn)))
        yield np.maximum(share @ np.array(drawn), 0.0)
