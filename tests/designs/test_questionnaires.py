"""Several questions, one report: joint priors, blocks, chances, costs; and the tempting wrong ways."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import Prior, audit
from tacit.designs import JointPrior, Uncertainty, make_questionnaire, optimal_binary, read_joint, verify_plan
from tacit.designs.questionnaires import MOST_CELLS, _chances
from tacit.plan import CHANCES, Plan, PlanError


def written(path, rows, header):
    path.write_text("\n".join([",".join(header), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def margins(path, shares, records=10_000):
    rows = [
        (f"q{k}", answer, round(share * records))
        for k, each in enumerate(shares)
        for answer, share in zip(("no", "yes", "maybe", "never", "often"), each, strict=False)
    ]
    return read_joint(written(path, rows, ["question", "value", "count"]))


def related(path, group=None):
    """Three yes/no answers, the first two of them related."""
    rows = [
        (a, b, c, round(4000 * (0.3 if a == "yes" else 0.7) * (0.8 if a == b else 0.2) * 0.5))
        for a, b, c in product(("no", "yes"), repeat=3)
    ]
    if group is None:
        return written(path, rows, ["a", "b", "c", "count"])
    more = [(name, *row) for name in group for row in rows]
    return written(path, more, ["group", "a", "b", "c", "count"])


# -- priors -----------------------------------------------------------------------------------------------------------


def test_eight_cells_are_proved_with_a_table_too(tmp_path):
    """The covariance of the finished reports is singular here: alone it proves 4.4% less than the search did."""
    counts = (2954, 6486, 9476, 46981, 2029, 9940, 7711, 74321)
    rows = [(*cell, count) for cell, count in zip(product(("yes", "no"), repeat=3), counts, strict=True)]
    joint = read_joint(written(tmp_path / "joint.csv", rows, ["a", "b", "c", "count"]))
    made = make_questionnaire(joint, 1, crosses=[("a", "b")])
    ((block,),) = (made.plan.blocks,)
    certificate = block.groups[0].certificate
    assert certificate.gap < 1e-3
    # One block is the whole record: its bound is that of the record.
    assert made.lower_bound / made.error > 0.999
    verify_plan(Plan.of_block(block))
    claimed = replace(certificate, lower_bound=certificate.unbiased_variance, duals=certificate.duals[:8])
    group = replace(block.groups[0], certificate=claimed)
    with pytest.raises(PlanError, match="what is proved"):
        verify_plan(Plan.of_block(block).changed(groups=(group,)))


def test_counts_of_related_answers_are_kept_and_of_independent_ones_smoothed(tmp_path):
    joint = read_joint(related(tmp_path / "joint.csv"))
    (prior,) = joint.block(["a", "b"])
    assert prior.prior.probability("yes / yes") == pytest.approx(0.24, abs=2e-3)
    assert prior.records == 4000
    # Independence, a tempting shortcut, would say 0.3 · 0.38.
    assert abs(float(prior.prior.probability("yes / yes")) - 0.3 * 0.38) > 0.1
    (unrelated,) = joint.block(["a", "c"])
    assert unrelated.prior.probability("yes / yes") == pytest.approx(0.15, abs=1e-3)
    strengths = [
        float(each.notes[0].split(" by ")[1].split(" records")[0].replace(",", "")) for each in (prior, unrelated)
    ]
    assert strengths[0] < 100 < strengths[1]


def test_combinations_never_seen_have_a_floor_and_impossible_ones_none(tmp_path):
    rows = [("male", "no", 50), ("female", "no", 45), ("female", "yes", 5)]
    path = written(tmp_path / "joint.csv", rows, ["sex", "pregnant", "count"])
    (open_,), (closed,) = (
        read_joint(path, impossible=each).block(["sex", "pregnant"]) for each in ([], ["sex=male,pregnant=yes"])
    )
    assert open_.prior.probability("male / yes") > 0
    assert closed.prior.probability("male / yes") == 0
    assert any("never seen" in note for note in open_.notes)
    with pytest.raises(ValueError, match="declared impossible"):
        read_joint(path, impossible=["sex=female"]).block(["sex", "pregnant"])
    with pytest.raises(ValueError, match="written as in a=yes"):
        read_joint(path, impossible=["sex"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\nyes,no\n", "must name 'count'"),
        ("a,b,count\nyes,no\n", "expected 3 cells"),
        ("a,b,count\nyes,no,many\nno,yes,3\n", "must be a number"),
        ("a,b,count\nyes,no,-1\nno,yes,3\n", "not be negative"),
        ("a,b,count\nyes,no,1\nyes,yes,3\n", "one answer only"),
        ("a,b,count\n", "no rows"),
        ("a,a,count\nyes,no,1\n", "twice"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    path = tmp_path / "joint.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_joint(path, ["a", "b"])


# -- the planner ------------------------------------------------------------------------------------------------------


def test_three_even_questions_cost_what_theory_10_says(tmp_path):
    planned = make_questionnaire(margins(tmp_path / "m.csv", [[0.5, 0.5]] * 3), 1)
    assert [cost.variances["yes"] for cost in planned.costs] == pytest.approx([1.077] * 3, abs=2e-3)
    cost = planned.costs[0]
    assert (cost.split / 2, cost.ldp / 2) == pytest.approx((3.11, 3.51), abs=0.01)
    assert planned.lower_bound < planned.error
    two = make_questionnaire(margins(tmp_path / "m.csv", [[0.5, 0.5]] * 3), 2)
    assert two.costs[0].total == pytest.approx(two.costs[0].alone, rel=1e-3)  # Three for the price of one.


def test_chances_add_up_and_follow_the_root_of_the_variance():
    assert _chances([1.0, 1.0, 2.0]) == [CHANCES // 4, CHANCES // 4, CHANCES // 2]
    many = _chances([1.0] * 7 + [1e-9])
    assert sum(many) == CHANCES
    assert min(many) >= 1


def test_blocks_partition_the_questions_and_keep_crosses_together(tmp_path):
    joint = margins(tmp_path / "m.csv", [[0.9, 0.1], [0.5, 0.3, 0.2], [0.6, 0.4], [0.2, 0.2, 0.2, 0.2, 0.2]])
    planned = make_questionnaire(joint, 1, crosses=[("q0", "q3")], most_cells=12, importance={"q2": 3})
    names = [[question.name for question in block.questions] for block in planned.plan.blocks]
    assert sorted(name for each in names for name in each) == ["q0", "q1", "q2", "q3"]
    assert any({"q0", "q3"} <= set(each) for each in names)
    assert all(len(block.values) <= 12 for block in planned.plan.blocks)
    assert sum(block.chance for block in planned.plan.blocks) == CHANCES
    for block in planned.plan.blocks:
        verify_plan(Plan.of_block(block))
    equal = make_questionnaire(joint, 1, crosses=[("q0", "q3")], most_cells=12)
    assert planned.costs[2].total < equal.costs[2].total
    wide = margins(tmp_path / "m.csv", [[0.2] * 5] * 4)
    with pytest.raises(ValueError, match="joint cells in one block"):
        make_questionnaire(wide, 1, crosses=[("q0", "q1"), ("q1", "q2"), ("q2", "q3")])
    with pytest.raises(ValueError, match="not a private question"):
        make_questionnaire(joint, 1, importance={"q9": 2})


def test_no_other_partition_of_a_few_questions_is_better_by_much(tmp_path):
    shares = [[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.95, 0.05]]
    joint = margins(tmp_path / "m.csv", shares)
    planned = make_questionnaire(joint, 1)
    apart = make_questionnaire(joint, 1, most_cells=1)
    pairs = make_questionnaire(joint, 1, most_cells=4)
    assert planned.error <= pairs.error * 1.001 < apart.error
    for each in (planned, apart, pairs):
        assert each.lower_bound <= each.error
    assert planned.lower_bound >= pairs.lower_bound * (1 - 1e-6)  # One block is proved by itself, too.


def test_groups_have_priors_of_their_own_and_share_chances(tmp_path):
    joint = read_joint(related(tmp_path / "joint.csv", group=("north", "south")))
    plan = make_questionnaire(joint, 1, uncertainty=Uncertainty(error="0.03")).plan
    assert plan.group_names == ["north", "south"]
    assert all(group.prior_set is not None for block in plan.blocks for group in block.groups)


def test_a_public_question_is_in_no_block_and_a_mean_has_one_variance(tmp_path):
    from dataclasses import replace

    rows = [(a, n, 100) for a in ("yes", "no") for n in (0, 5, 10)]
    joint = read_joint(written(tmp_path / "joint.csv", rows, ["a", "n", "count"]))
    questions = [replace(joint.questions[0], public=True), replace(joint.questions[1], kind="number", task="mean")]
    planned = make_questionnaire(joint, 1, questions=questions)
    assert [[question.name for question in block.questions] for block in planned.plan.blocks] == [["n"]]
    assert list(planned.costs[0].variances) == ["mean"]
    assert planned.costs[0].total == pytest.approx(planned.costs[0].alone, rel=1e-2)


# -- the wrong ways ---------------------------------------------------------------------------------------------------


def _level(joint, channels):
    """The largest |ln lift| of the record, or of one answer, when all channels report; from the definitions."""
    values = list(np.ndindex(joint.shape))
    worst = 0.0
    for reports in product(*(range(channel.shape[1]) for channel in channels)):
        chance = np.array(
            [np.prod([c[x, y] for c, x, y in zip(channels, cell, reports, strict=True)]) for cell in values]
        )
        prior = joint.ravel()
        lift = chance / (prior @ chance)
        for question in range(joint.ndim):
            for answer in range(joint.shape[question]):
                held = np.array([cell[question] == answer for cell in values])
                worst = max(worst, abs(np.log((prior[held] @ lift[held]) / prior[held].sum())))
    return worst


def test_three_reports_at_full_budget_break_the_promise_for_related_answers():
    single = optimal_binary(Prior.of({"no": 0.5, "yes": 0.5}), 1).matrix
    same = np.zeros((2, 2, 2))
    same[0, 0, 0] = same[1, 1, 1] = 0.45
    same += 0.1 / 8
    independent = np.full((2, 2, 2), 1 / 8)
    assert _level(independent, [single] * 3) <= 1 + 1e-9  # About one answer each, as long as they are unrelated,
    assert _level(same, [single] * 3) > 1.5  # and far above where they are not.


def test_a_channel_for_independent_answers_breaks_the_promise_where_they_are_related(tmp_path):
    plan = make_questionnaire(margins(tmp_path / "m.csv", [[0.7, 0.3], [0.62, 0.38], [0.5, 0.5]]), 1).plan
    (true,) = read_joint(related(tmp_path / "joint.csv")).block(["a", "b", "c"])
    mechanism = plan.blocks[0].groups[0].mechanism
    assert audit(mechanism).lip.epsilon <= 1
    believed = Prior(mechanism.prior.values, true.prior.weights)
    assert audit(mechanism.under(believed)).lip.epsilon > 1.05
    # The plan for the joint prior keeps it.
    kept = make_questionnaire(read_joint(related(tmp_path / "joint.csv")), 1).plan
    assert all(group.levels["lip"] <= 1 for block in kept.blocks for group in block.groups)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_plan_and_says_what_each_question_costs(tmp_path):
    from tacit.cli.everything import app

    path, plan = related(tmp_path / "joint.csv"), tmp_path / "plan.json"
    arguments = ["plan", str(path), "--questions", "a,b,c", "--epsilon", "1", "-o", str(plan)]
    result = CliRunner().invoke(app, [*arguments, "--json", "--cross", "a,b", "--importance", "c=2"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert [each["name"] for each in facts["questions"]] == ["a", "b", "c"]
    assert facts["questions"][0]["answers"][0]["unbiased_variance"] > 0
    assert all(block["lip"] <= 1 for block in facts["blocks"])
    assert Plan.load(plan).hash == facts["plan"]
    assert CliRunner().invoke(app, ["audit", str(plan)]).exit_code == 0
    said = CliRunner().invoke(app, [*arguments, "--overwrite"]).output
    assert "LDP" in said
    assert "drawn towards independence" in said.replace("\n", " ")
    for more in (["--task", "histogram"], ["--cross", "a"], ["--importance", "c"]):
        assert CliRunner().invoke(app, [*arguments, *more]).exit_code != 0
    assert isinstance(read_joint(path), JointPrior)
    assert MOST_CELLS == 32


def test_messages_say_which_table_to_plan_for_and_what_stops_a_range(tmp_path, monkeypatch):
    from tacit.cli.everything import app

    def said(*words: str) -> str:
        return " ".join(CliRunner().invoke(app, words).output.split())

    monkeypatch.chdir(tmp_path)
    counts = (233, 951, 158, 754, 5915, 771, 188, 1150, 135, 793, 8033, 919)
    rows = [",".join(cells) for cells in product(("yes", "no"), ("yes", "no"), ("0–5", "6–8", "9–25"))]
    joint = ["smokes,asthma,sleep,count", *(f"{row},{count}" for row, count in zip(rows, counts, strict=True))]
    (tmp_path / "joint.csv").write_text("\n".join(joint), encoding="utf-8")
    (tmp_path / "answers.csv").write_text("\n".join(["smokes,asthma,sleep", *rows * 40]), encoding="utf-8")
    plan = ["plan", "joint.csv", "--epsilon", "2", "--cross", "smokes,asthma"]
    planned = said(*plan, "--questions", "smokes,asthma,sleep", "-o", "plan.json")
    assert "e+0" not in planned.partition("independence by")[2]
    assert "block only" not in planned
    said("perturb", "plan.json", "answers.csv", "-o", "reports.csv")
    assert "smokes (rows) by asthma (columns)" in said("crosstab", "plan.json", "reports.csv", "smokes", "asthma")
    assert "--cross smokes,sleep" in said("crosstab", "plan.json", "reports.csv", "smokes", "sleep")
    assert "how answers are related otherwise is as in the prior" in said(
        "next", "plan.json", "reports.csv", "-o", "second.json"
    )
    asked = (
        '[[question]]\nname = "smokes"\n[[question]]\nname = "asthma"\n[[question]]\nname = "sleep"\nrange = [0, 24]\n'
    )
    (tmp_path / "questions.toml").write_text(asked, encoding="utf-8")
    assert "without --bins" in said(*plan, "--questions", "questions.toml", "-o", "ranged.json")
