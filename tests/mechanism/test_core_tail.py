"""The channel: every word through the whole sampler, exact levels against enumeration, and the plan file."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest

from tacit import Histogram, Prior, Sum, audit, belief, satisfies
from tacit.mechanism import CoreTail, NotEstimableError
from tacit.mechanism.core_tail._rule import CORE_UNIT, POSITION_BITS, CoreState, CoreTailRule

from support.places import GOLDEN

HALF = CORE_UNIT // 2
THIRD, THREE = Fraction(1, 3), Fraction(3)

SMALL = {
    "arc": CoreTail(
        prior=Prior.of([3, 1, 2, 2]), core=(), share=THIRD, growth=THREE, states=(CoreState(1, 0),), word_bits=6
    ),
    "unit arc": CoreTail(
        prior=Prior.uniform(5), core=(), share=THIRD, growth=THREE, states=(CoreState(1, 0),), word_bits=6
    ),
    "one value": CoreTail(
        prior=Prior.of([4]), core=(), share=THIRD, growth=THREE, states=(CoreState(1, 0),), word_bits=6
    ),
    "core-tail": CoreTail(
        prior=Prior.of([7, 3, 2, 2, 1]),
        core=(0,),
        share=THIRD,
        growth=THREE,
        states=(CoreState(3, 0), CoreState(1, 1)),
        word_bits=6,
    ),
    "a part": CoreTail(
        prior=Prior.of([3, 2, 9, 1]),
        core=(0, 2),
        share=THIRD,
        growth=THREE,
        states=(CoreState(2, 1), CoreState(1, 2, ((1, HALF),))),
        word_bits=6,
    ),
    # 61 units on 8 cells: boundaries are rounded and some values have no cell of their own.
    "rounded": CoreTail(
        prior=Prior.of([20, 1, 2, 30, 1, 1, 6]),
        core=(0,),
        share=THIRD,
        growth=THREE,
        states=(CoreState(1, 0), CoreState(1, 1)),
        word_bits=6,
    ),
    "short arc": CoreTail(
        prior=Prior.of([9, 1, 1]),
        core=(0,),
        share=Fraction(1, 4),
        growth=Fraction(20),
        states=(CoreState(8, 0), CoreState(9, 1)),
        word_bits=6,
    ),
    "rounded arc": CoreTail(
        prior=Prior.of([5, 1, 1, 9, 2, 1]),
        core=(),
        share=Fraction(2, 5),
        growth=Fraction(2),
        states=(CoreState(1, 0),),
        word_bits=5,
    ),
}


class IgnoresTheCell(CoreTail):
    """A wrong sampler: the arc always ends on the value's first cell, so a value is covered whole or not at all."""

    def sample_one(self, value: int, words: tuple[int, int, int]) -> int:
        report = super().sample_one(value, words)
        if value in self.core or words[1] < self.base[report >> POSITION_BITS]:
            return report
        return super().sample_one(value, (words[0], words[1], 0))


class OneWordLess(CoreTail):
    """A wrong sampler: an off-by-one in the comparison of word 2 with `base`."""

    def sample_one(self, value: int, words: tuple[int, int, int]) -> int:
        return super().sample_one(value, (words[0], max(words[1] - 1, 0), words[2]))


def prior_of(weights: Sequence[int]) -> Prior:
    return Prior(range(len(weights)), weights)


def tally_all_words(channel: CoreTail, value: int) -> Counter[int]:
    size = 1 << channel.word_bits
    return Counter(channel.sample_one(value, words) for words in itertools.product(range(size), repeat=3))


def stated(channel: CoreTail, value: int) -> Counter[int]:
    reports = (j << POSITION_BITS | s for j in range(len(channel.states)) for s in range(channel.cells))
    return Counter({report: n for report in reports if (n := channel.word_triples(value, report))})


def brute_lift_range(channel: CoreTail) -> tuple[Fraction, Fraction]:
    rows = channel.to_rows()
    upper, lower = Fraction(0), Fraction(10**9)
    for column in zip(*rows, strict=True):
        mean = Fraction(sum(w * n for w, n in zip(channel.weights, column, strict=True)), sum(channel.weights))
        if mean:
            upper, lower = max(upper, max(column) / mean), min(lower, min(column) / mean)
    return upper, lower


@pytest.mark.parametrize("name", SMALL)
def test_every_word_gives_the_stated_counts(name: str) -> None:
    channel = SMALL[name]
    for value in range(len(channel.weights)):
        assert tally_all_words(channel, value) == stated(channel, value)
    assert {sum(row) for row in channel.to_rows()} == {1 << 3 * channel.word_bits}


@pytest.mark.parametrize("wrong", [IgnoresTheCell, OneWordLess])
def test_the_enumeration_rejects_a_wrong_sampler(wrong: type[CoreTail]) -> None:
    right = SMALL["core-tail"]
    channel = wrong(**{field.name: getattr(right, field.name) for field in fields(right)})
    assert any(tally_all_words(channel, value) != stated(channel, value) for value in (1, 2))


@pytest.mark.parametrize("name", SMALL)
def test_vector_sampler_equals_scalar_on_every_word(name: str) -> None:
    channel = SMALL[name]
    size = 1 << channel.word_bits
    words = np.array(list(itertools.product(range(size), repeat=3)), np.uint64)
    for value in range(len(channel.weights)):
        reports = channel.sample(np.full(len(words), value), words)
        assert Counter(reports.tolist()) == stated(channel, value)
        some = slice(0, None, 997)
        assert reports[some].tolist() == [channel.sample_one(value, tuple(w)) for w in words[some].tolist()]


@pytest.mark.parametrize(("most", "growth"), [(1 << 40, THREE), (2, Fraction(3000))])
@pytest.mark.parametrize("word_bits", [33, 48, 64])
def test_vector_sampler_equals_scalar_at_wide_words(word_bits: int, most: int, growth: Fraction) -> None:
    rng = np.random.default_rng(5)
    weights = tuple(int(w) for w in rng.integers(1, most, 50))
    states = tuple(CoreState(k + 1, k, ((2, HALF),)) for k in range(3))
    channel = CoreTail(
        prior=Prior.of(weights), core=(1, 4, 30), share=THIRD, growth=growth, states=states, word_bits=word_bits
    )
    values = rng.integers(0, 50, 4000)
    words = rng.integers(0, (1 << word_bits) - 1, (4000, 3), dtype=np.uint64, endpoint=True)
    words[:8] = list(itertools.product((0, (1 << word_bits) - 1), repeat=3))
    expected = [channel.sample_one(v, tuple(w)) for v, w in zip(values.tolist(), words.tolist(), strict=True)]
    assert channel.sample(values, words).tolist() == expected


def random_channel(rng: random.Random, word_bits: int) -> CoreTail:
    weights = tuple(rng.choice([1, 2, 3, 7, 40]) for _ in range(rng.randint(2, 6)))
    core = tuple(sorted(rng.sample(range(len(weights)), rng.randint(0, len(weights) - 1))))
    states = tuple(CoreState(rng.randint(1, 9), rng.getrandbits(len(core))) for _ in range(rng.randint(1, 3)))
    return CoreTail(
        prior=Prior.of(weights),
        core=core,
        share=Fraction(rng.randint(1, 4), 9),
        growth=Fraction(rng.randint(1, 30), 4),
        states=states,
        word_bits=word_bits,
    )


def test_the_lift_range_bounds_every_lift() -> None:
    rng = random.Random(3)
    for _ in range(150):
        channel = random_channel(rng, rng.choice([6, 8, 11]))
        upper, lower = channel.lift_range()
        true_upper, true_lower = brute_lift_range(channel)
        assert true_upper <= upper
        assert lower <= true_lower


def test_the_lift_range_is_tight_and_compared_exactly() -> None:
    states = (CoreState(2, 0), CoreState(1, 1))
    channel = CoreTail(
        prior=Prior.of([6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        core=(0,),
        share=Fraction(3, 8),
        growth=Fraction(2),
        states=states,
    )
    upper, lower = channel.lift_range()
    true_upper, true_lower = brute_lift_range(channel)
    assert float(upper / true_upper) - 1 < 1e-12
    assert 1 - float(lower / true_lower) < 1e-12
    reached = max(upper, 1 / lower)
    assert channel.within(reached)
    assert not channel.within(reached - Fraction(1, 10**30))


def test_mean_coverage_is_the_share() -> None:
    """An arc's mean coverage is its length on the circle, exactly; the length is the design's to 2^-30."""
    channel = CoreTail(
        prior=Prior.of([9, 4, 3, 2, 2]),
        core=(0,),
        share=Fraction(1, 4),
        growth=Fraction(8),
        states=(CoreState(3, 0), CoreState(1, 1, ((0, HALF),))),
    )
    size = 1 << channel.word_bits
    for state, units in enumerate(channel.coverage[-1]):
        arc = Fraction(size - channel.base[state], channel.step[state])
        assert 0 <= Fraction(units, CORE_UNIT) - arc / channel.cells < Fraction(1, 1 << 30)
        for value in channel.tail:
            reports = [state << POSITION_BITS | cell for cell in range(channel.cells)]
            assert sum(channel.word_triples(value, report) for report in reports) == size**2 * channel.counts[-1][state]


def test_the_state_marginal_is_that_of_the_dense_channel() -> None:
    channel = SMALL["a part"]
    rows, scale = channel.to_rows(), sum(channel.weights) << 3 * channel.word_bits
    for state, probability in enumerate(channel.state_marginal()):
        block = slice(state * channel.cells, (state + 1) * channel.cells)
        joint = sum(w * sum(row[block]) for w, row in zip(channel.weights, rows, strict=True))
        assert probability == Fraction(joint, scale)


def test_plan_round_trip_and_golden_file() -> None:
    plan = json.loads((GOLDEN / "core_tail.json").read_text())
    channel = CoreTail.from_dict(plan["channel"], prior_of(plan["weights"]))
    assert json.loads(json.dumps(channel.to_dict())) == plan["channel"]
    for value, words, report in plan["samples"]:
        assert channel.sample_one(value, tuple(int(word) for word in words)) == report


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"core": (0, 1)}, "core"),
        ({"core": (1, 0)}, "core"),
        ({"share": Fraction(1)}, "share"),
        ({"growth": Fraction(0)}, "growth"),
        ({"core": (-1,)}, "core"),
        ({"core": (2,)}, "core"),
        ({"states": ()}, "states"),
        ({"states": (CoreState(0, 0),)}, "states"),
        ({"states": (CoreState(1, 1),)}, "states"),
        ({"core": (1,), "states": (CoreState(1, 0, ((0, CORE_UNIT + 1),)),)}, "states"),
        ({"word_bits": 65}, "word_bits"),
    ],
)
def test_wrong_plans_are_refused(change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "prior": Prior.of([1, 2]),
        "core": (),
        "share": THIRD,
        "growth": THREE,
        "states": (CoreState(1, 0),),
    }
    CoreTail(**good)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        CoreTail(**(good | change))  # type: ignore[arg-type]


def test_values_outside_the_domain_are_refused_without_being_named() -> None:
    words = np.zeros((1, 3), np.uint64)
    with pytest.raises(ValueError, match="indices") as error:
        SMALL["arc"].sample(np.array([77]), words)
    assert "77" not in str(error.value)
    with pytest.raises(ValueError, match="shape"):
        SMALL["arc"].sample(np.array([1, 2]), words)


def test_cached_tables_are_not_part_of_equality() -> None:
    channel = SMALL["arc"]
    assert isinstance(vars(CoreTailRule)["counts"], cached_property)
    assert CoreTail.from_dict(channel.to_dict(), prior_of(channel.weights)) == channel


def test_an_arc_shorter_than_one_cell_has_a_step_beyond_the_words() -> None:
    """Found case: the step then exceeds 64 bits, and no word may move the position."""
    channel = CoreTail(
        prior=Prior.of([1, 1]), core=(), share=Fraction(2, 5), growth=Fraction(3000), states=(CoreState(1, 0),)
    )
    assert channel.step[0] > 1 << 64
    words = np.random.default_rng(6).integers(0, 2**64 - 1, (500, 3), dtype=np.uint64, endpoint=True)
    expected = [channel.sample_one(1, tuple(w)) for w in words.tolist()]
    assert channel.sample(np.ones(500, np.int64), words).tolist() == expected


def test_the_audit_and_the_beliefs_are_bounds_of_the_dense_channel() -> None:
    # A value that nobody is believed to hold is not on the circle.
    mechanism = CoreTail(
        prior=Prior.of({"a": 6, "b": 1, "never": 0, "c": 1, "d": 1, "e": 1}),
        core=(0,),
        share=Fraction(3, 8),
        growth=Fraction(2),
        states=(CoreState(2, 0), CoreState(1, 1)),
        word_bits=12,
    )
    found = audit(mechanism)
    upper, lower = brute_lift_range(mechanism)
    assert found.lip_upper.ratio >= upper
    assert found.lip_lower.ratio >= 1 / lower
    assert found.ldp.ratio == found.lip_upper.ratio * found.lip_lower.ratio
    assert found.mip >= found.lip_upper.epsilon
    assert (found.outside, found.exposed) == (("never",), ())
    assert found.lip.report is None
    seen = belief(mechanism, "a")
    assert seen.low <= seen.prior * lower <= seen.prior * upper <= seen.high
    for notion, level in (("lip", found.lip), ("ldp", found.ldp)):
        assert satisfies(mechanism, notion, Fraction(level.epsilon) + Fraction(1, 10**15))
        assert not satisfies(mechanism, notion, Fraction(level.epsilon) - Fraction(1, 10**12))


def test_another_prior_and_another_task_are_refused() -> None:
    mechanism = SMALL["core-tail"]
    with pytest.raises(ValueError, match="made for another prior"):
        mechanism.under(Prior.uniform(5))
    assert mechanism.gain(Histogram()) > 0
    with pytest.raises(NotEstimableError, match="histograms only"):
        mechanism.gain(Sum())


def test_it_can_send_what_a_word_gives_and_nothing_else() -> None:
    mechanism = SMALL["a part"]
    sent = {report for value in range(len(mechanism.weights)) for report in stated(mechanism, value)}
    others = {-1, mechanism.cells, len(mechanism.states) << POSITION_BITS, (1 << POSITION_BITS) - 1}
    assert not sent & others
    for report in sent | others:
        assert mechanism.can_send(report) is (report in sent)
    asked = np.array(sorted(sent | others))
    assert mechanism.can_send_many(asked).tolist() == [report in sent for report in asked.tolist()]
