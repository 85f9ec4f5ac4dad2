"""Stopping the service: in order, whichever signal asks for it, so that nothing stays in a log beside the database."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from support.service import key, plain_plan


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_no_log_and_no_process_stay(tmp_path: Path, asked: signal.Signals):
    plain_plan().save(tmp_path / "plan.json")
    words = [sys.executable, "-m", "tacit", "serve", "plan.json", "--data", "data", "--port", "0", "--json"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
        told = ""
        for line in service.stdout:
            told += line
            if line.startswith("}"):
                break
        (survey,) = json.loads(told)["surveys"]
        where = survey["page"].replace("/s/", "/api/surveys/") + "/reports"
        for number in range(5):
            body = json.dumps({"key": key(number), "group": None, "report": 1}).encode()
            request = urllib.request.Request(where, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert json.load(answer)["status"] == "counted"
        service.send_signal(asked)
        assert service.wait(20) == 0
    assert [path.name for path in (tmp_path / "data").iterdir() if path.name.startswith("tacit.sqlite")] == [
        "tacit.sqlite"
    ]
