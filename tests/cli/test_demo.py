"""The demo's service: people who answer over HTTP are counted once, estimated, and leave nothing but counts."""

from __future__ import annotations

import socket
import sys
from urllib.parse import urlsplit

import pytest

from tacit.cli import demo


@pytest.fixture(scope="module")
def said(tmp_path_factory, tacit_on_path):
    """What the demo with a small crowd said, in a folder of its own that stays the demo's.

    Its commands start at once here; `test_readme.py` looks at what it prints.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(tacit_on_path / "python"))
        folder = tmp_path_factory.mktemp("out") / "demo"
        for name, value in {"OUT": folder, "PEOPLE": 2_000, "BROWSERS": 600, "AGAIN": 50}.items():
            patch.setattr(demo, name, value)
        yield demo.run_for_scripts()


def test_for_scripts_it_says_what_every_command_said(said):
    assert {"plan", "perturb", "estimate", "serve"} <= said.keys()
    served = said["serve"]
    (row,) = served["rows"]
    assert (served["counted"], served["sent_again"], served["counted_twice"]) == (600, 50, 0)
    # The reports are drawn anew each time: six standard errors, which fails once in 500 million times.
    assert abs(row["estimate"] - served["truth"]) < 6 * row["standard_error"]
    groups = len(demo.DIABETES)
    assert served["stored"] == {
        "counts": served["stored"]["counts"], "keys": served["stored"]["keys"],
        "redemptions": 0, "refusals": 0, "settings": 1, "surveys": 1,
        "totals": groups, "arriving": 0, "coverage": 0, "sealed": 1, "published": 0, "tokens": 1,
        "alembic_version": 1,
    }  # fmt: skip
    # The last keys wait in the sealed row until there is a crowd of twenty.
    assert 580 < served["stored"]["keys"] <= 600
    assert groups <= served["stored"]["counts"] <= 2 * groups
    address = urlsplit(served["surveys"][0]["dashboard"])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port))


def test_three_questions_are_asked_in_one_report(said):
    three = said["three"]
    assert {"plan", "perturb", "estimate", "crosstab"} <= three.keys()
    rows = {row["question"]: row for row in three["estimate"]["estimates"] if row["value"] == "yes"}
    for name, truth in three["truth"].items():
        width = rows[name]["share_high"] - rows[name]["share_low"]
        assert abs(rows[name]["share"] - truth) < 2 * width  # Nearly eight standard errors.
    assert len(three["crosstab"]["rows"]) == 4


def test_each_run_of_the_service_starts_with_nothing(said, monkeypatch):
    assert demo.stored()["keys"] > 580
    monkeypatch.setattr(demo, "BROWSERS", 60)
    (demo.OUT / "plan.json").unlink()
    demo.make_plan()
    with demo.service() as started:
        assert demo.answer_over_http(started)["counted"] == 60
    assert 40 < demo.stored()["keys"] <= 60


def test_a_service_that_does_not_start_is_an_error(said, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(demo, "OUT", tmp_path / "demo")
    with pytest.raises(OSError, match="did not start"), demo.service():
        pass
    assert "plan.json" in capfd.readouterr().err
