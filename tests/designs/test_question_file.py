"""The question file: what it states reaches the plan, and what it cannot state is refused in words."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import Plan, Prior
from tacit.cli.everything import app
from tacit.designs import beliefs_about, make_questionnaire, other_beliefs, read_joint, read_questions, stated_questions
from tacit.files import perturb_table
from tacit.plan import PlanError, Question

JOINT = """smokes,days,visits,count
no,0,0,40
yes,10,1,20
no,5,2,30
yes,0,5,10
"""
FILE = """title = "Health"
[[question]]
name = "smokes"
text = {en = "Do you smoke?", de = "Rauchen Sie?"}
answers = ["yes", "no", "prefer not to say"]
labels = {de = ["ja", "nein", "keine Angabe"]}
[[question]]
name = "days"
range = [0, 30]
[[question]]
name = "visits"
answers = [5, 0, 1, 2]
task = "quantiles"
[[question]]
name = "region"
answers = ["north", "south"]
public = true
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "joint.csv").write_text(JOINT)
    (tmp_path / "questions.toml").write_text(FILE)
    return tmp_path


def test_what_the_file_states_reaches_the_plan(files):
    title, stated = read_questions(files / "questions.toml")
    joint = read_joint(files / "joint.csv", ["smokes", "days", "visits"])
    questions = stated_questions(stated, joint)
    assert [question.kind for question in questions] == ["one-of", "number", "one-of", "yes-no"]
    assert questions[1].answers == (0, 3.5, 30)  # The ends, and the mean of the past answers.
    plan = make_questionnaire(joint, 2, questions=questions, title=title).plan
    assert plan.title == "Health"
    assert plan.question_of("smokes").labels["de"][0] == "ja"
    assert [question.name for question in plan.private] == ["smokes", "days", "visits"]
    assert plan.asking("visits").row_values == ["at most 0", "at most 1", "at most 2"]


def test_priors_follow_the_order_of_the_answers_and_keep_the_mean_of_numbers(files):
    joint = read_joint(files / "joint.csv", ["smokes", "days", "visits"])
    asked = joint.asking(stated_questions(read_questions(files / "questions.toml")[1], joint))
    (smokes,), (days,), (visits,) = (asked.block([name]) for name in ("smokes", "days", "visits"))
    assert smokes.prior.probabilities[:2] == pytest.approx([0.3, 0.7], abs=0.01)
    assert smokes.prior.probabilities[2] > 0, "an answer that was never seen is possible"
    assert days.prior.probabilities @ days.prior.numbers == pytest.approx(3.5, abs=0.05)
    assert visits.prior.probabilities.round(2).tolist() == [0.1, 0.4, 0.2, 0.3]


def test_somebody_who_knows_how_answers_are_related_learns_more_than_the_plan_promises(files):
    """Margins taken as independent: the joint belief of the file exceeds ε, by less than the LDP level."""
    (files / "margins.csv").write_text("question,value,count\na,yes,50\na,no,50\nb,yes,50\nb,no,50\n")
    (files / "belief.csv").write_text("a,b,count\nyes,yes,49\nno,no,49\nyes,no,1\nno,yes,1\n")
    plan = make_questionnaire(read_joint(files / "margins.csv"), 1, crosses=[("a", "b")]).plan
    (block,) = plan.blocks
    (held,) = beliefs_about(files / "belief.csv", plan)[""]
    (other,) = other_beliefs(plan.block_plans[0], held)
    assert 1.01 < other.level <= block.groups[0].levels["ldp"]
    (same,) = beliefs_about(files / "margins.csv", plan)[""]
    assert other_beliefs(plan.block_plans[0], same)[0].level == pytest.approx(1, abs=1e-3)


def test_a_single_question_takes_the_priors_of_a_plan_without_a_question_file(files):
    (files / "one.csv").write_text("group,value,count\nold,yes,20\nold,no,80\nyoung,yes,3\nyoung,no,97\n")
    old, young = read_joint(files / "one.csv", ["ill"]).block(["ill"])
    shares = [float(group.prior.probability("yes")) for group in (old, young)]
    assert (*shares, old.records) == (0.2, 0.03, 100)
    with pytest.raises(ValueError, match="no column for the question 'ill'"):
        read_joint(files / "one.csv", ["ill", "poor"])


def test_margins_must_add_up(tmp_path):
    def read(*shares: str):
        rows = "\n".join(f"a,{name},{share}" for name, share in zip(("yes", "no"), shares, strict=True))
        (tmp_path / "m.csv").write_text(f"question,value,probability\n{rows}\nb,yes,.5\nb,no,.5\n")
        return read_joint(tmp_path / "m.csv")

    assert read("20", "80").block(["a"])[0].prior.probabilities == pytest.approx([0.2, 0.8])
    with pytest.raises(ValueError, match=r"'a' must sum to 1.*sum to 1\.6"):
        read(".8", ".8")


def test_a_question_must_depend_on_an_earlier_one(files):
    joint = read_joint(files / "joint.csv", ["smokes", "days"])
    for earlier, words in (("z", "earlier question"), ("smokes", "earlier question")):
        one = Question(name="smokes", answers=("yes", "no", "not asked"), asked_if=(earlier, ("yes",)))
        with pytest.raises(PlanError, match=words):
            make_questionnaire(joint, 1, questions=[one])


def test_a_public_answer_travels_beside_the_report_so_its_reader_uses_it(tmp_path, monkeypatch):
    """The level is that given the public answer, in the belief's audit and on the sheet."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.toml").write_text(
        "[[question]]\nname='region'\nanswers=['north','south']\npublic=true\n"
        "[[question]]\nname='ski'\nanswers=['yes','no']\nasked_if=['region',['north']]\n"
        "[[question]]\nname='drugs'\nanswers=['yes','no']\n"
    )
    people = {"north,yes,yes": 5, "north,yes,no": 15, "north,no,yes": 10, "north,no,no": 70}
    people |= {"south,not asked,yes": 50, "south,not asked,no": 850}
    (tmp_path / "p.csv").write_text("region,ski,drugs,count\n" + "\n".join(f"{k},{n}" for k, n in people.items()))

    def run(*words: str) -> str:
        made = CliRunner().invoke(app, list(words))
        assert made.exit_code == 0, made.output
        return made.stdout

    run("plan", "p.csv", "--questions", "q.toml", "--epsilon", "1", "-o", "plan.json")
    found = json.loads(run("audit", "plan.json", "--belief", "p.csv", "--json"))
    levels = {}
    for each in (belief for block in found["blocks"] for belief in block["belief"]):
        levels[each["public"]] = max(levels.get(each["public"], 0), each["level"])
    assert set(levels) == {"region = north", "region = south"}
    # By the definition: the largest ratio of a report's probability for an answer to that for a region.
    plan = Plan.load("plan.json")
    assert len(plan.blocks) == 1
    channel = plan.blocks[0].groups[0].mechanism.table().matrix
    cells = {"yes / yes": 5, "yes / no": 15, "no / yes": 10, "no / no": 70}
    weights = np.array([cells.get(str(value), 0) for value in plan.blocks[0].values]) / 100
    assert weights.sum() == 1
    ratios = channel[weights > 0] / (weights @ channel)
    assert levels["region = north"] == pytest.approx(max(np.log(ratios.max()), -np.log(ratios.min())), abs=1e-9)
    assert levels["region = north"] > 1.01, "the promise at ε = 1 is not that of this reader"
    assert found["notes"][-1].startswith("region is public")
    run("sheet", "plan.json", "-o", "sheet.html")
    text = (tmp_path / "sheet.html").read_text()
    assert text.count("region is public and tells about private answers") == 2  # Below the promise, and to paste.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = 'x'", r"\[\[question\]\]"),
        ("[[question]]\nname = 'a'\nanswer = ['x']", "unknown field 'answer'"),
        ("[[question]]\ntext = 'a'", "no name"),
        ("[[question", "not TOML"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path, text, words):
    (tmp_path / "questions.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_questions(tmp_path / "questions.toml")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"name": "height"}, "know nothing"),
        ({"name": "days", "range": [10, 0]}, "lower to a higher"),
        ({"name": "smokes", "labels": {"de": ["ja", "ja"]}}, "same label"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(files, stated, words):
    joint = read_joint(files / "joint.csv")
    with pytest.raises((ValueError, PlanError), match=words):
        stated_questions([stated], joint)
    with pytest.raises(ValueError, match="outside of 0 to 5"):
        joint.asking(stated_questions([{"name": "days", "range": [0, 5]}], joint))
    with pytest.raises(ValueError, match="none of those"):
        joint.asking(stated_questions([{"name": "smokes", "answers": ["yes", "never"]}], joint))


# -- found by an attack from outside ----------------------------------------------------------------------------------

ROUTED = """smokes,cough,count
yes,yes,90
yes,no,210
no,yes,100
no,no,600
"""


def routed(tmp_path, **fields):
    (tmp_path / "routed.csv").write_text(ROUTED)
    joint = read_joint(tmp_path / "routed.csv")
    stated = [
        {"name": "smokes", "answers": ["yes", "no"]},
        {"name": "cough", "answers": ["yes", "no"], "asked_if": ["smokes", ["yes"]], **fields},
    ]
    return joint, stated_questions(stated, joint)


def test_people_who_are_not_asked_have_that_answer_in_the_prior(tmp_path):
    """A prior without the routing let a reader who knows it learn e^1.92 at ε = 1."""
    joint, questions = routed(tmp_path)
    plan = make_questionnaire(joint, 1, questions=questions, crosses=[("smokes", "cough")]).plan
    (block,) = plan.blocks
    held = dict(zip(block.values, block.groups[0].prior.probabilities, strict=True))
    assert held["no / not asked"] == pytest.approx(0.7, abs=0.01)
    assert held["yes / yes"] == pytest.approx(0.09, abs=0.01)
    assert held["no / yes"] == held["yes / not asked"] == 0, "what the routing excludes is impossible"
    real = Prior(block.values, [round(1000 * held[value]) for value in block.values])
    assert other_beliefs(plan.block_plans[0], {None: real})[0].level < 1.02
    with pytest.raises(ValueError, match="impossible combination"):
        perturb_table(plan, {"smokes": ["no"], "cough": ["yes"]})


def test_routing_that_the_priors_do_not_know_is_refused(tmp_path):
    joint, questions = routed(tmp_path)
    public = [Question(name="smokes", answers=("yes", "no"), public=True), questions[1]]
    with pytest.raises(ValueError, match="how many are not asked"):
        make_questionnaire(joint, 1, questions=public)
    (tmp_path / "margins.csv").write_text("question,value,count\nsmokes,yes,3\nsmokes,no,7\ncough,yes,2\ncough,no,8\n")
    with pytest.raises(ValueError, match="Margins do not say"):
        read_joint(tmp_path / "margins.csv").asking(questions)
    _, other = routed(tmp_path, asked_if=["smokes", ["perhaps"]])
    with pytest.raises(PlanError, match="nobody can give"):
        make_questionnaire(joint, 1, questions=other)


def test_a_public_answer_that_tells_about_a_private_one_is_named_with_its_level(tmp_path):
    (tmp_path / "ward.csv").write_text("ward,hiv,count\nA,yes,5\nA,no,495\nB,yes,400\nB,no,100\n")
    joint = read_joint(tmp_path / "ward.csv")
    ward, hiv = joint.questions
    plan = make_questionnaire(joint, 1, questions=[replace(ward, public=True), hiv]).plan
    (told,) = [note for note in plan.notes if "ward" in note]
    assert "up to 1.6" in told
    (tmp_path / "apart.csv").write_text("ward,hiv,count\nA,yes,50\nA,no,450\nB,yes,50\nB,no,450\n")
    apart = read_joint(tmp_path / "apart.csv")
    ward, hiv = apart.questions
    assert not make_questionnaire(apart, 1, questions=[replace(ward, public=True), hiv]).plan.notes


def test_counts_of_any_size_stay_what_they_are(tmp_path):
    (tmp_path / "huge.csv").write_text("a,b,count\nx,y,1e15\nz,w,3e14\n")
    (made,) = read_joint(tmp_path / "huge.csv").block(["a", "b"])
    assert made.prior.probabilities.max() == pytest.approx(10 / 13, abs=1e-3)


@pytest.mark.parametrize("name", ["group", "count", "report", "block"])
def test_names_of_other_columns_are_no_questions(tmp_path, name):
    (tmp_path / "joint.csv").write_text(f"a,{name},count\nx,y,1\nz,w,3\n" if name != "count" else "a,count\nx,1\nz,3\n")
    with pytest.raises(ValueError, match="cannot be called"):
        read_joint(tmp_path / "joint.csv", ["a", name])


@pytest.mark.parametrize(
    "field",
    [
        "public = 'false'", "asked_if = ['smokes', 'yes']", "labels = {de = 'ja'}", "answers = 4", "range = [0]",
        "range = 5", "knots = 3", "part_of = 4", "text = {en = 3}", "labels = {de = 5}",
    ],
)  # fmt: skip
def test_a_field_of_another_kind_is_named(tmp_path, field):
    (tmp_path / "q.toml").write_text(f"[[question]]\nname = 'smokes'\n{field}\n")
    with pytest.raises(ValueError, match=f"The field '{field.split()[0]}' of the question 'smokes' must be"):
        read_questions(tmp_path / "q.toml")
