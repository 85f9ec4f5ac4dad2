from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from tacit import Channel, Histogram, Prior, Survey, make_plan
from tacit.designs import optimal_binary, repaired_response
from tacit.designs._many_values import design_with_bins
from tacit.mechanism.table._sampler import TableSampler
from tacit.plan import Group, Plan
from tacit.randomize import Randomizer
from tacit.randomize.randomness import SecureWords, SeededWords

from support.places import GOLDEN
from support.strategies import budgets, priors

# Rows that sum to 2^8, so that every word can be tried.
ROWS = [[0, 200, 56, 0], [1, 0, 0, 255], [256, 0, 0, 0], [64, 64, 64, 64]]
CHANNEL = Channel.from_weights(Prior.uniform(4), ROWS)


def sampler_of(*channels: Channel) -> TableSampler:
    return TableSampler([(channel.weights, channel.denominator) for channel in channels])


@pytest.mark.parametrize("path", ["one at a time", "arrays"])
def test_every_word_is_enumerated_and_counts_equal_the_weights(path):
    """Thresholds are multiples of 2^24, so first and last word of each of the 256 blocks stand for all 2^32 words."""
    sampler = sampler_of(CHANNEL)
    blocks = np.arange(256, dtype=np.uint64) << np.uint64(24)
    words = np.concatenate([blocks, blocks + np.uint64(2**24 - 1)]).astype(np.uint32)
    for x, weights in enumerate(ROWS):
        if path == "arrays":
            reports = np.empty(len(words), dtype=np.int64)
            sampler.apply(np.full(len(words), x, dtype=np.uint32), words, reports)
        else:
            reports = np.array([sampler.report_for(x, int(word)) for word in words])
        counts = np.bincount(reports, minlength=4)
        assert (counts == 2 * np.array(weights)).all()


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_arrays_agree_with_one_at_a_time_word_for_word(data):
    prior = data.draw(priors(min_size=2, max_size=4))
    several = [repaired_response(prior, data.draw(budgets())) for _ in range(2)]
    sampler = sampler_of(*several)
    bits = sampler.word_bits
    if bits > 64:
        return
    edges = [t + shift for row in sampler._thresholds for t in row for shift in (-1, 0, 1)]
    words = [word for word in [0, 2**bits - 1, *edges] if 0 <= word < 2**bits]
    rows = np.repeat(np.arange(sampler.starts[-1], dtype=np.uint32), len(words))
    reports = np.empty(len(rows), dtype=np.int64)
    sampler.apply(rows, np.tile(np.array(words, dtype=f"u{bits // 8}"), sampler.starts[-1]), reports)
    expected = [sampler.report_for(int(row), word) for row in range(sampler.starts[-1]) for word in words]
    assert reports.tolist() == expected


def test_tiny_budgets_use_words_of_64_bits_and_beyond():
    for epsilon, bits in ((1e-6, 64), (Fraction(1, 10**15), 96)):
        channel = optimal_binary(Prior.uniform(2), epsilon)
        sampler = sampler_of(channel)
        assert sampler.word_bits == bits
        everybody = np.zeros(50, dtype=np.int64)
        assert set(sampler.many(everybody, everybody, SecureWords()).tolist()) == {0, 1}


def chi_square_p(channel: Channel, x: int, reports: np.ndarray) -> float:
    expected = channel.matrix[x] * len(reports)
    assert expected.min() > 1000
    counts = np.bincount(reports, minlength=channel.n_possible_reports)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), channel.n_possible_reports - 1))


def test_secure_reports_follow_the_channel_and_not_a_slightly_wrong_one():
    prior = Prior.of({"a": 0.2, "b": 0.3, "c": 0.5})
    channel, wrong = repaired_response(prior, 1), repaired_response(prior, 1.05)
    plan = Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(1), mechanism=channel),))
    people = 2_000_000
    reports = Randomizer(plan).reports(np.zeros(people, dtype=np.int64), np.ones(people, dtype=np.uint32))
    assert chi_square_p(channel, 1, reports) > 1e-9
    assert chi_square_p(wrong, 1, reports) < 1e-9


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # a fork is the point, threads or not
def test_secure_words_differ_between_draws_and_after_a_fork():
    source = SecureWords()
    first, second = source.draw(8, 64), source.draw(8, 64)
    assert set(first.tolist()).isdisjoint(second.tolist())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.draw(8, 64).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 64), dtype=np.uint64)
    assert set(theirs.tolist()).isdisjoint(source.draw(8, 64).tolist())


#: PID 1 of a namespace makes a child that is PID 1 of another one. Prints both numbers and the words of both.
_TWINS = """
import ctypes, os, sys
from tacit.randomize import SecureWords
source = SecureWords()
source.draw(8, 64)
if ctypes.CDLL(None, use_errno=True).unshare(0x20000000):
    sys.exit(77)
reader, writer = os.pipe()
child = os.fork() if sys.argv[1] == "python" else ctypes.CDLL(None).fork()
if child == 0:
    os.write(writer, f"{os.getpid()} {source.draw(4, 64).tolist()}".encode())
    os._exit(0)
os.waitpid(child, 0)
print(f"{os.getpid()} {source.draw(4, 64).tolist()}", os.read(reader, 1000).decode(), sep="\\n")
"""


@pytest.mark.parametrize("fork", ["python", "c"])
def test_parent_and_child_with_the_same_process_number_draw_different_words(fork):
    """A process number does not recognise a fork: in containers two processes can both be number 1. A fork by C code
    does not call Python's hooks.
    """
    enter = ["unshare", "--pid", "--fork"]
    if shutil.which("unshare") is None or subprocess.run([*enter, "true"], capture_output=True).returncode:
        pytest.skip("No right to make PID namespaces: whether twins of number 1 draw apart was not tested.")
    done = subprocess.run([*enter, sys.executable, "-c", _TWINS, fork], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("No right to make a second PID namespace: whether twins draw apart was not tested.")
    (mine, my_words), (theirs, their_words) = (line.split(" ", 1) for line in done.stdout.splitlines())
    assert mine == theirs == "1"
    assert my_words != their_words


def test_words_are_uniform_and_seeds_repeat():
    for source in (SecureWords(), SeededWords(1)):
        for bits in (8, 16, 32, 64):
            words = source.draw(2**20, bits)
            assert words.dtype == np.dtype(f"u{bits // 8}")
            counts = np.bincount((words >> words.dtype.type(bits - 8)).astype(np.uint8), minlength=256)
            p = chi2.sf(((counts - 4096) ** 2 / 4096).sum(), 255)
            assert p > 1e-9
        # The named wrong source: one byte value slightly favoured.
        counts[0] += 1200
        assert chi2.sf(((counts - 4096) ** 2 / 4096).sum(), 255) < 1e-9
        assert 0 <= source.integer(12) < 4096
    assert SeededWords(3).draw(4, 64).tolist() == SeededWords(3).draw(4, 64).tolist()


def test_a_sampler_needs_a_power_of_two():
    channel = Channel.from_weights(Prior.uniform(2), [[2, 1], [1, 2]])
    with pytest.raises(ValueError, match="power of two"):
        sampler_of(channel)


def test_row_numbers_run_through_all_channels():
    both = [repaired_response(Prior.uniform(d), 1) for d in (3, 5)]
    assert sampler_of(*both).starts.tolist() == [0, 3, 8]


@pytest.mark.parametrize("epsilon", ["1/4", 1, 5])
def test_bins_are_drawn_for_arrays_word_for_word(epsilon):
    mechanism = design_with_bins(Prior.of([10**6 // (k + 1) for k in range(3000)]), Fraction(epsilon))
    rng = np.random.default_rng(3)
    values = rng.integers(0, 3000, 2000)
    values[:1000] = rng.integers(0, 60, 1000)
    words = rng.integers(0, 1 << 52, (2000, mechanism.words_per_report), dtype=np.uint64)
    # Words at the edges of orders and of the base, where a slip would show.
    circle = mechanism.circle
    words[:200, 2], words[200:400, 2] = circle.for_all[0], circle.for_ring[0] - 1
    words[400:500, 0], words[500:600, 0] = circle.base, circle.base - 1
    words[600:700], words[700:800] = 0, (1 << 52) - 1
    drawn = mechanism.draw_many(values, words)
    assert [
        mechanism.draw(int(x), tuple(map(int, row))) for x, row in zip(values, words, strict=True)
    ] == drawn.tolist()
    assert mechanism.can_send_many(drawn).all()
    # A named wrong way: γ and τ in each other's place.
    wrong = words.copy()
    wrong[:, [2, 3]] = words[:, [3, 2]]
    assert (mechanism.draw_many(values, wrong) != drawn).any()


def two_groups() -> Plan:
    """A table and a rule with bins, whose reports mean different things."""
    prior = Prior.of({"a": 7, "b": 3, "c": 2, "d": 2, "e": 1})
    mechanism = design_with_bins(prior, 4)
    groups = (
        Group(name="south", epsilon=Fraction(4), mechanism=mechanism),
        Group(name="north", epsilon=Fraction(1), mechanism=repaired_response(prior, 1)),
    )
    return Plan.of_groups(Histogram(), groups)


@pytest.mark.parametrize("kind", [list, np.array, lambda labels: np.array(labels, dtype=object)])
def test_labels_give_the_reports_of_their_positions(kind):
    plan = two_groups()
    randomizer = Randomizer(plan)
    rng = np.random.default_rng(1)
    groups, positions = rng.integers(0, 2, 500), rng.integers(0, 5, 500)
    answers, names = [plan.values[x] for x in positions], [plan.groups[k].name for k in groups]
    expected = randomizer.reports(groups, positions, SeededWords(3))
    assert (randomizer.randomize(kind(answers), kind(names), SeededWords(3)) == expected).all()
    assert (randomizer.reports(groups.tolist(), positions.tolist(), SeededWords(3)) == expected).all()
    for k, group in enumerate(plan.groups):
        assert group.mechanism.can_send_many(expected[groups == k]).all()
    assert not plan.groups[1].mechanism.can_send_many(expected[groups == 0]).all()


def test_numbers_are_labels_too():
    prior = Prior.of({0: 1, 2.5: 2, 10: 1})
    mechanism = repaired_response(prior, 1)
    randomizer = Randomizer(Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(1), mechanism=mechanism),)))
    expected = randomizer.reports(np.zeros(4, int), np.array([1, 0, 2, 1]), SeededWords(5))
    for answers in ([2.5, 0, 10, 2.5], [2.5, 0.0, 10.0, 2.5], np.array([2.5, 0, 10, 2.5])):
        assert (randomizer.randomize(answers, words=SeededWords(5)) == expected).all()
    assert randomizer.randomize([]).shape == (0,)


@pytest.mark.parametrize(
    ("groups", "positions"),
    [(0, [0, 2]), (0, [-1]), (0, [0.0]), (0, [2**40]), (1, [0]), ([0, 1], [0, 0]), ([-1], [0]), (0, [True])],
)
def test_positions_and_groups_that_are_none_are_refused(groups, positions):
    """The compiled loops would read what lies beside the tables, and report something else."""
    randomizer = Randomizer(make_plan(Prior.of({"yes": 1, "no": 3}), Histogram(), 1))
    with pytest.raises(ValueError, match="must be"):
        randomizer.reports(groups, positions)
    assert len(randomizer.reports(0, np.array([0, 1], dtype=np.int8))) == 2
    assert len(randomizer.reports([], [])) == 0


def test_unknown_labels_are_refused_without_being_named():
    randomizer = Randomizer(two_groups())
    for answers, groups in ((["secret"], ["north"]), (["a"], ["secret"]), ([["secret"]], ["north"]), (["a"], [None])):
        with pytest.raises(ValueError, match="none of the plan's") as error:
            randomizer.randomize(answers, groups)
        assert "secret" not in str(error.value)
    with pytest.raises(ValueError, match="one group for each answer"):
        randomizer.randomize(["a", "b"], ["north"])
    # Without a group there is no telling which mechanism protects them.
    with pytest.raises(ValueError, match="names groups"):
        randomizer.randomize(["a", "b"])


def test_the_keystream_starts_at_its_first_block_whatever_the_system_draws(monkeypatch):
    """Found by a benchmark: started anywhere, ChaCha20's counter of blocks runs over, once in 256 per GiB drawn."""
    monkeypatch.setattr("os.urandom", lambda count: b"\xff" * count)
    assert len(SecureWords().draw(1000, 64)) == 1000
    anywhere = Cipher(algorithms.ChaCha20(os.urandom(32), os.urandom(16)), mode=None).encryptor()
    with pytest.raises(ValueError, match="counter"):
        anywhere.update(bytes(8000))


@pytest.mark.parametrize("positions", [0, [[0, 1], [1, 0]]])
def test_answers_that_are_no_row_are_refused(positions):
    plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=1)
    with pytest.raises(ValueError, match="must be in a row"):
        Randomizer(plan).reports(0, np.array(positions))


class CountedWords(SeededWords):
    """Seeded words that remember how many bits were asked for, in order."""

    per_thread = False

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[tuple[int, int]] = []

    def draw(self, count: int, bits: int) -> np.ndarray:
        self.asked.append((count, bits))
        return super().draw(count, bits)

    def integer(self, bits: int) -> int:
        self.asked.append((1, bits))
        return super().integer(bits)


PLANS = sorted(path.stem for path in (GOLDEN / "client").glob("plan_*.json"))


@pytest.mark.parametrize("name", PLANS)
def test_the_number_of_words_does_not_depend_on_the_answer(name):
    """Values with prior zero take as many as all others: else the number would say who holds one."""
    plan = Plan.from_dict(json.loads((GOLDEN / "client" / f"{name}.json").read_text())["plan"])
    randomizer = Randomizer(plan)
    for place, group in enumerate(plan.groups):
        zeros = [x for x, weight in enumerate(group.prior.weights) if not weight]
        asked, together = set(), set()
        for x in {*range(min(len(plan.values), 40)), *zeros}:
            words = CountedWords(x)
            randomizer.report(place, x, words)
            asked.add(tuple(words.asked))
            # A table reads words lazily for arrays: the mean is equal, not the number (docs/threat-model.md).
            if group.mechanism.kind != "table":
                words = CountedWords(x)
                randomizer.reports(place, np.full(50, x), words)
                together.add(tuple(words.asked))
        assert len(asked) == 1, f"{name}, {group.name}"
        assert len(together) <= 1, f"{name}, {group.name}"
