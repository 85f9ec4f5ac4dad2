"""What every mechanism of `KINDS` promises, tested from the definitions. A new one is tested by being listed.

Each kind has small examples, whose words have so few bits that all of them are drawn. What a mechanism does is then
known exactly: the matrix Q(y|x) of counted words. Its audit, its beliefs and its estimates are judged against that.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from tacit import Histogram, NotEstimableError, Prior, Sum, Survey, mse, unbiased_variance
from tacit.designs._many_values import giants_alone
from tacit.mechanism import KINDS, BlockDesign, Channel, ManyValues, Mechanism, Tiers
from tacit.mechanism.tiers import tail_of
from tacit.task import Task, prior_variance

from support.toy import KaryRule

FOUR, SKEWED, GIANTS = Prior.of([3, 1, 2, 2]), Prior.of([9, 1, 4, 2]), Prior.of([6, 5, 2, 1, 1, 1])
#: A table whose rows cover one giant or two.
_TABLE = {
    "giants": 3,
    "covered": 4,
    "rows": ((4, 1, 1, 2), (4, 1, 0, 1, 1, 1), (4, 1, 2, 2), (4, 0, 0, 2, 2, 2), (9, 0, 0, 4), (7, 0, 1, 4)),
}
_PLANE = {"slots": 3, "first": 1, "second": 1, "seed_bits": 2}


def _many(prior: Prior, **numbers: Any) -> ManyValues:
    if "rows" in numbers:
        return ManyValues(prior=prior, **numbers)
    return giants_alone(prior=prior, **{"giants": 0, "covered": numbers["arc"]} | numbers)


def _tiers(prior: Prior, starts: tuple[int, ...], chances: tuple[int, ...], *rules: dict[str, int]) -> Tiers:
    parts = [_many(tail_of(prior, start), **rule) for start, rule in zip(starts, rules, strict=True)]
    return Tiers(prior=prior, starts=starts, chances=chances, parts=tuple(parts))


@dataclass(frozen=True)
class Example:
    """A small mechanism, how many leading bits of each word matter, and how exact its unbiased estimates are.

    `bias` is the largest |E[t | x] − g(x)|: block designs draw uniformly up to A·M/2^w, seeds that shuffle stand for
    all orders there could be. None where words are too short to ask.
    """

    mechanism: Mechanism
    bits: int
    bias: float | None


#: Of every kind: small enough to draw all words, and, with long words, exact enough to be unbiased.
EXAMPLES: dict[str, list[Example]] = {
    "table": [
        Example(Channel.from_weights(FOUR, [[8, 4, 2, 2], [2, 8, 4, 2], [2, 2, 8, 4], [4, 2, 2, 8]]), 4, 1e-12),
        Example(Channel.from_weights(SKEWED, [[3, 1], [1, 3], [2, 2], [2, 2]]), 2, None),
        Example(Channel.from_weights(Prior.of({"a": 1, "b": 2}), [[5, 2, 1], [1, 2, 5]]), 3, 1e-12),
    ],
    "many-values": [
        Example(_many(FOUR, arc=2, step=4, cell_bits=3, seed_bits=4, word_bits=6), 6, None),
        Example(_many(Prior.of([5, 6, 5]), arc=5, step=4, cell_bits=4, seed_bits=2, word_bits=6), 6, None),
        Example(_many(SKEWED, arc=4, step=2, cell_bits=4, word_bits=6, **_PLANE), 6, None),
        Example(_many(SKEWED, arc=4, step=3, cell_bits=4, word_bits=7, light=3, **_PLANE), 7, 0.1),
        Example(_many(GIANTS, giants=2, covered=5, arc=4, step=2, cell_bits=4, word_bits=5, **_PLANE), 5, None),
        Example(_many(GIANTS, giants=1, covered=5, arc=5, step=2, cell_bits=4, word_bits=5, **_PLANE), 5, None),
        Example(_many(GIANTS, arc=2, step=4, cell_bits=4, word_bits=5, **_TABLE, **_PLANE), 5, None),
        Example(_many(GIANTS, arc=5, step=3, cell_bits=4, word_bits=4, seed_bits=0, bins=2, heavy=3), 4, None),
        Example(_many(FOUR, arc=2, step=3, cell_bits=3, word_bits=4, seed_bits=0, bins=1, heavy=1), 4, None),
    ],
    "block-design": [
        Example(BlockDesign(prior=Prior.of([3, 1, 1, 2, 1]), circle=5, orders=4, arc=2, step=7, word_bits=5), 5, 0.2),
        Example(
            BlockDesign(
                prior=Prior.uniform(7), circle=7, orders=1, arc=3, step=6, field=2, recurrence=(1, 1, 0), word_bits=6
            ), 6, 0.1,
        ),
        Example(
            BlockDesign(
                prior=Prior.uniform(6), circle=7, orders=1, arc=4, step=6, field=2, recurrence=(1, 1, 0), word_bits=5
            ), 5, 0.2,
        ),
        Example(
            BlockDesign(
                prior=Prior.uniform(8), circle=21, orders=1, arc=5, step=6, field=4, recurrence=(1, 1, 0, 0, 0, 0),
                word_bits=6,
            ), 6, 0.4,
        ),
        Example(BlockDesign(prior=FOUR, circle=4, orders=1, arc=1, step=9, word_bits=4), 4, 1e-9),
    ],
    "tiers": [
        Example(
            _tiers(
                SKEWED, (0, 1), (1, 3), {"arc": 4, "step": 2, "cell_bits": 4, "word_bits": 5, "seed_bits": 2},
                {"arc": 3, "step": 3, "cell_bits": 4, "word_bits": 5, "seed_bits": 2},
            ), 5, None,
        ),
        Example(
            _tiers(
                Prior.of([5, 1, 1, 2, 1]), (0, 2), (1, 1),
                {"arc": 4, "step": 2, "cell_bits": 4, "word_bits": 5, **_PLANE},
                {"arc": 3, "step": 4, "cell_bits": 4, "word_bits": 5, **_PLANE},
            ), 5, None,
        ),
        Example(
            _tiers(
                Prior.of([5, 1, 1, 1]), (0, 1), (1, 1),
                {"giants": 1, "covered": 3, "arc": 2, "step": 3, "cell_bits": 3, "word_bits": 4, **_PLANE},
                {"arc": 3, "step": 2, "cell_bits": 3, "word_bits": 4, **_PLANE},
            ), 4, None,
        ),
    ],
    KaryRule.kind: [Example(KaryRule(prior=FOUR, truth=3, word_bits=4), 4, 1e-9)],
}  # fmt: skip
ALL = [pytest.param(each, id=f"{kind} {k}") for kind, examples in EXAMPLES.items() for k, each in enumerate(examples)]
TASKS: tuple[Task, ...] = (Histogram(), Survey(0), Sum())


class FixedWords:
    """Words whose leading bits are given; the bits behind them are all 0 or all 1."""

    per_thread = False

    def __init__(self, leading: Sequence[int], bits: int, ones: bool = False) -> None:
        self.left, self.bits, self.ones = list(leading), bits, ones

    def integer(self, bits: int) -> int:
        behind = bits - self.bits
        return self.left.pop(0) << behind | ((1 << behind) - 1 if self.ones else 0)

    def draw(self, count: int, bits: int) -> Any:
        return np.array([self.integer(bits) for _ in range(count)], dtype=f"u{bits // 8}")


def n_words(mechanism: Mechanism) -> int:
    return int(getattr(mechanism, "words_per_report", 1))


@cache
def channel(kind: str, k: int) -> dict[int, list[Fraction]]:
    """Q(y|x) of every report y, by drawing every word through the sampler, a respondent for each."""
    example = EXAMPLES[kind][k]
    mechanism, sampler = example.mechanism, type(example.mechanism).sampler([example.mechanism])
    every = list(itertools.product(range(1 << example.bits), repeat=n_words(mechanism)))
    rows = []
    for x in range(len(mechanism.prior)):
        sources = [FixedWords(words, example.bits) for words in every]
        rows.append(Counter(sampler.each(np.full(len(every), x), sources).tolist()))
        assert not any(source.left for source in sources), "a report takes as many words as stated"
    reports = sorted(set().union(*rows))
    return {report: [Fraction(row[report], len(every)) for row in rows] for report in reports}


def drawn_by(example: Example) -> dict[int, list[Fraction]]:
    kind = example.mechanism.kind
    return channel(kind, EXAMPLES[kind].index(example))


def marginal(example: Example, report: int) -> Fraction:
    prior = example.mechanism.prior
    return sum(
        (Fraction(w, prior.total) * q for w, q in zip(prior.weights, drawn_by(example)[report], strict=True)),
        Fraction(0),
    )


def test_every_kind_has_examples() -> None:
    assert set(EXAMPLES) >= set(KINDS)
    for kind, examples in EXAMPLES.items():
        assert {each.mechanism.kind for each in examples} == {kind}


# -- sampling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", ALL)
def test_every_word_gives_the_stated_probabilities(example: Example) -> None:
    for report, column in drawn_by(example).items():
        assert column == [example.mechanism.likelihood(x, report) for x in range(len(column))]
    total = [sum(column[x] for column in drawn_by(example).values()) for x in range(len(example.mechanism.prior))]
    assert total == [1] * len(total)


@pytest.mark.parametrize("example", ALL)
def test_bits_behind_the_leading_ones_do_not_matter_and_a_wrong_rule_is_found(example: Example) -> None:
    mechanism, sampler = example.mechanism, type(example.mechanism).sampler([example.mechanism])
    rng = np.random.default_rng(0)
    for words in rng.integers(0, 1 << example.bits, (50, n_words(mechanism))).tolist():
        for x in range(len(mechanism.prior)):
            zeros, ones, same = (FixedWords(words, example.bits, end) for end in (False, True, False))
            (report,) = sampler.each(np.array([x]), [same])
            assert sampler.one(0, x, zeros) == sampler.one(0, x, ones) == report
            assert not zeros.left, "a report takes as many words as stated"
    # The named wrong answer: values in another order have other probabilities.
    drawn = drawn_by(example)
    assert any(column != [mechanism.likelihood(x, report) for x in reversed(range(len(column)))]
               for report, column in drawn.items())  # fmt: skip


@pytest.mark.parametrize("example", ALL)
def test_exactly_the_reports_that_are_drawn_can_be_sent(example: Example) -> None:
    mechanism, drawn = example.mechanism, set(drawn_by(example))
    most = max(drawn)
    asked = np.array([*range(-3, min(most + 4, 70_000)), *(most + k for k in (1, 2, 2**32)), -(2**40)], dtype=np.int64)
    sent = mechanism.can_send_many(asked)
    assert sent.tolist() == [mechanism.can_send(int(report)) for report in asked]
    possible = {int(report) for report in asked[sent]}
    assert drawn <= possible | {report for report in drawn if report >= 70_000}
    assert all(mechanism.can_send(report) for report in drawn)
    # Some reports may need longer words than these; none that a value sends is missing.
    unsent = possible - drawn
    assert all(mechanism.likelihood(x, report) == 0 for report in unsent for x in range(len(mechanism.prior)))
    if mechanism.n_possible_reports is not None:
        assert drawn == set(range(mechanism.n_possible_reports))


# -- the promise -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", ALL)
def test_the_audit_is_that_of_the_definitions(example: Example) -> None:
    """Equal for what is written out; a bound, and no further off than e², for what is proved in general."""
    mechanism, drawn = example.mechanism, drawn_by(example)
    found, support = mechanism.audit(), mechanism.prior.support
    lifts = [column[x] / marginal(example, report) for report, column in drawn.items() for x in support]
    upper, lower = max(lifts), min(lifts)
    odds = max(
        (max(column) / min(column) if min(column) else None for column in drawn.values()),
        key=lambda ratio: math.inf if ratio is None else ratio,
    )
    for stated, true in ((found.lip_upper, upper), (found.lip_lower, 1 / lower if lower else None), (found.ldp, odds)):
        if mechanism.n_possible_reports is not None:
            assert stated.ratio == true
        elif stated.ratio is not None:
            assert true is not None
            assert true <= stated.ratio
    if mechanism.n_possible_reports is not None:
        information = sum(
            float(Fraction(mechanism.prior.weights[x], mechanism.prior.total) * column[x])
            * math.log(column[x] / marginal(example, report))
            for report, column in drawn.items() for x in support if column[x]
        )  # fmt: skip
        assert found.mip == pytest.approx(information, abs=1e-12)


@pytest.mark.parametrize("example", ALL)
def test_it_keeps_exactly_what_the_audit_says(example: Example) -> None:
    mechanism = example.mechanism
    found = mechanism.audit()
    for notion, level in (("lip", found.lip), ("ldp", found.ldp)):
        if level.ratio is None:
            assert not mechanism.keeps(notion, Fraction(50))  # type: ignore[arg-type]
            continue
        assert mechanism.keeps(notion, Fraction(level.epsilon) + Fraction(1, 10**12))  # type: ignore[arg-type]
        assert not mechanism.keeps(notion, Fraction(level.epsilon) - Fraction(1, 10**9))  # type: ignore[arg-type]


@pytest.mark.parametrize("example", ALL)
def test_beliefs_stay_within_the_stated_range(example: Example) -> None:
    mechanism, prior = example.mechanism, example.mechanism.prior
    for x, value in enumerate(prior.values):
        stated = mechanism.belief(value)
        assert stated.prior == prior.probability(value)
        for report, column in drawn_by(example).items():
            believed = stated.prior * column[x] / marginal(example, report)
            assert stated.low <= believed <= stated.high


@pytest.mark.parametrize("example", ALL)
def test_another_prior_is_audited_or_refused(example: Example) -> None:
    mechanism, prior = example.mechanism, example.mechanism.prior
    assert mechanism.under(prior).to_dict() == mechanism.to_dict()
    with pytest.raises(ValueError, match=r"prior|values"):
        mechanism.under(Prior.uniform(len(prior) + 1))
    other = Prior(prior.values, [weight + 1 + 5 * (x == 0) for x, weight in enumerate(prior.weights)])
    try:
        moved = mechanism.under(other)
    except ValueError:
        return
    assert moved.prior == other
    upper = max(
        column[x] / sum(Fraction(w, other.total) * q for w, q in zip(other.weights, column, strict=True))
        for column in drawn_by(example).values() for x in other.support
    )  # fmt: skip
    assert moved.audit().lip_upper.ratio >= upper
    assert moved.audit().ldp.ratio == mechanism.audit().ldp.ratio


# -- what is kept ------------------------------------------------------------------------------------------------------


def some_reports(example: Example, n: int = 300) -> np.ndarray:
    mechanism, rng = example.mechanism, np.random.default_rng(1)
    held = rng.choice(len(mechanism.prior), n, p=mechanism.prior.probabilities)
    reports, drawn = list(drawn_by(example)), np.array(list(drawn_by(example).values()), dtype=float)
    return np.array([rng.choice(reports, p=drawn[:, x] / drawn[:, x].sum()) for x in held], dtype=np.int64)


@pytest.mark.parametrize("example", ALL)
def test_any_split_and_order_of_reports_is_kept_as_the_same(example: Example) -> None:
    mechanism, reports = example.mechanism, some_reports(example)
    whole = mechanism.keep(reports)
    assert whole.total == len(reports)
    assert whole.is_counted == (mechanism.n_sums is None)
    for cut in (0, 1, 150, 299, 300):
        assert mechanism.keep(reports[:cut]).merge(mechanism.keep(reports[cut:])) == whole
        assert mechanism.keep(reports[cut:]).merge(mechanism.keep(reports[:cut])) == whole
    assert mechanism.keep(np.random.default_rng(2).permutation(reports)) == whole
    assert mechanism.keep(*np.unique(reports, return_counts=True)) == whole
    assert type(whole).from_dict(json.loads(json.dumps(whole.to_dict()))) == whole
    whole.check(mechanism.n_sums, mechanism.can_send_many, "the plan")
    assert mechanism.keep(reports[1:]) != whole  # The named wrong answer: one report less.


# -- what reports tell -------------------------------------------------------------------------------------------------


def asked(mechanism: Mechanism) -> list[Task]:
    tasks: list[Task] = []
    for task in TASKS:
        try:
            task.g(mechanism.prior)
            mechanism.gain(task)
        except (KeyError, TypeError, ValueError):
            continue
        tasks.append(task)
    assert any(isinstance(task, Histogram) for task in tasks)
    return tasks


@pytest.mark.parametrize("example", ALL)
def test_pseudo_values_are_unbiased_for_every_answer(example: Example) -> None:
    mechanism, drawn = example.mechanism, drawn_by(example)
    reports = np.array(list(drawn), dtype=np.int64)
    for task in asked(mechanism):
        try:
            rows = mechanism.pseudo_values(task, reports)
        except NotEstimableError:
            assert math.isinf(unbiased_variance(mechanism, task))
            with pytest.raises(NotEstimableError):
                mechanism.read("unbiased", task, mechanism.keep(reports))
            continue
        means = np.array(list(drawn.values()), dtype=float).T @ rows
        if example.bias is not None:
            assert np.abs(means - task.g(mechanism.prior)).max() <= example.bias
            # The named wrong answer: the reports themselves, without what randomization is corrected by.
            shrunk = mechanism.prior.probabilities @ task.g(mechanism.prior)
            assert np.abs(means - shrunk).max() > 2 * example.bias
        several = mechanism.pseudo_values(task, reports, [0]) if task.per_value else rows[:, :1]
        assert np.allclose(several[:, 0], rows[:, 0], atol=1e-6)


@pytest.mark.parametrize("example", ALL)
def test_reading_adds_pseudo_values_up_and_merged_halves_read_as_the_whole(example: Example) -> None:
    mechanism, reports = example.mechanism, some_reports(example)
    whole, halves = mechanism.keep(reports), mechanism.keep(reports[:90]).merge(mechanism.keep(reports[90:]))
    for task in asked(mechanism):
        for estimator in ("mmse", "unbiased", "mle"):
            try:
                read = mechanism.read(estimator, task, whole)
            except NotEstimableError:
                assert estimator != "mmse"
                continue
            again = mechanism.read(estimator, task, halves)
            assert np.array_equal(read.estimate, again.estimate, equal_nan=True)
            assert np.array_equal(read.variance, again.variance, equal_nan=True)
            assert (read.variance >= 0).all()
            if estimator == "unbiased":
                each = mechanism.pseudo_values(task, reports)
                assert read.estimate == pytest.approx(each.sum(axis=0), abs=1e-2)
            if estimator == "mmse" and task.per_value:
                assert read.estimate.sum() == pytest.approx(len(reports), rel=0.2)


@pytest.mark.parametrize("example", ALL)
def test_a_report_removes_no_more_than_the_definition_allows(example: Example) -> None:
    """Σ_y λ_y |E[g|y] − E g|² for what reads all of a report; less for what reads its coverage only."""
    mechanism, drawn, prior = example.mechanism, drawn_by(example), example.mechanism.prior
    q = np.array(list(drawn.values()), dtype=float)
    share = q @ prior.probabilities
    for task in asked(mechanism):
        g = task.g(prior)
        means = (q * prior.probabilities / share[:, None]) @ g
        best = float(share @ ((means - prior.probabilities @ g) ** 2).sum(axis=1))
        found = mechanism.gain(task)
        assert 0 <= found <= best * 1.15 + 1e-12
        if mechanism.n_possible_reports is not None:
            assert found == pytest.approx(best, rel=1e-9)
        assert mse(mechanism, task) == pytest.approx(prior_variance(prior, task) - found)


@pytest.mark.parametrize("example", ALL)
def test_the_prior_is_checked_by_a_chi_square(example: Example) -> None:
    mechanism = example.mechanism
    statistic, freedom = mechanism.prior_statistic(mechanism.keep(np.tile(some_reports(example), 20)))
    assert statistic >= 0
    assert freedom >= 0
    assert mechanism.prior_statistic(mechanism.keep(np.zeros(0, dtype=np.int64)))[1] == 0
    assert (mechanism.prior_scores(mechanism.keep(some_reports(example))) >= 0).all()


# -- the contract ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", ALL)
def test_a_plan_holds_it_in_json(example: Example) -> None:
    mechanism = example.mechanism
    written = json.loads(json.dumps(mechanism.to_dict()))
    assert written["kind"] == mechanism.kind
    again = type(mechanism).from_dict(written, mechanism.prior)
    assert again.to_dict() == mechanism.to_dict()
    assert again.prior == mechanism.prior
    reports = list(drawn_by(example))[:20]
    assert [again.likelihood(0, report) for report in reports] == [
        mechanism.likelihood(0, report) for report in reports
    ]
    table = mechanism.table()
    assert table is None or table.to_dict() == written
