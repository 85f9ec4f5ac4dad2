"""How many reports the collector takes, with every acknowledged one on disk.

    python benchmarks/serve.py [--seconds S] [--postgresql URL]

Baseline for single reports: an endpoint of the same service, on the same server, that reads its request and does
nothing, in turns with ours in the same run. Load comes from wrk over 64 connections on loopback. Batches are one
million reports per request. Then one survey in turns with 50 at once, with exchanges of invitations, and, where nginx
is installed, behind it with and without connections that are kept, and with two services that share the keys.

Rates need idle cores. The column of the service's own CPU time per answer holds on a loaded machine, too.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import io
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tacit import Prior, Survey
from tacit.designs import design
from tacit.plan import Group, Plan
from tacit.randomize.randomness import secret_bytes
from tacit.server.storage.store import survey_id

CONNECTIONS, ROUNDS, BATCH, BATCHES = 64, 5, 1_000_000, 5
TOKEN = "a-token-for-benchmarks"
JSON = {"Content-Type": "application/json"}
#: How many surveys share the load where many do.
MANY = 50
#: wrk sends reports with random keys, to one survey after the other.
SCRIPT = """
math.randomseed(%d)
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
local paths, nth = {%s}, 0
function request()
  local key = ""
  for _ = 1, 4 do key = key .. string.format("%%08x", math.random(0, 2^32 - 1)) end
  nth = nth %% math.max(1, #paths) + 1
  wrk.headers["Tacit-Key"] = key
  return wrk.format(nil, paths[nth], nil, '{"key":"' .. key .. '","group":"b","report":1}')
end
"""
#: wrk exchanges one invitation after the other.
EXCHANGES = """
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
local lines = io.lines("%s")
function request()
  return wrk.format(nil, nil, nil, '{"invitation":"' .. (lines() or "") .. '","blinded":"%s"}')
end
"""


@cache
def make_plan(question: str | None = None) -> Plan:
    """Two groups, yes or no."""
    groups = []
    for name, share in (("a", 0.1), ("b", 0.3)):
        prior = Prior.of({"yes": share, "no": 1 - share})
        groups.append(Group(name=name, epsilon=Fraction(1), mechanism=design(prior, Survey("yes"), 1).mechanism))
    return Plan.of_groups(Survey("yes"), tuple(groups), question)


def many() -> list[str]:
    """The paths of many surveys' reports."""
    return [f"/api/surveys/{survey_id(make_plan(f'Question {k}?'))}/reports" for k in range(MANY)]


def child(where: str, options: argparse.Namespace) -> None:
    """The service with one more endpoint, for as long as standard input is open."""
    import threading

    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from tacit.server.http.app import make_app
    from tacit.server.invitations import new_secrets
    from tacit.server.run import Address, listen, server, today
    from tacit.server.storage.store import Store
    from tacit.server.storage.tokens import set_token

    store = Store(where, today)
    store.create(make_plan())
    if options.many:
        for k in range(MANY):
            store.create(make_plan(f"Question {k}?"))
        store.create(make_plan("By invitation?"), **new_secrets(True))
    set_token(store, TOKEN)
    app = make_app(store, rate=0)

    async def nothing(request):
        return JSONResponse({"status": "nothing"})

    app.router.routes.insert(0, Route("/nothing", nothing, methods=["POST"]))
    with listen(Address(port=0)) as listening:
        running = server(app, Address())
        print(listening.getsockname()[1], flush=True)

        def stop_when_alone() -> None:
            sys.stdin.read()
            running.should_exit = True

        threading.Thread(target=stop_when_alone, daemon=True).start()
        running.run(sockets=[listening])


@contextmanager
def service(where: str, *options: str) -> Iterator[int]:
    """The port of a running service."""
    command = [sys.executable, __file__, "--child", where, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        PROCESSES[port] = process.pid
        yield port
        process.stdin.close()


@dataclass(frozen=True)
class Load:
    """What wrk measured: answers, and of them per second; the median and the 99th percentile of their milliseconds. And
    the service's microseconds of CPU per answer, nan if it is behind a proxy.
    """

    answers: int
    rate: float
    median: float
    p99: float
    cpu: float


#: The processes of services, by port.
PROCESSES: dict[int | None, int] = {}


def busy(process: int | None) -> float:
    """Seconds of CPU that a process took."""
    if process is None:
        return math.nan
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def row(table: Table, what: str, loads: Sequence[Load], beside: Sequence[Load], of: str = "") -> None:
    """Medians, and the median of the ratios of rates, each to its own round."""
    rate, cpu, middle, p99 = (median(getattr(each, key) for each in loads) for key in ("rate", "cpu", "median", "p99"))
    ratio = median(each.rate / other.rate for each, other in zip(loads, beside, strict=True))
    cpu_text = "" if math.isnan(cpu) else f"{cpu:.0f}"
    table.add_row(what, f"{rate:,.0f}", f"{ratio:.2f}{of}", cpu_text, f"{middle:.1f}", f"{p99:.1f}")


def load(url: str, seconds: int, paths: list[str] = [], text: str = "") -> Load:  # noqa: B006 – never changed
    """Send reports for some seconds, every one under a key of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        quoted = ", ".join(f'"{path}"' for path in paths)
        script.write(text or SCRIPT % (int.from_bytes(secret_bytes(4), "little"), quoted))
        script.flush()
        process = PROCESSES.get(urlsplit(url).port)
        before = busy(process)
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", script.name, url]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    took = busy(process) - before
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"requests failed:\n{said}")
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}

    def latency(percent: int) -> float:
        [(number, unit)] = re.findall(rf"{percent}%\s+([\d.]+)(us|ms|s)", said)
        return float(number) * units[unit]

    answers, rate = (re.findall(text, said)[0] for text in (r"(\d+) requests in", r"Requests/sec:\s+([\d.]+)"))
    return Load(int(answers), float(rate), latency(50), latency(99), 1e6 * took / int(answers))


def batches() -> dict[str, tuple[str, bytes]]:
    """One million reports, as lines of JSON and as an Arrow stream."""
    rng = np.random.default_rng(0)
    groups, reports = rng.choice(["a", "b"], BATCH), rng.integers(0, 2, BATCH)
    lines = "".join(
        f'{{"group":"{group}","report":{report}}}\n' for group, report in zip(groups, reports.tolist(), strict=True)
    )
    table, stream = pa.table({"group": groups, "report": reports}), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return {
        "lines of JSON": ("application/x-ndjson", lines.encode()),
        "Arrow": ("application/vnd.apache.arrow.stream", stream.getvalue()),
    }


def call(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> dict:
    """What the service says to its administrator."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"} | headers)
        return json.loads(connection.getresponse().read())


def counted(port: int, survey: str) -> int:
    """How many reports the tally has."""
    tally = call(port, "GET", f"/api/surveys/{survey}/tally")
    return sum(sum(group["counts"]) for group in tally["groups"])


def upload(port: int, survey: str, kind: str, body: bytes) -> float:
    """Seconds for one batch, all of which must be counted."""
    headers = {"Content-Type": kind, "Idempotency-Key": secret_bytes(16).hex()}
    start = perf_counter()
    said = call(port, "POST", f"/api/surveys/{survey}/batches", body, **headers)
    seconds = perf_counter() - start
    if said.get("counted") != BATCH:
        raise SystemExit(f"the batch was not counted: {said}")
    return seconds


def measure(name: str, where: str, seconds: int, table: Table) -> None:
    with service(where) as port:
        address, survey = f"http://127.0.0.1:{port}", survey_id(make_plan())
        warm = load(f"{address}/api/surveys/{survey}/reports", 1)
        pairs = [
            (load(f"{address}/nothing", seconds), load(f"{address}/api/surveys/{survey}/reports", seconds))
            for _ in range(ROUNDS)
        ]
        if counted(port, survey) < warm.answers + sum(ours.answers for _, ours in pairs):
            raise SystemExit("an acknowledged report was not counted")
        idle, ours = ([pair[k] for pair in pairs] for k in (0, 1))
        row(table, f"{name}: do nothing", idle, idle)
        row(table, f"{name}: one report", ours, idle)
        for kind, (media_type, body) in batches().items():
            took = median(upload(port, survey, media_type, body) for _ in range(BATCHES))
            table.add_row(f"{name}: batch, {kind}", f"{BATCH / took:,.0f}", "", "", f"{took * 1e3:.0f}", "")


def measure_others(name: str, where: str, seconds: int, table: Table) -> None:
    """Many surveys, and exchanges, each in turns with one survey."""
    one = f"/api/surveys/{survey_id(make_plan())}/reports"
    invited = survey_id(make_plan("By invitation?"))
    with service(where, "--many") as port:
        url = f"http://127.0.0.1:{port}"
        lines: list[str] = []
        for _ in range(2):
            made = call(port, "POST", f"/api/surveys/{invited}/invitations", b'{"count": 50000}', **JSON)
            lines += made["invitations"]
        # Any number below the modulus will do.
        blinded = base64.urlsafe_b64encode((12345**80).to_bytes(256, "big")).decode().rstrip("=")
        exchanging, skipped = f"{url}/api/surveys/{invited}/credentials", 0
        load(url, 1, [one])
        load(url, 2, many())
        rounds = []
        for _ in range(ROUNDS):
            single, spread = load(url, seconds, [one]), load(url, seconds, many())
            with tempfile.NamedTemporaryFile("w") as rest:
                rest.write("\n".join(lines[skipped:]))
                rest.flush()
                exchanged = load(exchanging, seconds, text=EXCHANGES % (rest.name, blinded))
            skipped += exchanged.answers + 2 * CONNECTIONS
            rounds.append((single, spread, exchanged))
        for k, what in enumerate(("one survey", f"{MANY} surveys", "exchanges of invitations")):
            one_survey = [each[0] for each in rounds]
            row(table, f"{name}: {what}", [each[k] for each in rounds], one_survey, " of one survey")


@contextmanager
def nginx(ports: list[int], kept: bool) -> Iterator[int]:
    """nginx in front of services, by the hash of the key where they are several, as deploy/nginx.conf does it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        servers = " ".join(f"server 127.0.0.1:{each};" for each in ports)
        routed = "hash $http_tacit_key consistent;" if len(ports) > 1 else ""
        alive = "keepalive 64; keepalive_requests 100000;" if kept else ""
        places = " ".join(
            f"{each}_temp_path {folder}/{each};" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        connection = 'proxy_http_version 1.1; proxy_set_header Connection "";' if kept else ""
        configuration = Path(folder) / "nginx.conf"
        configuration.write_text(
            f"daemon off; pid {folder}/pid; error_log /dev/null emerg; events {{ worker_connections 1024; }} "
            f"http {{ access_log off; {places} upstream tacit {{ {routed} {servers} {alive} }} "
            f"server {{ listen 127.0.0.1:{port}; keepalive_requests 1000000; "
            f"location / {{ proxy_pass http://tacit; {connection} }} }} }}"
        )
        with subprocess.Popen(["nginx", "-c", str(configuration)], stderr=subprocess.DEVNULL) as process:
            try:
                while socket.socket().connect_ex(("127.0.0.1", port)):
                    sleep(0.05)
                yield port
            finally:
                process.terminate()


def measure_proxied(folder: Path, seconds: int, table: Table) -> None:
    """The same service without a proxy and behind nginx; two services with a database each."""
    one = f"/api/surveys/{survey_id(make_plan())}/reports"
    with service(str(folder / "first")) as first, service(str(folder / "second")) as second:
        proxies = [([first], False), ([first], True), ([first, second], True)]
        rounds = []
        for _ in range(ROUNDS):
            rates = [load(f"http://127.0.0.1:{first}", seconds, [one])]
            for ports, kept in proxies:
                with nginx(ports, kept) as port:
                    rates.append(load(f"http://127.0.0.1:{port}", seconds, [one]))
            rounds.append(rates)
        names = ("no proxy", "nginx, no kept connections", "nginx", "nginx, two shards")
        for k, what in enumerate(names):
            row(table, f"SQLite: {what}", [each[k] for each in rounds], [each[0] for each in rounds], " of no proxy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement")
    parser.add_argument("--postgresql", metavar="URL", help="measure on this database as well")
    parser.add_argument("--child", metavar="WHERE", help=argparse.SUPPRESS)
    parser.add_argument("--many", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--others", action="store_true", help="only many surveys, exchanges and proxies")
    options = parser.parse_args()
    if options.child:
        child(options.child, options)
        return
    if shutil.which("wrk") is None:
        raise SystemExit("This benchmark needs wrk: apt-get install wrk")
    table = Table("what", "per second", "of doing nothing", "CPU µs", "median ms", "p99 ms")
    for column in table.columns[1:]:
        column.justify = "right"
    with tempfile.TemporaryDirectory() as folder:
        if not options.others:
            measure("SQLite", str(Path(folder) / "data"), options.seconds, table)
        measure_others("SQLite", str(Path(folder) / "many"), options.seconds, table)
        if shutil.which("nginx") is not None:
            measure_proxied(Path(folder), options.seconds, table)
    if options.postgresql:
        if not options.others:
            measure("PostgreSQL", options.postgresql, options.seconds, table)
        measure_others("PostgreSQL", options.postgresql, options.seconds, table)
    Console().print(table)


if __name__ == "__main__":
    main()
