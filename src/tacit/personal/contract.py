"""Individual priors: a plan without an entry per person, because each record brings its own prior.

A prior is a row of d integers n_k that sum to the plan's resolution D; for two values the second integer alone says it.
The promise is for the prior that was stated, which was rounded to these integers: D times the stated probability of k
lies between l_k = n_k − 1 and u_k = (n_k + 1)·D/(D − N), rounded up and at most D, where N is the number of values with
n_k = 1 (see `stated_between`; a value that was stated with 10⁻¹² has n_k = 1, so l_k = 0). With r = a/b ≤ e^ε and words
of w bits, every program computes the same integers from a prior:

    m_k = max(b·u_k, b·D − a·l_k)  (0 where n_k = 0),   T = (a − b)·D,   M = T + Σ m,
    C_k = ⌈2^w·m_k / M⌉,   S = 2^w − Σ C,   and A_xk = C_k + S·1{x = k} is the weight of report k for the answer x.

This is repaired randomized response for a set of priors (`tacit.designs`), for two values nearly the optimal channel.
Rounding C up makes it ε-LIP for every stated prior and all d, D and w. If q is D times the stated probability of
k, report k has Λ_k = S·q + D·C_k, so the two lifts to bound are D·(S + C_k)/Λ_k ≤ r and D·C_k/Λ_k ≥ 1/r. They say
S·(b·D − a·q) ≤ T·C_k and S·b·q ≤ T·C_k, for all q from l_k to u_k together S·m_k ≤ T·C_k. And S ≤ 2^w·T/M because every
C_k ≥ 2^w·m_k/M, hence S·m_k ≤ T·(2^w·m_k/M) ≤ T·C_k. Rounding up takes less than d words from S. D·a < 2^31 keeps every
product below 2^63; the plan refuses what does not fit, and every prior that is used is checked again in integers.

A holder of a value with n_x = 0 is outside the guarantee and sends a report drawn from the marginal: the cumulative
weights of that row are C_0 + … + C_y + ⌊S·(n_0 + … + n_y)/D⌋, which is Λ/D rounded to whole words.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.disk import kind_of_json, write_text
from tacit.exact import Floats, Integers, Number, at_most_exp, budget, exp_below
from tacit.mechanism import Channel
from tacit.mechanism.protocol import RandomWords
from tacit.plan import PlanError, malformed, read_json, value_from_text
from tacit.prior import Prior, Value
from tacit.randomize import words_of
from tacit.task import Task

FORMAT = 1
RULE = "repaired-response"
#: D·a stays below this, so that D·a·2^32 fits a signed 64-bit integer.
_ROOM = 2**31
_LARGEST_RESOLUTION = 2**20
#: S is at least this many times d, so that rounding costs at most a hundredth of the truthful words.
_LEAST_TRUTH = 100
#: Cells worked on at a time: they stay in the cache.
_CHUNK = 2**16
_SHOWN_ROWS = 5


@dataclass(frozen=True, kw_only=True)
class PersonalPlan:
    """The contract for individual priors: what is asked, the budget, and the rule from a prior to a channel.

    >>> from tacit import Survey
    >>> plan = PersonalPlan.of(Survey("yes"), ["no", "yes"], epsilon=1, resolution=1000)
    >>> plan.bound, plan.channel([900, 100]).matrix.round(3).tolist()
    (Fraction(1084483, 398959), [[0.782, 0.218], [0.269, 0.731]])
    """

    task: Task
    values: tuple[Value, ...]
    epsilon: Fraction
    resolution: int
    bound: Fraction
    word_bits: int = 32
    question: str | None = None

    @classmethod
    def of(
        cls,
        task: Task,
        values: Sequence[Value],
        epsilon: Number,
        resolution: int = 10_000,
        *,
        question: str | None = None,
        word_bits: int = 32,
    ) -> PersonalPlan:
        """A plan with the largest bound r ≤ e^ε that fits the resolution."""
        exact = budget(epsilon)
        bound = largest_bound(exact, resolution)
        return cls(
            task=task, values=tuple(values), epsilon=exact, resolution=resolution, bound=bound, word_bits=word_bits,
            question=question,
        )  # fmt: skip

    def __post_init__(self) -> None:
        d, a, b = len(self.values), self.bound.numerator, self.bound.denominator
        if d < 2 or not d <= self.resolution <= _LARGEST_RESOLUTION:
            got = f"{d} values and the resolution {self.resolution}"
            raise PlanError(f"A personal plan needs 2 or more values and a resolution from d to 2^20. Got {got}.")
        if not 1 <= self.word_bits <= 32:
            raise PlanError(f"The 'word_bits' of a personal plan must lie between 1 and 32. Got {self.word_bits}.")
        if not at_most_exp(self.bound, self.epsilon) or self.resolution * a >= _ROOM:
            limit = f"have a numerator below {_ROOM / self.resolution:.0f}"
            raise PlanError(f"The 'bound' must be at most e^ε and {limit}. Got {self.bound} instead.")
        # S ≥ 2^w·T/M − d and M ≤ T + d·b·D.
        if 2**self.word_bits * (a - b) < _LEAST_TRUTH * d * (a - b + d * b) or a == b:
            room = f"{d} values, a resolution of {self.resolution} and words of {self.word_bits} bits"
            raise PlanError(f"ε = {float(self.epsilon):g} is too small for {room}. Use a larger ε or fewer values.")
        # Refuses a task that these values cannot serve.
        object.__setattr__(self, "task", self.task.as_planned(Prior.uniform(self.values)))

    @cached_property
    def g(self) -> Floats:
        """g(x) for every value and component; a weighted sum's weights come with the reports."""
        return self.task.g(Prior.uniform(self.values))

    def rows(self, prior: Sequence[int] | int) -> list[list[int]]:
        """The integer channel of one prior over 2^w, one row per answer."""
        (units,) = prior_rows(self, np.asarray([prior])).tolist()
        parts, (truth,) = channels(self, np.array([units]).T)
        common, truth = parts[:, 0].tolist(), int(truth)
        shares = [truth * part // self.resolution for part in accumulate(units)]
        marginal = [c + high - low for c, high, low in zip(common, shares, [0, *shares], strict=False)]
        return [
            [c + truth * (k == x) for k, c in enumerate(common)] if n else list(marginal) for x, n in enumerate(units)
        ]

    def channel(self, prior: Sequence[int] | int) -> Channel:
        """The channel of one prior, to be audited or shown."""
        (units,) = prior_rows(self, np.asarray([prior])).tolist()
        return Channel.from_weights(Prior(self.values, units), self.rows(prior))

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the contract in canonical JSON, as for other plans: it names the plan."""
        text = json.dumps(self._fields(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def _fields(self) -> dict[str, Any]:
        prior = Prior.uniform(self.values)
        return {
            "tacit_personal_plan": FORMAT,
            "question": self.question,
            "task": self.task.to_dict(prior),
            "domain": {"numeric": prior.is_numeric, "values": [str(value) for value in self.values]},
            "epsilon": str(self.epsilon),
            "resolution": self.resolution,
            "rule": RULE,
            "bound": str(self.bound),
            "word_bits": self.word_bits,
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"hash": self.hash} | self._fields()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PersonalPlan:
        """Read a plan, and refuse one that was altered or whose bound exceeds e^ε."""
        if "tacit_plan" in data:
            raise PlanError("This is a plan for groups that share a prior: leave the word `personal` out.")
        if "tacit_personal_plan" not in data and (kind := kind_of_json(data)):
            raise PlanError(f"This is {kind}. A plan is what `tacit personal plan` writes; commands take it first.")
        if data.get("tacit_personal_plan") != FORMAT or data.get("rule") != RULE:
            raise PlanError(f"Not a personal plan of format {FORMAT} with the rule '{RULE}'.")
        try:
            domain = data["domain"]
            values = tuple(value_from_text(text) if domain["numeric"] else text for text in domain["values"])
            plan = cls(
                task=Task.from_dict(data["task"], values),
                values=values,
                epsilon=budget(data["epsilon"]),
                resolution=int(data["resolution"]),
                bound=Fraction(data["bound"]),
                word_bits=int(data["word_bits"]),
                question=data["question"],
            )
            stated = data["hash"]
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise malformed(error) from error
        if plan.hash != stated:
            raise PlanError("This plan was altered: its content does not match its hash.")
        return plan

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, atomically."""
        write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> PersonalPlan:
        """Read and check a plan file."""
        return cls.from_dict(read_json(path))


def largest_bound(epsilon: Fraction, resolution: int) -> Fraction:
    """The largest fraction r = a/b ≤ e^ε with b ≤ B, where B = ⌊(2^31 − 1) / (D·⌈e^ε⌉)⌋ keeps D·a below 2^31.

    It is the fraction nearest to e^ε if that lies below, else that fraction's left neighbour in the Farey sequence.

    >>> largest_bound(Fraction(1), 10_000)
    Fraction(173459, 63812)
    """
    below = exp_below(epsilon)
    largest = (_ROOM - 1) // max(1, resolution) // (int(below) + 1)
    if largest < 1:
        raise PlanError(f"ε = {float(epsilon):g} is too large for a resolution of {resolution}. Use a coarser one.")
    near = below.limit_denominator(largest)
    if near <= below:
        return near
    p, q = near.numerator, near.denominator
    b = pow(p, -1, q)
    b += (largest - b) // q * q
    return Fraction((p * b - 1) // q, b)


def prior_rows(plan: PersonalPlan, priors: Any) -> Integers:
    """Priors as an array of n rows of d integers that sum to D; for two values the second numbers alone will do.

    >>> from tacit import Survey
    >>> prior_rows(PersonalPlan.of(Survey("yes"), ["no", "yes"], 1, 1000), [100, 999]).tolist()
    [[900, 100], [1, 999]]
    """
    rows = as_rows(plan, priors)
    bad = ~valid_rows(plan, rows)
    if bad.any():
        first = ", ".join(str(row + 1) for row in np.flatnonzero(bad)[:_SHOWN_ROWS])
        raise ValueError(
            f"A prior must be non-negative integers that sum to the plan's resolution {plan.resolution}. "
            f"{int(bad.sum())} are not, first in rows {first}; see 'quantise'."
        )
    return rows


def as_rows(plan: PersonalPlan, priors: Any) -> Integers:
    """The same without a look at the numbers."""
    array, d = np.asarray(priors), len(plan.values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"Priors must be integers. Got {array.dtype} instead; see 'quantise'.")
    array = array.astype(np.int64, copy=False)
    if d == 2 and array.ndim == 1:
        array = np.stack([plan.resolution - array, array], axis=1)
    if array.ndim != 2 or array.shape[1] != d:
        raise ValueError(f"Priors must have a row of {d} integers for each respondent. Got the shape {array.shape}.")
    return array


def valid_rows(plan: PersonalPlan, rows: Integers) -> NDArray[np.bool_]:
    """Which rows are priors of the plan's resolution."""
    # By columns: numpy is slow along short rows.
    good, total = np.ones(len(rows), dtype=bool), np.zeros(len(rows), dtype=np.int64)
    for units in rows.T:
        good &= (units >= 0) & (units <= plan.resolution)
        total += units
    good &= total == plan.resolution
    return good


def channels(plan: PersonalPlan, columns: Integers) -> tuple[Integers, Integers]:
    """C of shape (d, n) and S of shape (n,) for priors in columns (d, n), checked against the definition of LIP.

    The check, for every report of a possible value, exact in 64 bits: b·Λ ≤ a·D·C for the largest stated probability,
    and b·D·(S + C) ≤ a·Λ for the smallest.
    """
    total, (a, b), bits = plan.resolution, plan.bound.as_integer_ratio(), plan.word_bits
    possible = columns > 0
    low, high = stated_between(columns, total)
    m = np.maximum(b * high, b * total - a * low) * possible
    whole = ((a - b) * total + m.sum(axis=0)).astype(np.uint64)
    common = (((m.astype(np.uint64) << np.uint64(bits)) + (whole - np.uint64(1))) // whole).astype(np.int64)
    truth = 2**bits - common.sum(axis=0)
    kept = b * (truth * high + total * common) <= a * total * common
    kept &= b * total * (truth + common) <= a * (truth * low + total * common)
    if not (kept | ~possible).all() or (truth < 1).any():
        raise PlanError("A rounded channel does not keep the promise. This cannot happen; please report it.")
    return common, truth


def stated_between(columns: Integers, total: int) -> tuple[Integers, Integers]:
    """Bounds l and u of D times the stated probabilities that are rounded to the integers n in columns (d, n).

    A stated probability below 1/D gets one unit. Of the D − s units that s such values leave, the others get their
    part, rounded down or up: n = (D − s)·p/(1 − P) up to less than 1, where the s values have P < s/D together. So D·p
    lies between (n ± 1)·D·(1 − P)/(D − s), and the factor between 1 and D/(D − N), as s ≤ N, the number of ones.

    >>> [part.T.tolist() for part in stated_between(np.array([[9_998, 1, 1]]).T, 10_000)]
    [[[9997, 0, 0]], [[10000, 3, 3]]]
    """
    others = np.maximum(1, total - (columns == 1).sum(axis=0))
    low: Integers = np.maximum(columns - 1, 0)
    high: Integers = np.minimum(total, -(-(columns + 1) * total // others))
    return low, high


def check_every_prior(plan: PersonalPlan) -> int | None:
    """Check the channel of every prior of a plan for two values, and return how many; raise if one breaks the promise.

    For more values they are too many; the module's proof covers all, and each one that is used is checked.

    >>> from tacit import Survey
    >>> check_every_prior(PersonalPlan.of(Survey("yes"), ["no", "yes"], 1, 1000))
    1001
    """
    if len(plan.values) > 2:
        return None
    second = np.arange(plan.resolution + 1)
    for start in range(0, len(second), _CHUNK):
        part = second[start : start + _CHUNK]
        channels(plan, np.stack([plan.resolution - part, part]))
    return len(second)


def reports_for(plan: PersonalPlan, priors: Any, answers: Any, words: Any) -> Integers:
    """The reports for given words of w bits: the number of cumulative weights that are at most the word."""
    rows, held = prior_rows(plan, priors), np.asarray(answers)
    if held.dtype.kind not in "iu" or held.shape != (len(rows),) or len(words) != len(rows):
        raise ValueError("Answers must be one position in the plan's values for each prior, as integers.")
    if len(held) and not 0 <= held.min() <= held.max() < len(plan.values):
        raise ValueError(f"Answers must be positions from 0 to {len(plan.values) - 1}. Some are not.")
    reports = np.zeros(len(rows), dtype=np.int64)
    step = max(1, _CHUNK // len(plan.values))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        _apply(plan, np.ascontiguousarray(rows[part].T), held[part], words[part].astype(np.int64), reports[part])
    return reports


def _apply(plan: PersonalPlan, columns: Integers, held: Any, words: Integers, reports: Integers) -> None:
    common, truth = channels(plan, columns)
    outside = np.flatnonzero(columns[held, np.arange(len(held))] == 0)
    below, share = np.zeros_like(truth), np.zeros(len(outside), dtype=np.int64)
    for y in range(len(columns) - 1):
        below += common[y]
        edges = below + truth * (held <= y)
        if len(outside):
            share += columns[y, outside]
            edges[outside] = below[outside] + truth[outside] * share // plan.resolution
        reports += edges <= words


def perturb(plan: PersonalPlan, priors: Any, answers: Any, words: RandomWords | int | None = None) -> Integers:
    """A report for each respondent of a `plan`, with fresh secure words, or those of `words` (a seed for simulations).

    `priors` are rows of integers over the plan's resolution (for two values, the second value's integers), `answers`
    positions in `plan.values`.

    >>> from tacit import Survey
    >>> plan = PersonalPlan.of(Survey("yes"), ["no", "yes"], 1, 1000)
    >>> perturb(plan, np.array([100, 250, 999]), np.array([0, 1, 1])).shape
    (3,)
    """
    drawn = words_of(words).draw(len(answers), 32)
    return reports_for(plan, priors, answers, drawn >> np.uint32(32 - plan.word_bits))
