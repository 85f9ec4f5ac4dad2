"""The examples in deploy/ are used as they are: parsed, checked by their own programs, and nginx in front for real."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from tacit.cli.everything import app
from tacit.server.invitations import CredentialKey, make_invitations, new_secrets
from tacit.server.site.verify_page import verify_page
from tacit.server.storage.store import Store, copy_store, survey_id
from tacit.tally import Tally

from support import postgres as pg
from support.blinding import Signer
from support.listening import free_port, listening
from support.places import ROOT
from support.service import Days, plain_plan

DEPLOY = ROOT / "deploy"


def program(name: str, package: str) -> str:
    """A program of the system; without it the test is skipped, except where everything must run."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        told = f"{name} is missing, so its example is UNTESTED: install Debian's package {package}."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    return found


def known_options() -> set[str]:
    said = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"})
    return set(re.findall(r"--[a-z-]+", said.stdout))


def options(words: list[str] | str) -> set[str]:
    return {word for word in (words.split() if isinstance(words, str) else words) if str(word).startswith("--")}


def test_every_option_in_the_examples_is_one_of_the_command():
    known = known_options()
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    composed: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    (started,) = re.findall(r"^ENTRYPOINT \[(.*)\]$", dockerfile, re.MULTILINE)
    (unit,) = re.findall(r"^ExecStart=(.*)$", (DEPLOY / "tacit.service").read_text(encoding="utf-8"), re.MULTILINE)
    for used in (re.findall(r'"([^"]+)"', started), composed["services"]["tacit"]["command"], unit):
        assert options(used)
        assert options(used) <= known
    assert "--no-such-option" not in known


def test_the_compose_file_names_what_is_there_and_asks_for_every_secret():
    composed: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = composed["services"]
    assert (DEPLOY / services["tacit"]["build"]["context"] / services["tacit"]["build"]["dockerfile"]).is_file()
    assert (DEPLOY / services["proxy"]["volumes"][0].partition(":")[0]).is_file()
    used = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text(encoding="utf-8")))
    offered = dict(line.split("=") for line in (DEPLOY / ".env.example").read_text(encoding="utf-8").split())
    assert used == set(offered)
    assert offered["POSTGRES_PASSWORD"] == offered["TACIT_TOKEN"] == ""
    for volume in ("database", "certificates"):
        assert volume in composed["volumes"]


def test_the_image_is_made_of_files_that_are_there():
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    for sources in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
    assert re.search(r"^USER \d+:\d+$", text, re.MULTILINE), "a number, which a cluster can check"
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert kept[kept.index("*") :][:7] == [
        "*", "!pyproject.toml", "!constraints.txt", "!README.md", "!LICENSE", "!src", "!browser"
    ]  # fmt: skip


def test_systemd_takes_the_unit(tmp_path: Path):
    analyze = program("systemd-analyze", "systemd")
    unit = tmp_path / "tacit.service"
    text = (DEPLOY / "tacit.service").read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/tacit/bin/tacit", sys.executable), encoding="utf-8")
    said = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert "tacit.service" not in said.stderr, said.stderr
    unit.write_text(text.replace("ProtectHome=yes", "ProtectHouse=yes"), encoding="utf-8")
    said = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert "ProtectHouse" in said.stderr


def test_caddy_takes_its_file():
    caddy = program("caddy", "caddy")
    command = [caddy, "validate", "--adapter", "caddyfile", "--config", str(DEPLOY / "Caddyfile")]
    environment = os.environ | {"HOST": "survey.example", "UPSTREAM": "127.0.0.1:8000"}
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert said.returncode == 0, said.stderr
    assert "Valid configuration" in said.stdout + said.stderr


def answers(port: int) -> bool:
    """Whether somebody takes connections on a loopback port."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def nginx(tmp_path: Path, upstreams: list[str], port: int) -> Iterator[Path]:
    """nginx with the example's server, on a loopback port, as this user; its certificate is made here. Its log."""
    binary = program("nginx", "nginx-light")
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", f"{tmp_path}/key.pem", "-out", f"{tmp_path}/certificate.pem"]
    command = [program("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*command, "-nodes", "-days", "2", *subject, *files], check=True, capture_output=True, timeout=60)
    server = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for example, here in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/survey.example.pem": f"{tmp_path}/certificate.pem",
        "/etc/ssl/private/survey.example.key": f"{tmp_path}/key.pem",
        "server 127.0.0.1:8000 max_fails=0;": " ".join(f"server {each} max_fails=0;" for each in upstreams),
    }.items():
        assert example in server
        server = server.replace(example, here)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "\n".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"daemon off; pid {tmp_path}/pid; error_log stderr warn; events {{}} http {{ {places} {server} }}",
        encoding="utf-8",
    )
    subprocess.run([binary, "-t", "-c", str(configuration)], check=True, capture_output=True, timeout=60)
    with (tmp_path / "nginx.log").open("wb") as log:
        process = subprocess.Popen([binary, "-c", str(configuration)], stderr=log)
    try:
        while not answers(port):
            assert process.poll() is None
            time.sleep(0.02)
        yield tmp_path / "nginx.log"
    finally:
        process.terminate()
        process.wait(20)


def test_the_service_is_reached_through_nginx_below_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every page and file arrives as published, the path is left on, and what is private stays behind the proxy."""
    store = Store(tmp_path / "data", Days())
    store.create(plain_plan(), public_results=True)
    port, survey = free_port(), survey_id(plain_plan())
    with listening(store, monkeypatch, below="/surveys/") as url:
        upstream = url.removesuffix("/surveys").removeprefix("http://")
        with nginx(tmp_path, [upstream], port):
            monkeypatch.setenv("SSL_CERT_FILE", f"{tmp_path}/certificate.pem")
            found = verify_page(f"https://127.0.0.1:{port}/surveys/s/{survey}")
            assert found.wrong == []
            assert len(found.findings) > 40
            trusting = ssl.create_default_context(cafile=f"{tmp_path}/certificate.pem")
            with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting) as client:
                report = {"key": "0" * 32, "group": None, "report": 1}
                sent = client.post(f"/surveys/api/surveys/{survey}/reports", json=report)
                assert sent.json() == {"status": "counted"}
                assert client.get("/surveys").headers["location"].endswith("/surveys/")
                assert client.get("/surveys/metrics").status_code == 404
                assert client.get(f"/surveys/d/{survey}").headers["strict-transport-security"]
                assert client.get(f"/s/{survey}").status_code == 404
    store.close()


def test_nginx_writes_no_client_down_where_the_service_does_not_answer(tmp_path: Path):
    port, down = free_port(), free_port()
    with nginx(tmp_path, [f"127.0.0.1:{down}"], port) as log:
        trusting = ssl.create_default_context(cafile=f"{tmp_path}/certificate.pem")
        assert httpx.get(f"https://127.0.0.1:{port}/surveys/s/x", verify=trusting).status_code == 502
    assert "client:" not in log.read_text(encoding="utf-8")


def test_caddy_writes_no_client_down_where_the_service_does_not_answer(tmp_path: Path):
    caddy, port, down = program("caddy", "caddy"), free_port(), free_port()
    text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    environment = os.environ | {
        "HOST": f"http://127.0.0.1:{port}",
        "UPSTREAM": f"127.0.0.1:{down}",
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    for options, leaks in (
        (text.replace("\tlog default", "\tadmin off\n\tlog default"), False),
        (_without_log(text), True),
    ):
        (tmp_path / "Caddyfile").write_text(options, encoding="utf-8")
        command = [caddy, "run", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            while not answers(port):
                assert process.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.02)
            assert httpx.get(f"http://127.0.0.1:{port}/s/x").status_code == 502
        finally:
            process.terminate()
            process.wait(20)
        assert ("remote_ip" in (tmp_path / "log").read_text()) is leaks


def _without_log(text: str) -> str:
    return re.sub(r"^\{\n.*?^\}\n", "{\n\tadmin off\n}\n", text, count=1, flags=re.DOTALL | re.MULTILINE)


@contextmanager
def sharded(stores: Sequence[Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """A client of nginx in front of services, one for each store."""
    port = free_port()
    with ExitStack() as running:
        urls = [running.enter_context(listening(store, monkeypatch, below="/surveys/")) for store in stores]
        upstreams = [url.removesuffix("/surveys").removeprefix("http://") for url in urls]
        running.enter_context(nginx(tmp_path, upstreams, port))
        trusting = ssl.create_default_context(cafile=f"{tmp_path}/certificate.pem")
        where = f"https://127.0.0.1:{port}/surveys/api/surveys/{survey_id(plain_plan())}"
        yield running.enter_context(httpx.Client(base_url=where, verify=trusting))


def test_two_shards_behind_nginx_count_each_key_once_and_their_tallies_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two services, two databases; the second is a copy of the first before the first report. All is sent twice."""
    if pg.binaries() is None:
        pytest.skip("PostgreSQL is missing; the fixture of the service's tests says it louder.")
    survey, secrets, chance = survey_id(plain_plan()), new_secrets(True), random.Random(1)
    signer = Signer.of(CredentialKey(secrets["credential_key"]).public)
    with pg.running() as postgres, ExitStack() as opened:
        stores = [Store(postgres.new_database(), Days(), vault=tmp_path / name) for name in ("one", "two")]
        for store in stores:
            opened.callback(store.close)
        stores[0].create(plain_plan(), **secrets)
        copy_store(*stores)
        with sharded(stores, tmp_path, monkeypatch) as client:
            for nth, invitation in enumerate(make_invitations(secrets["invitation_secret"], survey, 40)):
                key, factor = chance.randbytes(16).hex(), signer.factor(chance)
                blinded = signer.blind(signer.encode(key, chance.randbytes(48)), factor)
                routed = {"Tacit-Key": hashlib.sha256(invitation.encode()).hexdigest()[:32]}
                wanted = {"invitation": invitation, "blinded": blinded}
                first, again = (client.post("/credentials", json=wanted, headers=routed).json() for _ in range(2))
                assert first == again
                credential = signer.unblind(first["blind_signature"], factor)
                body = {"key": key, "report": nth % 3, "credential": credential}
                told = [client.post("/reports", json=body, headers={"Tacit-Key": key}).json() for _ in range(2)]
                assert told == [{"status": "counted"}, {"status": "already counted"}]
        tallies = [store.tally(survey, plain_plan()) for store in stores]
        assert min(tally.n_reports for tally in tallies) > 5, "both have a part"
        merged = tallies[0].merge(tallies[1])
        assert merged.to_dict() == Tally.of(plain_plan(), [nth % 3 for nth in range(40)]).to_dict()
        assert sum(store.used_invitations(survey) for store in stores) == 40
