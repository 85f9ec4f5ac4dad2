"""How many reports the collector takes, with every acknowledged one on disk.

    python benchmarks/serve.py [--seconds S] [--postgresql URL]

Baseline for single reports: an endpoint of the same service, on the same server, that reads its request and does
nothing, in turns with ours in the same run. Load comes from wrk over 64 connections on loopback. Batches are one
million reports per request.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tacit import Prior, Survey
from tacit.design import design
from tacit.plan import Group, Plan
from tacit.randomness import secret_bytes
from tacit.server.store import survey_id

CONNECTIONS, ROUNDS, BATCH, BATCHES = 64, 5, 1_000_000, 5
TOKEN = "a-token-for-benchmarks"
#: wrk sends reports with keys that never repeat: 8 random bytes and a counter.
SCRIPT = """
local file = io.open("/dev/urandom", "rb")
local start = file:read(8):gsub(".", function(c) return string.format("%02x", c:byte()) end)
local sent = 0
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
function request()
  sent = sent + 1
  local key = start .. string.format("%016x", sent)
  return wrk.format(nil, nil, nil, '{"key":"' .. key .. '","group":"b","report":1}')
end
"""


def make_plan() -> Plan:
    """Two groups, yes or no."""
    groups = []
    for name, share in (("a", 0.1), ("b", 0.3)):
        prior = Prior.of({"yes": share, "no": 1 - share})
        groups.append(Group(name, prior, Fraction(1), design(prior, Survey("yes"), 1).mechanism))
    return Plan(Survey("yes"), tuple(groups))


def child(where: str) -> None:
    """The service with one more endpoint, for as long as standard input is open."""
    import threading

    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from tacit.server.app import make_app
    from tacit.server.guard import Administrator
    from tacit.server.run import Address, listen, server, today
    from tacit.server.store import Store

    store = Store(where, today)
    store.create(make_plan())
    Administrator.set_token(store, TOKEN)
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
def service(where: str) -> Iterator[int]:
    """The port of a running service."""
    command = [sys.executable, __file__, "--child", where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.stdin.close()


def load(script: str, url: str, seconds: int) -> tuple[float, float, float]:
    """Requests per second, and the median and the 99th percentile of their milliseconds."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", script, url]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"requests failed:\n{said}")
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}

    def latency(percent: int) -> float:
        number, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)", said).groups()
        return float(number) * units[unit]

    return float(re.search(r"Requests/sec:\s+([\d.]+)", said).group(1)), latency(50), latency(99)


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


def upload(port: int, kind: str, body: bytes) -> float:
    """Seconds for one batch, all of which must be counted."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Content-Type": kind, "Authorization": f"Bearer {TOKEN}", "Idempotency-Key": secret_bytes(16).hex()}
    start = perf_counter()
    connection.request("POST", f"/api/surveys/{survey_id(make_plan())}/batches", body, headers)
    response = connection.getresponse()
    said = json.loads(response.read())
    seconds = perf_counter() - start
    connection.close()
    if said.get("counted") != BATCH:
        raise SystemExit(f"the batch was not counted: {said}")
    return seconds


def measure(name: str, where: str, seconds: int, table: Table) -> None:
    with service(where) as port, tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT)
        script.flush()
        address = f"http://127.0.0.1:{port}"
        reports = f"{address}/api/surveys/{survey_id(make_plan())}/reports"
        load(script.name, reports, 1)
        pairs = [
            (load(script.name, f"{address}/nothing", seconds), load(script.name, reports, seconds))
            for _ in range(ROUNDS)
        ]
        nothing, ours = ([median(column) for column in zip(*side, strict=True)] for side in zip(*pairs, strict=True))
        ratio = median(mine[0] / idle[0] for idle, mine in pairs)
        table.add_row(f"{name}: do nothing", f"{nothing[0]:,.0f}", "", f"{nothing[1]:.1f}", f"{nothing[2]:.1f}")
        table.add_row(f"{name}: one report", f"{ours[0]:,.0f}", f"{ratio:.2f}", f"{ours[1]:.1f}", f"{ours[2]:.1f}")
        for kind, (media_type, body) in batches().items():
            took = median(upload(port, media_type, body) for _ in range(BATCHES))
            table.add_row(f"{name}: batch, {kind}", f"{BATCH / took:,.0f}", "", f"{took * 1e3:.0f}", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement")
    parser.add_argument("--postgresql", metavar="URL", help="measure on this database as well")
    parser.add_argument("--child", metavar="WHERE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    if shutil.which("wrk") is None:
        raise SystemExit("This benchmark needs wrk: apt-get install wrk")
    table = Table("what", "reports / s", "of doing nothing", "median ms", "p99 ms")
    for column in table.columns[1:]:
        column.justify = "right"
    with tempfile.TemporaryDirectory() as folder:
        measure("SQLite", str(Path(folder) / "data"), options.seconds, table)
    if options.postgresql:
        measure("PostgreSQL", options.postgresql, options.seconds, table)
    Console().print(table)


if __name__ == "__main__":
    main()
