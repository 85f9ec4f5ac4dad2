"""The browser client: its golden files are Python's words, and its own tests pass in node."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import subprocess
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tacit import Prior
from tacit.designs import following_plan
from tacit.exact import at_most_exp
from tacit.files import InputError, Ledger
from tacit.files.ledger import Occasion, added_up
from tacit.mechanism import KINDS, ManyValues
from tacit.mechanism.auditing import percent
from tacit.plan import Plan, PlanError, Recoding, base_name, contract_hash, followed_name
from tacit.prior import read_set
from tacit.randomize import Randomizer, RecordRandomizer

from support import places
from support.places import CLIENT, node

GOLDEN = places.GOLDEN / "client"
PLANS = sorted(path.stem for path in GOLDEN.glob("plan_*.json"))


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def maker() -> Any:
    """The module that writes the golden files: it says what is expected of a plan."""
    spec = importlib.util.spec_from_file_location("make_client_golden", GOLDEN / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_python_reads_the_ledger_of_a_browser_and_refuses_the_same_ones(tmp_path):
    known = golden("ledger")
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(known["ledger"]), encoding="utf-8")
    found = Ledger.open(path)
    plans = [Plan.from_dict(each) for each in known["plans"]]
    assert found.to_dict() == known["ledger"] == maker().ledger(plans)["ledger"]
    with pytest.raises(InputError, match="1 person has a report of wave 2"):
        found.add(Plan.from_dict(known["plans"][1]), [""])
    for each in known["refused"]:
        path.write_text(json.dumps(each["ledger"]), encoding="utf-8")
        with pytest.raises(InputError, match=r"altered|not a ledger"):
            Ledger.open(path)


def test_python_says_what_the_golden_panels_say():
    """Two layers, the belief rule, and what reports of several waves add up to."""
    known = golden("panels")
    for each in known["layers"]:
        assert json.loads(json.dumps(maker().layered(Plan.from_dict(each["plan"])))) == each
    (first, second, third), (named, named_second) = (
        [Plan.from_dict(plan) for plan in each] for each in known["belief"]
    )
    assert [following_plan(first, "9/10"), following_plan(second, "9/10")] == [second, third]
    matrix = named_second.follows.transition
    assert [g.prior for g in following_plan(named, transition=matrix).groups] == [g.prior for g in named_second.groups]
    for group, report, name, base in known["names"]:
        assert (followed_name(group, report), base_name(group)) == (name, base)
    for each in known["added"]:
        told = [Occasion.from_dict(occasion) for occasion in each["occasions"]]
        assert [[str(level) for level in added_up(told[:count])] for count in range(len(told) + 1)] == each["sums"]
    for plans, each in zip(known["plans"], known["added"][1:], strict=True):
        assert [Occasion.of(Plan.from_dict(plan)).to_dict() for plan in plans] == each["occasions"]


class Replay:
    """Words from a list of (bits, word), each asked for with its number of bits."""

    per_thread = False

    def __init__(self, drawn: list[tuple[int, str]]) -> None:
        self.left = list(drawn)

    def integer(self, bits: int) -> int:
        expected, word = self.left.pop(0)
        assert bits == expected
        return int(word)

    def draw(self, count: int, bits: int) -> Any:
        return np.array([self.integer(bits) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize("name", PLANS)
def test_python_says_what_the_golden_files_say(name):
    known = golden(name)
    plan = Plan.from_dict(known["plan"])
    randomizer = Randomizer(plan)
    places = {group.name: place for place, group in enumerate(plan.groups)}
    positions = {str(value): position for position, value in enumerate(plan.values)}
    assert contract_hash(known["plan"]) == plan.hash == known["plan"]["hash"]
    for group, value, drawn, report in known["reports"]:
        words = Replay(drawn)
        position = int(randomizer.rounded([float(value)], words)[0]) if plan.between else positions[value]
        assert randomizer.report(places[group], position, words) == report
        assert not words.left
    said = maker().expected(plan)
    assert {key: known[key] for key in said if key != "reports"} == {key: said[key] for key in said if key != "reports"}


def test_the_golden_plans_are_of_every_kind():
    plans = {name: Plan.from_dict(golden(name)["plan"]) for name in PLANS}
    groups = [group for plan in plans.values() for group in plan.groups]
    circles = [group for group in groups if isinstance(group.mechanism, ManyValues)]
    binned = [group for group in circles if group.mechanism.bins]
    sets = [(group.mechanism.kind, group.prior_set.kind) for group in groups if group.prior_set is not None]
    assert {group.notion for group in groups} == {"lip", "ldp"}
    assert {group.mechanism.kind for group in groups} == set(KINDS)
    assert any(0 in group.prior.weights for group in binned)
    assert {group.mechanism.giants > 0 for group in binned} == {False, True}
    assert max(len(group.prior) for group in binned) >= 2000
    assert max(len(group.prior) for group in circles) >= 2000
    assert any(0 in group.prior.weights for group in circles)
    assert max(max(group.prior.weights) for group in circles) > 2**53
    assert {group.mechanism.slots > 0 for group in circles} == {False, True}
    assert {group.mechanism.giants for group in circles} >= {0, 2, 10}
    assert {kind for _, kind in sets} == {"ball", "box", "hull"}
    assert {kind for kind, _ in sets} == set(KINDS)
    assert any(group.ldp_cap is not None for group in groups)
    assert {plan.between for plan in plans.values()} == {False, True}
    assert {bits for plan in PLANS for *_, drawn, _ in golden(plan)["reports"] for bits, _ in drawn} >= {32, 64, 96}
    assert all((GOLDEN / f"{name}.json").stat().st_size < 200_000 for name in PLANS)


def test_python_says_what_the_golden_recodings_say():
    """The golden file is what the browser is held to; the engines read cells by the same class."""
    for known in golden("recoding"):
        recoding = Recoding.from_dict(known["recoding"])
        assert recoding.to_dict() == known["recoding"]
        for cell, name in known.get("cells", ()):
            assert recoding.answers[0].read(cell, known["known"]) == name
        for cells, name in known.get("groups", ()):
            assert recoding.group(cells) == name


@pytest.mark.parametrize(
    "case", golden("refused") + golden("refused_recodings") + golden("panels")["refused"], ids=lambda case: case["why"]
)
def test_python_refuses_what_the_browser_refuses(case):
    with pytest.raises((ValueError, ArithmeticError)):
        Plan.from_dict(case["plan"])


@pytest.mark.parametrize("known", golden("questionnaires"), ids=lambda known: str(known["plan"]["title"]))
def test_python_says_what_the_golden_questionnaires_say(known):
    plan = Plan.from_dict(known["plan"])
    randomizer = RecordRandomizer(plan)
    for group, answers, drawn, block, report in known["records"]:
        held = [
            float(text) if question.kind == "number" else [str(answer) for answer in question.answers].index(text)
            for question in plan.private
            for text in [answers[question.name]]
        ]
        words = Replay(drawn)
        place = 0 if group is None else plan.group_names.index(group)
        assert randomizer.report(place, held, words) == (block - 1, report)
        assert not words.left
    said = maker().expected_of_record(plan)
    assert {key: known[key] for key in said if key != "records"} == {key: said[key] for key in said if key != "records"}


def test_python_computes_the_earlier_hashes_of_the_golden_questionnaires():
    for known in golden("reworded_questionnaires"):
        plan = Plan.from_dict(known["plan"])
        assert list(plan.hashes) == known["hashes"]
        assert (plan.wave, len(plan.earlier)) == (2, 2)


@pytest.mark.parametrize("case", golden("refused_questionnaires"), ids=lambda case: case["why"])
def test_python_refuses_the_questionnaires_that_the_browser_refuses(case):
    with pytest.raises(PlanError):
        Plan.from_dict(case["plan"])


def test_golden_numbers_are_pythons():
    numbers = golden("numbers")
    for ratio, epsilon, holds in numbers["at_most_exp"]:
        assert at_most_exp(Fraction(ratio), Fraction(epsilon)) is holds
    for share, near, up, down in numbers["percent"]:
        assert [percent(Fraction(share)), percent(Fraction(share), "up"), percent(Fraction(share), "down")] == [
            near,
            up,
            down,
        ]
    for text, quoted in numbers["quoted"]:
        assert repr(text) == quoted
    data, text = numbers["canonical"]
    assert json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":")) == text
    for small in golden("small_many_values"):
        (group,) = Plan.from_dict(small["plan"]).groups
        rule = group.mechanism
        assert isinstance(rule, ManyValues)
        every = 1 << rule.word_bits * rule.words_per_report
        for value, row in enumerate(small["counts"]):
            assert [rule.likelihood(value, report) * every for report in range(len(row))] == row


def test_golden_levels_are_pythons():
    levels, mechanism_of = golden("levels"), maker().mechanism_of
    assert set(levels) == set(KINDS)
    for kind, cases in levels.items():
        for known in cases:
            prior = Prior(range(len(known["prior"])), [int(weight) for weight in known["prior"]])
            mechanism = mechanism_of(known, prior)
            assert mechanism.kind == kind
            found = mechanism.audit()
            for name, level in {"lip_upper": found.lip_upper, "lip_lower": found.lip_lower, "ldp": found.ldp}.items():
                assert level.ratio == (None if known[name] is None else Fraction(known[name]))


def test_golden_levels_for_sets_are_pythons():
    mechanism_of = maker().mechanism_of
    for known in golden("set_levels"):
        prior = Prior(range(len(known["prior"])), [int(weight) for weight in known["prior"]])
        prior_set = read_set(known["prior_set"], prior)
        assert prior_set.radius == Fraction(known["radius"])
        sides = mechanism_of(known, prior).set_levels(prior_set)
        stated = [None if known[side] is None else Fraction(known[side]) for side in ("upper", "lower")]
        assert [side.ratio for side in sides] == stated


def test_both_sides_know_the_same_mechanisms():
    """A kind that only one of them reads would make plans that the other refuses."""
    code = 'import { KINDS } from "./mechanism/kinds.js"; console.log(JSON.stringify(Object.keys(KINDS)))'
    command = [node(), "--input-type=module", "--eval", code]
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == list(KINDS)


def test_the_client_passes_its_own_tests():
    done = subprocess.run([node(), "--test"], cwd=CLIENT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    counts = {name: int(count) for name, count in re.findall(r"^(?:#|ℹ) (tests|pass|fail) (\d+)$", done.stdout, re.M)}
    assert counts["fail"] == 0
    assert counts["pass"] == counts["tests"] > 100


# -- credentials ------------------------------------------------------------------------------------------------------

BLIND_OR_FINALIZE = """
import { blind, finalize } from "./credential.js";
const { key, message, signature, pending } = JSON.parse(process.argv[1]);
console.log(JSON.stringify(signature ? await finalize(key, message, signature, pending) : await blind(key, message)));
"""


def run_credential(**given: Any) -> Any:
    command = [node(), "--input-type=module", "--eval", BLIND_OR_FINALIZE, json.dumps(given)]
    return json.loads(
        subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, timeout=60, check=True).stdout
    )


def encoded(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8, "big")).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_credential_blinded_in_the_browser_is_signed_and_verified_in_python():
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    numbers = private.private_numbers()
    n = numbers.public_numbers.n
    key, message = {"n": encoded(n), "e": encoded(65537)}, "00112233445566778899aabbccddeeff"
    pending = run_credential(key=key, message=message)
    blinded = decoded(pending["blinded"])
    assert len(blinded) == 256
    signed = pow(int.from_bytes(blinded, "big"), numbers.d, n).to_bytes(256, "big")
    signature = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
    credential = decoded(run_credential(key=key, message=message, signature=signature, pending=pending))
    scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
    private.public_key().verify(credential, message.encode(), scheme, hashes.SHA384())
    with pytest.raises(InvalidSignature):
        private.public_key().verify(credential, b"another", scheme, hashes.SHA384())
