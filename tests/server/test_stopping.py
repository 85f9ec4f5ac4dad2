"""Stopping the service: in order, whichever signal asks for it, so that nothing stays in a log beside the database."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
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


def test_it_is_set_up_by_the_environment_tells_systemd_and_drains(tmp_path: Path):
    """Data and token come from files, as secrets of containers do; after SIGTERM it answers for a while and says no."""
    (tmp_path / "where").write_text(f"{tmp_path / 'data'}\n")
    (tmp_path / "token").write_text("a-token-from-a-file\n")
    variables = {
        "TACIT_DATA_FILE": str(tmp_path / "where"),
        "TACIT_TOKEN_FILE": str(tmp_path / "token"),
        "TACIT_PORT": "0",
        "TACIT_DRAIN": "2",
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
    }
    words = [sys.executable, "-m", "tacit", "serve", "--json"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with (
            subprocess.Popen(words, cwd=tmp_path, env=os.environ | variables, text=True, **pipes) as service,  # type: ignore[call-overload]
            contextlib.ExitStack() as closing,
        ):
            closing.callback(service.kill)
            told = ""
            for line in service.stdout:
                told += line
                if line.startswith("}"):
                    break
            url = json.loads(told)["url"]
            assert systemd.recv(100) == b"READY=1"
            headers = {"Authorization": "Bearer a-token-from-a-file"}
            request = urllib.request.Request(f"{url}/api/surveys", headers=headers)
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert json.load(answer) == []
            service.send_signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(f"{url}/readyz", timeout=20)
            with urllib.request.urlopen(f"{url}/livez", timeout=20) as answer:
                assert answer.status == 200
            assert service.wait(20) == 0
    assert (tmp_path / "data" / "tacit.sqlite").exists()
