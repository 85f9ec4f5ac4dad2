"""One question has one number: command, Python, page, dashboard and `difference` show the same estimate."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tacit import Prior, Quantiles, Survey, difference, estimate, make_plan
from tacit.estimates import quantiles
from tacit.server.storage.store import Submission, survey_id
from tacit.show.sentences import estimate_cells
from tacit.tally import Tally

from support.answering import tally_of
from support.commanding import done
from support.service import Client, key

SHARES = {"north": 0.12, "south": 0.2, "west": 0.3}
PLAN = make_plan({name: Prior.of({"yes": p, "no": 1 - p}) for name, p in SHARES.items()}, Survey("yes"), epsilon=1)


def collected(client: Client) -> tuple[str, Tally]:
    """A survey with some 3,000 reports, and their tally."""
    tally = tally_of(PLAN, [[140, 860], [190, 810], [320, 680]], np.random.default_rng(7))
    reports = [
        (place, int(report), int(times))
        for place, group in enumerate(PLAN.groups)
        for report, times in zip(
            *(getattr(tally.groups[group.name], name) for name in ("reports", "counts")), strict=True
        )
    ]
    survey = client.open(PLAN)
    assert client.store.count([Submission(survey_id(PLAN), key(0), tuple(reports))]) == ["counted"]
    return survey, tally


def test_every_surface_shows_the_same_headline(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    survey, tally = collected(client)
    monkeypatch.chdir(tmp_path)
    PLAN.save("plan.json")
    Path("tally.json").write_text(json.dumps(client.tally(survey)))
    python = estimate(PLAN, tally, by="group")
    expected = {"everybody": python.rows[0]} | {name: part.rows[0] for name, part in python.parts.items()}
    shares = {name: row.estimate / (3000 if name == "everybody" else 1000) for name, row in expected.items()}

    def numbers(row: dict[str, float]) -> tuple[float, ...]:
        return row["estimate"], row["low"], row["high"]

    command = json.loads(done("estimate", "plan.json", "tally.json", "--by", "group", "--json"))
    board = client.get(f"{survey}/results", admin=True).json()
    groups = client.get(f"{survey}/results/groups", admin=True).json()
    for found in (command["estimates"][0], board["rows"][0]):
        assert numbers(found) == pytest.approx(numbers(vars(expected["everybody"])), rel=1e-12)
    for part in groups["parts"]:
        assert numbers(part) == pytest.approx(numbers(vars(expected[part["group"]])), rel=1e-12)
        assert numbers(command["by"][part["group"]]["estimates"][0]) == pytest.approx(numbers(part), rel=1e-12)
    compared = difference(PLAN, tally, by="group", against="prior").rows
    assert {row.part: row.first for row in compared} == pytest.approx(shares, rel=1e-12)
    earlier = difference(PLAN, tally, before=tally).rows[0]
    assert (earlier.first, earlier.second, earlier.difference) == pytest.approx((shares["everybody"],) * 2 + (0.0,))
    assert python.scope == command["scope"] == "population"
    assert "sampling included" in board["about"]
    assert python.estimator == board["estimator"] == groups["estimator"] == "assisted"
    # Two pages of one survey, one by each command, lead with one number.
    done("estimate", "plan.json", "tally.json", "--html", "a.html")
    done("difference", "plan.json", "tally.json", "--by", "group", "--html", "b.html")
    big = [re.search(r'class="big">(.*?)<', html.unescape(Path(name).read_text())) for name in ("a.html", "b.html")]
    _, _, share, interval = estimate_cells(PLAN, python, python.rows[0])
    assert [each[1] for each in big if each] == [share, share]
    assert interval in html.unescape(Path("a.html").read_text())
    # The named wrong answers: the estimate without the prior, and the interval about participants.
    assert estimate(PLAN, tally, "unbiased").rows[0].estimate != pytest.approx(expected["everybody"].estimate, rel=1e-6)
    alone = estimate(PLAN, tally, scope="participants").rows[0]
    assert alone.high - alone.low < 0.97 * (expected["everybody"].high - expected["everybody"].low)


def test_a_plan_for_quantiles_leads_with_the_median(client: Client):
    plan = make_plan(Prior.of({0: 2, 5: 5, 10: 3}), Quantiles(), epsilon=3)
    tally = tally_of(plan, [[200, 700, 100]], np.random.default_rng(1))
    survey = client.open(plan)
    assert client.get(f"{survey}/results", admin=True).json()["median"] is None
    counts = tally.groups[None]
    reports = [(0, int(each), int(n)) for each, n in zip(counts.reports, counts.counts, strict=True)]
    client.store.count([Submission(survey_id(plan), key(0), tuple(reports))])
    (found,) = quantiles(plan, tally)
    shown = client.get(f"{survey}/results", admin=True).json()["median"]
    assert shown == {"value": "5", "low": str(found.low), "high": str(found.high)}
