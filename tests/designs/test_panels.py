"""The same people again: exact joint levels, against enumeration from the definition; three ways compared."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from tacit import Channel, Histogram, Plan, Prior, Randomizer, Survey, Tally, estimate, make_plan, unbiased_variance
from tacit.cli.everything import app
from tacit.designs import (
    Search,
    Uncertainty,
    compare_panel,
    following_plan,
    next_plan,
    optimal_binary,
    panels,
    read_transition,
    repaired_response,
    with_layers,
)
from tacit.designs._many_values import giants_alone
from tacit.mechanism import BlockDesign, Level, ManyValues, joint_level, layered, layered_level, persistent, repeated
from tacit.plan import Follows, PlanError, followed_name
from tacit.randomize import SeededWords

COIN = Prior.uniform(["yes", "no"])
SKEWED = Prior.of({"a": 5, "b": 3, "c": 2})


def by_definition(likelihood, prior, transition, waves, reports) -> float:
    """The largest |ln lift| over all report sequences and possible paths, from an explicit table of all of them."""
    paths = {}
    for path in product(range(len(prior)), repeat=waves):
        chance = Fraction(prior.weights[path[0]], prior.total)
        for x, y in pairwise(path):
            chance *= transition[x][y]
        if chance:
            paths[path] = chance
    worst = 0.0
    for sent in product(range(reports), repeat=waves):
        given = {path: likelihood(path, sent) for path in paths}
        total = sum(paths[path] * given[path] for path in paths)
        for each in given.values():
            worst = max(worst, abs(math.log(each / total)))
    return worst


def transition(change: str, prior: Prior):
    """A persistence; answers that only move on to the next one, and stay in the last; or away from the first one."""
    size = len(prior)
    if change == "ageing":
        return tuple(
            tuple(Fraction(3 * (y == x) + (y == min(x + 1, size - 1)), 4) for y in range(size)) for x in range(size)
        )
    if change == "fashion":
        return tuple(tuple(Fraction(1 + 6 * (y == size - 1), 6 + size) for y in range(size)) for _ in range(size))
    return persistent(prior, change)


def stays(size: int):
    return [[Fraction(x == y) for y in range(size)] for x in range(size)]


def fresh(channels):
    return lambda path, sent: math.prod(
        (channel.likelihood(x, y) for channel, x, y in zip(channels, path, sent, strict=True)), start=Fraction(1)
    )


def test_two_reports_at_one_exceed_two():
    once = optimal_binary(COIN, 1)
    twice = joint_level([once, once])
    assert twice.exact
    assert twice.lip.epsilon == pytest.approx(2.336, abs=5e-4)
    assert not twice.lip.holds(Fraction(2))
    assert twice.lip.ratio == once.then(once).audit().lip.ratio
    assert twice.ldp.ratio == once.audit().ldp.ratio ** 2


@pytest.mark.parametrize("prior", [COIN, SKEWED, Prior.of({"a": 1, "b": 9})])
@pytest.mark.parametrize("persistence", [None, "0.7", "0"])
def test_joint_levels_are_those_of_the_definition_and_below_the_bound(prior, persistence, monkeypatch):
    channels = [repaired_response(prior, level) for level in (1, "0.5", "1.5")]
    moves = None if persistence is None else persistent(prior, persistence)
    found = joint_level(channels, moves)
    known = by_definition(fresh(channels), prior, moves or stays(len(prior)), 3, len(prior))
    assert found.exact
    assert found.lip.epsilon == pytest.approx(known, abs=1e-9)
    monkeypatch.setattr(repeated, "MOST_SEQUENCES", 1)
    bound = joint_level(channels, moves)
    assert not bound.exact
    assert bound.lip.epsilon == pytest.approx(2 * 3 - 1.5, abs=1e-6)
    assert found.lip.epsilon <= bound.lip.epsilon
    if persistence == "0":  # Independent answers: levels add.
        assert known == pytest.approx(3, abs=1e-6)


def test_levels_of_waves_under_a_transition_that_moves_the_distribution():
    """The marginal of a later wave is not the prior: the bound must use it."""
    rise = ((Fraction(1, 2), Fraction(1, 2)), (Fraction(0), Fraction(1)))
    channels = [optimal_binary(COIN, 1)] * 2
    found = joint_level(channels, rise)
    assert found.lip.epsilon == pytest.approx(by_definition(fresh(channels), COIN, rise, 2, 2), abs=1e-9)
    with pytest.raises(ValueError, match="sum to 1"):
        joint_level(channels, ((1, 0), (1, 1)))


def test_six_rounds_at_a_half():
    """Theory 9.6: 4.13 by six fixed channels; by the belief rule 3, as levels add up (below)."""
    once = optimal_binary(COIN, "0.5")
    fixed = joint_level([once] * 6, persistent(COIN, "0.9"))
    assert fixed.lip.epsilon == pytest.approx(4.13, abs=5e-3)


def test_two_layers_of_an_answer_that_stays_reach_the_first_layer_only():
    first, second = optimal_binary(COIN, 2), optimal_binary(Prior.uniform(2), 1)
    assert layered_level(first, second, 10**6).lip == first.audit().lip
    one = layered(first, second)
    assert one.audit().lip.epsilon < 1
    # With many waves the stored report is learned, and no more: levels rise towards the first layer's.
    levels = []
    for waves in (1, 3, 8):
        rows = [
            [
                math.comb(waves, k)
                * sum(
                    int(first.weights[x, m]) * int(second.weights[m, 0]) ** k * int(second.weights[m, 1]) ** (waves - k)
                    for m in range(2)
                )
                for k in range(waves + 1)
            ]
            for x in range(2)
        ]
        levels.append(Channel.from_weights(COIN, rows).audit().lip)
    assert all(level.ratio <= first.audit().lip.ratio for level in levels)
    assert levels[0].epsilon < levels[1].epsilon < levels[2].epsilon
    assert levels[2].epsilon > 1.9
    # Fresh draws of the first layer itself are the named wrong answer: they exceed its level at once.
    assert not joint_level([first, first]).lip.holds(Fraction(2))


def test_two_layers_of_changing_answers_are_those_of_the_definition(monkeypatch):
    first, second = optimal_binary(COIN, 2), optimal_binary(Prior.uniform(2), 1)
    moves = persistent(COIN, "0.8")

    def likelihood(path, sent):
        return sum(
            first.likelihood(0, m[0])
            * first.likelihood(1, m[1])
            * math.prod((second.likelihood(m[x], y) for x, y in zip(path, sent, strict=True)), start=Fraction(1))
            for m in product(range(2), repeat=2)
        )

    found = layered_level(first, second, 3, moves)
    assert found.exact
    assert found.lip.epsilon == pytest.approx(by_definition(likelihood, COIN, moves, 3, 2), abs=1e-9)
    monkeypatch.setattr(repeated, "MOST_PATHS", 1)
    bound = layered_level(first, second, 3, moves)
    assert not bound.exact
    assert bound.lip.epsilon >= found.lip.epsilon


def test_the_ways_are_compared_at_the_same_level():
    found = compare_panel(COIN, "histogram", "0.5", 6, persistence="0.9")
    assert {row.way for row in found.rows} == {"fresh channels", "belief rule", "two layers"}
    assert all(row.level <= 3 + 1e-9 for row in found.rows)
    assert found.fresh_at_epsilon.level == pytest.approx(4.13, abs=5e-3)
    errors = {row.way: row.error for row in found.rows}
    assert errors["belief rule"] < 0.9 * errors["fresh channels"]
    assert found.recommended == min(errors, key=errors.__getitem__)
    stays = compare_panel(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), "0.5", 4)
    assert stays.recommended == "two layers"


def test_the_error_of_the_belief_rule_is_that_of_simulated_panels():
    from tacit import Task

    drawn, first = np.random.default_rng(2), make_plan(COIN, Survey("yes"), 1)
    second, channel = following_plan(first, "0.8"), first.groups[0].mechanism
    (row,) = (
        row for row in compare_panel(COIN, Survey("yes"), 1, 2, persistence="0.8").rows if row.way == "belief rule"
    )
    n, task, spread = 60_000, Task.of(Survey("yes")), 0.0
    held = drawn.integers(2, size=n)
    sent = (drawn.random(n) >= channel.matrix[held, 0]).astype(int)
    spread += np.var(channel.pseudo_values(task, sent)[:, 0])
    redrawn = drawn.random(n) >= 0.8
    held = np.where(redrawn, drawn.integers(2, size=n), held)
    values = np.zeros(n)
    for report in range(2):
        mine, channel = sent == report, second.group(f"after {report}").mechanism
        reports = (drawn.random(mine.sum()) >= channel.matrix[held[mine], 0]).astype(int)
        values[mine] = channel.pseudo_values(task, reports)[:, 0]
    spread += np.var(values)
    assert values.mean() == pytest.approx(0.5, abs=5 * values.std() / math.sqrt(n))
    assert math.sqrt(spread / 2) == pytest.approx(row.error, rel=0.02)


def test_waves_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "priors.csv").write_text("value,probability\nyes,0.5\nno,0.5\n", encoding="utf-8")
    command = ["plan", "priors.csv", "--task", "histogram", "--epsilon", "0.5", "--waves", "4", "--persistence", "0.9"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert "Recommended: " in said.output
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["panel"]
    assert (told["waves"], told["level"], len(told["ways"])) == (4, 2.0, 3)
    refused = CliRunner().invoke(
        app, ["plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "--persistence", "1"]
    )
    assert refused.exit_code == 2


# -- collecting: plans by the belief rule and in two layers, judged from the definition --------------------------------


def paths_of(prior: Prior, moves, waves: int) -> dict[tuple[int, ...], Fraction]:
    """Every possible path of answers, with its probability."""
    found = {}
    for path in product(range(len(prior)), repeat=waves):
        chance = Fraction(prior.weights[path[0]], prior.total)
        for x, y in pairwise(path):
            chance *= moves[x][y]
        if chance:
            found[path] = chance
    return found


def extremes(paths, histories, likelihood) -> tuple[Fraction, Fraction]:
    """The largest lift, or inverse of a lift, of a whole path; and of the answer of any one wave. In rationals."""
    worst = single = Fraction(1)
    length = len(next(iter(paths)))
    for sent in histories:
        given = {path: likelihood(path, sent) for path in paths}
        total = sum(paths[path] * given[path] for path in paths)
        if not total:
            continue
        worst = max(worst, max(given.values()) / total, total / min(given.values()))
        for wave, held in product(range(length), range(8)):
            mine = [path for path in paths if path[wave] == held]
            if mine:
                lift = sum(paths[p] * given[p] for p in mine) / sum(paths[p] for p in mine) / total
                single = max(single, lift, 1 / lift)
    return worst, single


@pytest.mark.parametrize("prior", [COIN, Prior.of({"a": 1, "b": 4}), SKEWED])
@pytest.mark.parametrize("change", ["0.9", "1", "0.3", "ageing", "fashion"])
def test_plans_by_the_belief_rule_add_up_exactly(prior, change):
    """Plans as they are written; every report history and answer path; lifts in rationals, no float."""
    waves = 3 if len(prior) == 2 else 2
    plans, moves = [make_plan(prior, "histogram", "0.5")], transition(change, prior)
    stated = {"persistence": change} if change[0].isdigit() else {"transition": moves}
    for _ in range(waves - 1):
        plans.append(following_plan(plans[-1], **stated))
    assert plans[1] == Plan.from_dict(plans[1].to_dict())

    def sent_through(sent):
        """The channel of every wave, by the names of groups only."""
        name, channels = None, []
        for plan, report in zip(plans, sent, strict=True):
            channels.append(plan.group(name).mechanism)
            name = followed_name(name, report)
        return channels

    def likelihood(path, sent):
        drawn = zip(sent_through(sent), path, sent, strict=True)
        return math.prod((channel.likelihood(x, y) for channel, x, y in drawn), start=Fraction(1))

    def histories(start=()):
        if len(start) == waves:
            yield start
            return
        for report in range(sent_through((*start, 0) + (0,) * (waves - len(start) - 1))[len(start)].n_possible_reports):
            yield from histories((*start, report))

    worst, single = extremes(paths_of(prior, moves, waves), list(histories()), likelihood)
    total = Level(worst)
    assert total.holds(Fraction(waves, 2))
    if len(prior) == 2:
        # With equality, as far as rounding to integers goes.
        assert not total.holds(Fraction(waves, 2) - Fraction(1, 10**6))
    assert single <= worst
    # The named wrong answer: the first channel in every wave.
    if change in ("1", "ageing") and prior is COIN:
        once = plans[0].groups[0].mechanism
        assert not joint_level([once] * waves, moves).lip.holds(Fraction(waves, 2))
    # Another: plans for the persistence that keeps as many answers, where answers leave by the matrix.
    if change == "ageing" and prior is COIN:
        plans[1:] = [following_plan(plans[0], "0.5")]
        plans.append(following_plan(plans[1], "0.5"))
        wrong, _ = extremes(paths_of(prior, moves, waves), list(histories()), likelihood)
        assert not Level(wrong).holds(Fraction(waves, 2))


def test_transition_matrices_are_read_from_files_and_refused_where_they_are_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    (tmp_path / "priors.csv").write_text("value,probability\nyes,0.2\nno,0.8\n", encoding="utf-8")
    (tmp_path / "moves.csv").write_text("from,to,probability\nno,no,19/20\nno,yes,.05\nyes,yes,0.9\nyes,no,0.1\n")
    assert run(app, ["plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "-o", "1.json"]).exit_code == 0
    said = run(app, ["next", "1.json", "--transition", "moves.csv", "-o", "2.json"])
    assert "by the transition matrix that the plan states" in said.output
    second, moves = Plan.load("2.json"), read_transition("moves.csv", ["yes", "no"])
    assert moves == ((Fraction(9, 10), Fraction(1, 10)), (Fraction(1, 20), Fraction(19, 20)))
    assert second == following_plan(Plan.load("1.json"), transition=moves)
    assert second.follows.to_dict()["transition"] == [["9/10", "1/10"], ["1/20", "19/20"]]
    # Of persistence the prior stays; by a matrix that of new people moves, too.
    assert second.group("new").prior == repeated.after(Prior.of({"yes": 1, "no": 4}), moves)
    # A persistence is the matrix that it stands for.
    prior = Plan.load("1.json").groups[0].prior
    kept, stated = (
        following_plan(Plan.load("1.json"), **each)
        for each in ({"persistence": "0.9"}, {"transition": persistent(prior, "0.9")})
    )
    assert kept.groups == stated.groups
    assert kept.hash != stated.hash
    compared = ["plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "--waves", "3", "--overwrite"]
    said = run(app, [*compared, "--transition", "moves.csv"])
    assert "whose answers change by moves.csv" in said.output, said.output
    assert run(app, [*compared, "--transition", "moves.csv", "--persistence", "0.9"]).exit_code == 2
    for text, error in (
        ("from,to,probability\nyes,no,0.5\nno,no,1\n", "from 'yes' must sum to 1"),
        ("from,to,probability\nyes,no,0.5\nyes,no,.5\nno,no,1\n", "line 3: this change stands twice"),
        ("from,to,probability\nyes,never,1\nno,no,1\n", "line 2: The value 'never'"),
        ("from,to,probability\nyes,no,-1\nno,no,1\n", "line 2: a probability must not be negative"),
        ("from,to\nyes,no\n", "the header must name"),
    ):
        with pytest.raises(ValueError, match=error):
            read_transition(io.StringIO(text), ["yes", "no"])
    with pytest.raises(ValueError, match="cannot be given in the next wave"):
        following_plan(Plan.load("1.json"), transition=((1, 0), (1, 0)))
    for follows, error in (
        ({"plans": [second.hash]}, "a persistence or with a transition"),
        ({"plans": [second.hash], "persistence": "1", "transition": [["1"]]}, "a persistence or with a transition"),
        ({"plans": [second.hash], "transition": [["1"]]}, "a row for each of its 2 answers"),
        ({"plans": [second.hash], "transition": [["1", "1"], ["0", "1"]]}, "sum to 1"),
        ({"plans": [second.hash], "persistence": "2"}, "between 0 and 1"),
        ({"plans": ["12"], "persistence": "1"}, "by their hashes"),
    ):
        with pytest.raises(ValueError, match=error):
            replace(second, follows=Follows.from_dict(follows))


def test_a_wrong_persistence_costs_at_most_the_ldp_levels():
    """Stated .5, truly 1: more than the sum, but within ε of the first wave plus the LDP levels of the others."""
    plans = [make_plan(COIN, "histogram", 1)]
    plans.append(following_plan(plans[0], "0.5"))

    def likelihood(path, sent):
        first, second = plans[0].groups[0].mechanism, plans[1].group(f"after {sent[0]}").mechanism
        return first.likelihood(path[0], sent[0]) * second.likelihood(path[1], sent[1])

    everything = list(product(range(2), repeat=2))
    worst, _ = extremes(paths_of(COIN, stays(2), 2), everything, likelihood)
    assert not Level(worst).holds(Fraction(2))
    assert Level(worst).epsilon <= 1 + max(group.levels["ldp"] for group in plans[1].groups)


def test_people_who_left_waves_out_have_the_belief_of_their_reports():
    plan = make_plan({"north": {"yes": 1, "no": 4}, "south": {"yes": 1, "no": 1}}, Survey("yes"), 1)
    second = following_plan(plan, "0.8")
    third = following_plan(second, "0.8")
    assert third.wave == 3
    assert third == Plan.from_dict(third.to_dict()) == following_plan(Plan.from_dict(second.to_dict()), "4/5")
    assert third.follows == Follows((second.hash,), Fraction(4, 5))
    prior, moves = plan.group("north").prior, persistent(plan.group("north").prior, "0.8")
    left = Prior(plan.values, plan.group("north").mechanism.exact_posterior(0))
    assert third.group("north / after 0 -").prior == repeated.after(repeated.after(left, moves), moves)
    assert third.group("north").prior == prior
    assert len(third.groups) == 2 * 9


def test_the_belief_rule_says_where_it_does_not_serve(monkeypatch):
    binary = make_plan(COIN, "histogram", 1)
    monkeypatch.setattr(panels, "MOST_GROUPS", 2)
    with pytest.raises(ValueError, match=r"3 histories .* be 2\. Two layers"):
        following_plan(binary, "0.9")
    monkeypatch.undo()
    for plan, why in (
        (make_plan(COIN, "histogram", 1, notion="ldp"), "LDP levels add up by themselves"),
        (make_plan(COIN, "histogram", 1, uncertainty=Uncertainty(error="0.1")), "set of priors"),
        (make_plan(Prior.uniform(60), "histogram", 1), "Two layers serve any number"),
        (with_layers(binary, 2), "no belief rule"),
        (make_plan({"new": COIN, "old": COIN}, "histogram", 1), "Rename"),
        (replace(binary, wave=2, series=binary.hash), "begins in the first wave"),
    ):
        with pytest.raises(ValueError, match=why):
            following_plan(plan, "0.9")
    with pytest.raises(PlanError, match="first wave"):
        replace(binary, follows=Follows((binary.hash,), Fraction(1)))


LAYERED = {
    "binary": (Prior.of({"yes": 1, "no": 4}), "lip", None),
    "three": (SKEWED, "lip", None),
    "set": (SKEWED, "lip", Uncertainty(error="0.05")),
    "ldp": (SKEWED, "ldp", None),
    "many": (Prior.of([*range(1, 61)]), "lip", None),
    "block": (Prior.uniform(20), "ldp", None),
}


@pytest.mark.parametrize("case", LAYERED)
def test_two_layers_send_the_channel_of_a_wave_and_keep_both_levels(case):
    prior, notion, uncertainty = LAYERED[case]
    one = make_plan(prior, "histogram", "0.5", notion=notion, uncertainty=uncertainty)
    plan = with_layers(one, "1.5")
    assert plan == Plan.from_dict(plan.to_dict())
    (group,), layers = plan.groups, plan.groups[0].layers
    # The product from the definition: Σ_m Q₁(m|x) Q₂(y|m), Q₂ as the device draws it.
    share = Fraction(layers.resend, 4096)
    reports = range(group.mechanism.n_possible_reports) if layers.noise else [0, 1, 2, 3]
    for report in reports:
        sent = [layers.stored.likelihood(x, report) for x in range(len(prior))]
        if layers.noise:
            other = Fraction(layers.noise[report], sum(layers.noise))
        else:
            # Likelihoods are linear in the step; at 0 all reports ignore the answer.
            least, next_to = (replace(layers.stored, step=step).likelihood(0, report) for step in (1, 2))
            other = 2 * least - next_to
        for x, stored in enumerate(sent):
            assert group.mechanism.likelihood(x, report) == share * stored + (1 - share) * other
    # Both levels, exactly; and they are used up: with less chance to resend the lifelong one breaks.
    assert layers.stored.keeps(notion, Fraction(3, 2))
    assert group.mechanism.keeps(notion, Fraction(1, 2))
    reached = getattr(layers.stored.under(prior).audit(), notion).epsilon
    assert uncertainty is not None or 1.49 < reached <= 1.5 + 1e-9
    # A wave is as precise as without layers.
    task = Histogram()
    assert unbiased_variance(group, task) == pytest.approx(unbiased_variance(one.groups[0], task), rel=1e-3)


class AllWords:
    """All combinations of a few words of a few bits, each in the first bits of 64."""

    per_thread = False

    def __init__(self, words: int, bits: int) -> None:
        self.combinations = list(product(range(1 << bits), repeat=words))
        self._shift = 64 - bits

    def draw(self, count: int, bits: int):
        cells = np.array(self.combinations, dtype=np.uint64).ravel() << np.uint64(self._shift)
        assert (count, bits) == (len(cells), 64)
        return cells

    def integer(self, bits: int) -> int:
        raise AssertionError


@pytest.mark.parametrize(
    "rule",
    [
        BlockDesign(
            prior=Prior.uniform(7), circle=7, orders=1, arc=3, step=6, field=2, recurrence=(1, 1, 0), word_bits=6
        ),
        giants_alone(
            prior=Prior.of([6, 5, 2, 1, 1, 1]), giants=2, covered=5, arc=4, step=2, cell_bits=4, word_bits=5, slots=3,
            first=1, second=1, seed_bits=2,
        ),
        ManyValues(
            prior=Prior.of([3, 1, 2, 2]), giants=0, covered=2, arc=2, step=4, cell_bits=3, seed_bits=4, word_bits=6
        ),
    ],
)  # fmt: skip
def test_rules_send_reports_that_ignore_the_answer_for_exactly_the_stated_words(rule):
    """Every word through the sampler: the counts are the likelihoods at a step of 0, which no answer changes."""
    layers = repeated.Layers(Fraction(9), rule, 2048)
    words = AllWords(rule.words_per_report, rule.word_bits)
    sent = layers._others(len(words.combinations), words)
    counts = dict(zip(*np.unique(sent, return_counts=True), strict=True))
    for report, count in counts.items():
        one, two = (replace(rule, step=step).likelihood(0, int(report)) for step in (1, 2))
        assert Fraction(int(count), len(words.combinations)) == 2 * one - two
    # The named wrong answer: draws for an answer.
    assert any(
        Fraction(int(count), len(words.combinations)) != rule.likelihood(0, int(report))
        for report, count in counts.items()
    )


def test_two_layers_of_an_answer_that_stays_from_the_definition():
    """All reports of four waves; the lifelong level holds, and fresh draws of the same waves exceed it."""
    plan = with_layers(make_plan(Prior.of({"yes": 1, "no": 3}), Survey("yes"), "0.8"), 1)
    (group,), layers = plan.groups, plan.groups[0].layers
    second = layers.second()

    def layered_likelihood(path, sent):
        return sum(
            layers.stored.likelihood(path[0], m) * math.prod((second.likelihood(m, y) for y in sent), start=Fraction(1))
            for m in range(2)
        )

    def fresh_likelihood(path, sent):
        return math.prod((group.mechanism.likelihood(path[0], y) for y in sent), start=Fraction(1))

    paths, sent = paths_of(group.prior, stays(2), 1), list(product(range(2), repeat=4))
    assert Level(extremes(paths, sent, layered_likelihood)[0]).holds(Fraction(1))
    assert not Level(extremes(paths, sent, fresh_likelihood)[0]).holds(Fraction(2))
    one = list(product(range(2), repeat=1))
    assert Level(extremes(paths, one, layered_likelihood)[0]).holds(Fraction(4, 5))


def test_what_two_layers_tell_about_changes_from_the_definition():
    """Within a pattern of changes the ratio of two paths is bounded by the LDP levels of the answers held; the pattern
    is not: it is told from another by more than twice the lifelong level.
    """
    plan = with_layers(make_plan(Prior.of({"yes": 1, "no": 3}), Survey("yes"), "0.8"), 1)
    layers, waves = plan.groups[0].layers, 6
    second, odds = layers.second(), layers.stored.audit().ldp.ratio

    def likelihood(path, sent):
        found = Fraction(1)
        for held in set(path):
            mine = [y for x, y in zip(path, sent, strict=True) if x == held]
            sends = [math.prod((second.likelihood(m, y) for y in mine), start=Fraction(1)) for m in range(2)]
            found *= sum(layers.stored.likelihood(held, m) * each for m, each in enumerate(sends))
        return found

    paths = {pattern: [] for pattern in (1, 2)}
    for path in product(range(2), repeat=waves):
        if path in ((0,) * 6, (1,) * 6, (0, 0, 0, 1, 1, 1), (1, 1, 1, 0, 0, 0)):
            paths[len(set(path))].append(path)
    across = Fraction(1)
    for sent in product(range(2), repeat=waves):
        given = {n: [likelihood(path, sent) for path in mine] for n, mine in paths.items()}
        for n, each in given.items():
            assert max(each) / min(each) <= odds**n
        across = max(across, max(given[2]) / min(given[1]), max(given[1]) / min(given[2]))
    assert across > odds**2
    moves = persistent(plan.groups[0].prior, "0.5")
    known = by_definition(likelihood, plan.groups[0].prior, moves, 3, 2)
    assert layered_level(layers.stored, second, 3, moves).lip.epsilon == pytest.approx(known, abs=1e-9)


def test_stored_reports_are_the_same_in_every_wave_and_follow_the_law_of_the_first_layer():
    plan = with_layers(make_plan(SKEWED, Histogram(), "0.5"), 2)
    later = next_plan(plan)
    assert (later.wave, later.series, later.groups) == (2, plan.hash, plan.groups)
    layers, n = plan.groups[0].layers, 15_000
    always = replace(layers, resend=4096)
    people, memory, held = [f"p{k}" for k in range(n)], b"k" * 32, np.arange(n) % 3
    # With the stored report sent in every wave, what is sent is what is stored.
    plain = plan.changed(
        groups=(replace(plan.groups[0], layers=always, mechanism=always.product, epsilon=Fraction(2)),)
    )
    sent = [
        Randomizer(each).reports(0, held, persons=people, memory=memory)
        for each in (plain, replace(plain, wave=2, series=plain.hash))
    ]
    assert (sent[0] == sent[1]).all()
    shuffled = np.random.default_rng(3).permutation(n)
    again = Randomizer(plain).reports(0, held[shuffled], persons=[people[k] for k in shuffled], memory=memory)
    assert (again == sent[0][shuffled]).all()
    other = Randomizer(plain).reports(0, held, persons=people, memory=b"q" * 32)
    assert (other != sent[0]).mean() > 0.3
    counts = np.array([np.bincount(sent[0][held == x], minlength=3) for x in range(3)])
    expected = layers.stored.matrix * n / 3
    assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 6) > 1e-9
    wrong = plan.groups[0].mechanism.matrix * n / 3
    assert stats.chi2.sf(((counts - wrong) ** 2 / wrong).sum(), 6) < 1e-9
    with pytest.raises(ValueError, match="two layers"):
        Randomizer(plan).reports(0, held)
    with pytest.raises(ValueError, match="two layers"):
        Randomizer(plan).report(0, 1)


@pytest.mark.parametrize(("size", "method"), [(3, "columns"), (40, "many-values")])
def test_a_wave_of_two_layers_follows_the_law_of_its_mechanism(size, method):
    """Tables and rules: unbiased shares of many people, in two waves, within their errors; stored ones are not."""
    prior = Prior.of([*range(1, size + 1)])
    plan = with_layers(make_plan(prior, Histogram(), 1, search=Search(method=method)), 3)
    n = 8_000
    held = np.random.default_rng(5).integers(size, size=n) * (np.arange(n) % 2)
    people, truth = [str(k) for k in range(n)], np.bincount(held, minlength=size)
    for wave in (plan, next_plan(plan)):
        reports = Randomizer(wave).reports(0, held, words=wave.wave, persons=people, memory=b"m" * 16)
        found = estimate(wave, Tally.of(wave, reports), "unbiased", scope="participants")
        errors = np.array(
            [(row.estimate - count) / row.standard_error for row, count in zip(found.rows, truth, strict=True)]
        )
        assert np.abs(errors).max() < 6
    # The named wrong answer: the stored report itself in every wave.
    stored = wave.groups[0].layers.store(held, [SeededWords(k) for k in range(n)])
    wrong = estimate(wave, Tally.of(wave, stored), "unbiased", scope="participants").rows[0]
    assert abs(wrong.estimate - truth[0]) > 6 * wrong.standard_error


def test_altered_layers_are_refused():
    plan = with_layers(make_plan(SKEWED, Histogram(), "0.5"), "1.5")
    (group,), layers = plan.groups, plan.groups[0].layers
    with pytest.raises(PlanError, match="product of its two layers"):
        plan.changed(groups=(replace(group, layers=replace(layers, resend=layers.resend + 1)),))
    with pytest.raises(PlanError, match="lifelong LIP level 1"):
        plan.changed(groups=(replace(group, layers=replace(layers, lifelong=Fraction(1))),))
    assert replace(plan, limit=Fraction(3, 2)).limit == Fraction(3, 2)
    with pytest.raises(PlanError, match=r"must be from 1\.5, the level of its first report"):
        replace(plan, limit=Fraction(1))
    more = replace(layers, resend=4096)
    with pytest.raises(PlanError, match=r"states LIP ε = 0\.5 but reaches"):
        plan.changed(groups=(replace(group, layers=more, mechanism=more.product),))
    for wrong in ({"resend": 0}, {"noise": (1, 2, 3)}, {"noise": ()}, {"resend": 4097}):
        with pytest.raises(ValueError, match=r"must|needs"):
            replace(layers, **wrong)
    with pytest.raises(ValueError, match="at least the ε"):
        with_layers(make_plan(SKEWED, Histogram(), 2), 1)
