"""The story that `make demo` tells: how many people have diabetes, asked in 2020 with what was known in 2015.

Rates by age are those of CDC's BRFSS telephone surveys, cleaned and unweighted: 253,680 answers of 2015 are the priors,
319,795 answers of 2020 the truth, and the people are simulated. Everything runs through the same commands a user types,
and the files stay in out/demo to look at. Then other people answer the same plan over HTTP: asking the first crowd
again would weaken what it was promised. At last a third crowd answers three questions in one report.
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tacit.cli.app import JsonFlag, command, print_json
from tacit.designs import optimal_binary
from tacit.designs.rules import theorem3
from tacit.estimates import Estimator, estimate
from tacit.files import tally_file
from tacit.mechanism import PrivacyError
from tacit.mechanism.auditing import audit
from tacit.plan import Plan
from tacit.prior import Prior
from tacit.randomize import Randomizer
from tacit.randomize.randomness import secret_bytes
from tacit.show.plans import table

OUT = Path("out/demo")
EPSILON = 1
PEOPLE = 100_000
#: This many other people answer over HTTP; some of their devices send twice, as if the first answer had been lost.
BROWSERS, AGAIN = 4_000, 400
CONNECTIONS = 8
#: By age: who was told that they have diabetes, of how many asked, in CDC's BRFSS 2015 and in that of 2020.
DIABETES = {
    "18–24": ((78, 5_700), (233, 21_064)),
    "25–29": ((140, 7_598), (251, 16_955)),
    "30–34": ((314, 11_123), (474, 18_753)),
    "35–39": ((626, 13_823), (831, 20_550)),
    "40–44": ((1_051, 16_157), (1_303, 21_006)),
    "45–49": ((1_742, 19_819), (2_019, 21_791)),
    "50–54": ((3_088, 26_314), (3_072, 25_382)),
    "55–59": ((4_263, 30_832), (4_417, 29_757)),
    "60–64": ((5_733, 33_244), (5_672, 33_686)),
    "65–69": ((6_558, 32_194), (6_550, 34_151)),
    "70–74": ((5_141, 23_533), (6_761, 31_065)),
    "75–79": ((3_403, 15_980), (4_791, 21_482)),
    "80 or older": ((3_209, 17_363), (4_428, 24_153)),
}
#: How many gave these answers in BRFSS 2020: in the even rows of the file, which are the prior, and in the odd ones.
THREE = ("smokes", "asthma", "walks with difficulty")
RECORDS = {
    ("yes", "yes", "yes"): (2_954, 2_851),
    ("yes", "yes", "no"): (6_486, 6_688),
    ("yes", "no", "yes"): (9_476, 9_574),
    ("yes", "no", "no"): (46_981, 46_898),
    ("no", "yes", "yes"): (2_029, 2_009),
    ("no", "yes", "no"): (9_940, 9_915),
    ("no", "no", "yes"): (7_711, 7_806),
    ("no", "no", "no"): (74_321, 74_156),
}


def run() -> None:
    """Print the demo."""
    console = Console(highlight=False, soft_wrap=True)
    console.print("[bold]Tacit: ask a crowd, learn the total, never the person[/bold]\n")
    console.print(
        f"It is 2020, and {PEOPLE:,} people are asked whether they have diabetes. Each device randomizes the answer "
        f"before it is sent, so that no report changes a belief by more than a factor e^{EPSILON} = "
        f"{math.exp(EPSILON):.2f}, up or down. What is known before, the rate by age, comes from a survey of 2015: "
        "five years that changed it, by up to a point either way.\n"
    )
    held, commands = prepare()
    _run_commands(console, commands)
    show_truth(console, held)
    console.print("[bold]Why not the published formula?[/bold] It breaks its own promise for rare answers:\n")
    console.print(promises())
    console.print(
        "\nEvery level is decided on the integers that devices use, not on floats or samples: see docs/theory.md.\n"
    )
    show_service(console)
    show_three(console)
    console.print(
        f"Open [bold]{OUT / 'estimate.html'}[/bold] for the estimate with plots; [bold]make serve[/bold] runs the "
        "service for your own browser.\n"
        f"The command itself is [bold]{_command()}[/bold]: start with [bold]{_command()} --help[/bold].\n"
    )


def _run_commands(console: Console, commands: Sequence[Sequence[str]]) -> None:
    for words in commands:
        shown = " ".join(f'"{word}"' if " " in word else word for word in words)
        console.print(f"[bold cyan]$ tacit {shown}[/bold cyan]")
        subprocess.run([sys.executable, "-m", "tacit", *words], check=True)
        console.print()


def show_three(console: Console) -> None:
    """Three questions, one report: the plan, the estimates, and a table of two of them."""
    console.print(
        f"[bold]Three questions, one report[/bold]: {PEOPLE:,} people answer {', '.join(THREE)}. Whatever is sent, no "
        "belief about an answer, or a combination of answers, changes by more than the same factor.\n"
    )
    truth, commands = prepare_three()
    _run_commands(console, commands)
    told = ", ".join(f"{name} {share:.1%}" for name, share in truth.items())
    console.print(f"The truth about these people: {told}.\n")


def prepare_three(seed: int = 2023) -> tuple[dict[str, float], list[list[str]]]:
    """Write joint counts and simulated records. Returns the true shares of yes, and the commands to run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "joint.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[*THREE, "count"], *([*cells, known] for cells, (known, _) in RECORDS.items())])
    now = np.array([count for _, count in RECORDS.values()], dtype=np.float64)
    drawn = np.random.default_rng(seed).choice(len(now), PEOPLE, p=now / now.sum())
    cells = np.array(list(RECORDS))[drawn]
    pq.write_table(pa.table({name: cells[:, place] for place, name in enumerate(THREE)}), OUT / "records.parquet")
    plan, records, reports = (str(OUT / name) for name in ("three.json", "records.parquet", "three.parquet"))
    asked = ["--questions", ",".join(THREE), "--epsilon", str(EPSILON), "--cross", ",".join(THREE[:2])]
    return {name: float((cells[:, place] == "yes").mean()) for place, name in enumerate(THREE)}, [
        ["plan", str(OUT / "joint.csv"), *asked, "-o", plan, "--overwrite"],
        ["perturb", plan, records, "-o", reports, "--overwrite"],
        ["estimate", plan, reports],
        ["crosstab", plan, reports, *THREE[:2]],
    ]


def _command() -> str:
    """How to call the command from here: by its name if that is this one, else by its path."""
    beside = Path(sys.executable).with_name("tacit")
    found = shutil.which("tacit")
    if found is not None and Path(found).resolve() == beside.resolve():
        return "tacit"
    return os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside)


def run_for_scripts() -> dict[str, Any]:
    """The same without the story: what each command says in JSON, and the truth."""
    held, commands = prepare()
    said: dict[str, Any] = {"folder": str(OUT), "truth": sum(held.values())}
    said |= _in_json(commands)
    truth, commands = prepare_three()
    said["three"] = {"truth": truth} | _in_json(commands)
    with service() as started:
        said["serve"] = {"surveys": started["surveys"]} | answer_over_http(started)
    said["serve"]["stored"] = stored()
    return said


def _in_json(commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What each command says for scripts, by its name."""
    said = {}
    for words in commands:
        asked = [sys.executable, "-m", "tacit", *words, "--json"]
        said[words[0]] = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    return said


def prepare() -> tuple[dict[str, int], list[list[str]]]:
    """Write priors and simulated answers. Returns how many have diabetes, by age, and the commands to run."""
    planned = plan_command()
    held = write_answers(OUT / "answers.parquet")
    plan, answers, reports = (str(OUT / name) for name in ("plan.json", "answers.parquet", "reports.parquet"))
    return held, [
        planned,
        ["perturb", plan, answers, "-o", reports, "--overwrite"],
        ["estimate", plan, reports, "--by", "group", "--html", str(OUT / "estimate.html"), "--overwrite"],
    ]


def show_truth(console: Console, held: dict[str, int]) -> None:
    """What only the simulation knows, beside what the estimates say with and without faith in the old rates."""
    plan = Plan.load(OUT / "plan.json")
    tally = tally_file(plan, OUT / "reports.parquet")
    names: tuple[Estimator, ...] = ("assisted", "mmse")
    (default,), (trusting,) = (estimate(plan, tally, name).rows for name in names)
    found = {name: [estimate(plan, tally, name, group=age).rows[0] for age in held] for name in names}
    kept = {
        name: sum(row.low <= true <= row.high for row, true in zip(rows, held.values(), strict=True))
        for name, rows in found.items()
    }
    console.print(
        f"\nThe truth, known to this simulation only: [bold]{sum(held.values()):,}[/bold]. The rates of 2015 "
        f"alone would have said {default.prior:,.0f}, and an estimate that trusts them (mmse) "
        f"{trusting.estimate:,.0f} ± {trusting.margin:,.0f}.\n"
        f"By age, {kept['assisted']} of {len(held)} intervals hold the truth, and "
        f"{kept['mmse']} of those that trust 2015; 95% promise 12 or 13.\n"
    )


def plan_command() -> list[str]:
    """Write the priors. Returns the command that makes the plan from them."""
    OUT.mkdir(parents=True, exist_ok=True)
    write_priors(OUT / "priors.csv")
    asked = ["--task", "survey", "--value", "yes", "--question", "Do you have diabetes?"]
    sized = ["--epsilon", str(EPSILON), "--respondents", str(PEOPLE)]
    return ["plan", str(OUT / "priors.csv"), *asked, *sized, "-o", str(OUT / "plan.json"), "--overwrite"]


def make_plan() -> None:
    """Make the plan and nothing else, for `make serve`."""
    subprocess.run([sys.executable, "-m", "tacit", *plan_command()], check=True)


def write_priors(path: Path) -> None:
    """What is known before the answers, as counts per group."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["group", "value", "count"])
        for name, ((ill, people), _) in DIABETES.items():
            writer.writerows([[name, "yes", ill], [name, "no", people - ill]])


def simulate(people: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A crowd of 2020: each person's age, by its position, and whether they have diabetes."""
    rng = np.random.default_rng(seed)
    ill, sizes = np.array([now for _, now in DIABETES.values()], dtype=np.float64).T
    group = rng.choice(len(sizes), size=people, p=sizes / sizes.sum())
    return group, rng.random(people) < (ill / sizes)[group]


def write_answers(path: Path, seed: int = 2020) -> dict[str, int]:
    """Simulate the crowd and its true answers, which would never leave the devices. Returns who said yes, by age."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    group, ill = simulate(PEOPLE, seed)
    names = pa.array(list(DIABETES))
    columns = {"group": names.take(pa.array(group)), "value": pa.array(["no", "yes"]).take(pa.array(ill.astype(int)))}
    pq.write_table(pa.table(columns), path)
    return dict(zip(DIABETES, np.bincount(group[ill], minlength=len(DIABETES)).tolist(), strict=True))


def promises(groups: Sequence[str] = tuple(DIABETES)[::2]) -> Table:
    """Per group: the level that the published channel reaches, and ours."""
    shown = table("age", "believed", "promised ε", "published reaches", "ours", "kept")
    for name in groups:
        ill, people = DIABETES[name][0]
        prior = Prior.of({"yes": ill, "no": people - ill})
        try:
            theorem3(prior, EPSILON)
            kept = "by both"
        except PrivacyError:
            kept = "[red]by ours only[/red]"
        published = audit(theorem3(prior, EPSILON, force=True)).lip.epsilon
        ours = audit(optimal_binary(prior, EPSILON)).lip.epsilon
        shown.add_row(name, f"{ill / people:.1%}", f"{EPSILON}", f"{published:.3f}", f"{ours:.3f}", kept)
    return shown


# -- the service ------------------------------------------------------------------------------------------------------


def show_service(console: Console) -> None:
    """Run the service, let people answer over HTTP, and say what came of it and what is kept."""
    console.print(f"[bold]The same plan as a service[/bold]: {BROWSERS:,} other people answer over HTTP.\n")
    console.print(f"[bold cyan]$ tacit {' '.join(serve_command())}[/bold cyan]")
    with service() as started:
        (survey,) = started["surveys"]
        console.print(f"  answer     {survey['page']}\n  dashboard  {survey['dashboard']}\n")
        found = answer_over_http(started)
        row = found["rows"][0]
        console.print(
            f"{found['counted']:,} reports were counted; {found['sent_again']:,} devices sent theirs twice, and "
            f"{found['counted_twice']} were counted twice.\n"
            f"The dashboard says: [bold]{row['estimate']:,.1f}[/bold] people with diabetes, 95% interval "
            f"{row['low']:,.1f} … {row['high']:,.1f}. The truth about these people: [bold]{found['truth']:,}[/bold]."
        )
    kept = stored()
    console.print(
        f"It is stopped now. Its database holds {kept['counts']} counts (day, group, report, how often), "
        f"{kept['totals']} sums of them, and {kept['keys']:,} hashes of random keys against counting twice, which "
        "closing the survey erases. No answers, no addresses, no times.\n"
    )


def serve_command() -> list[str]:
    """The command that starts the service, on any free port."""
    where = [str(OUT / "plan.json"), "--data", str(OUT / "collected"), "--port", "0"]
    return ["serve", *where, "--public", "--rate", "0", "--json"]


@contextmanager
def service() -> Iterator[dict[str, Any]]:
    """The service with an empty database, and what it says about itself; stopped at the end."""
    shutil.rmtree(OUT / "collected", ignore_errors=True)
    command = [sys.executable, "-m", "tacit", *serve_command()]
    # Without a token of the operator's own it makes one, and tells it.
    own = {name: value for name, value in os.environ.items() if name != "TACIT_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own)
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if line == "}\n":
                break
        if not said.endswith("}\n"):
            raise OSError("The service did not start.")
        yield json.loads(said)
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def answer_over_http(started: dict[str, Any], seed: int = 2022) -> dict[str, Any]:
    """People answer: every device fetches the plan, randomizes, and sends its report; some send it twice."""
    survey = f"{started['url']}/api/surveys/{started['surveys'][0]['survey']}"
    group, ill = simulate(BROWSERS, seed)
    plan = Plan.from_dict(_ask(f"{survey}/plan"))
    randomizer = Randomizer(plan)
    bodies = [
        {
            "key": secret_bytes(16).hex(),
            "group": plan.groups[k].name,
            "report": randomizer.report(k, plan.values.index("yes" if sick else "no")),
        }
        for k, sick in zip(group.tolist(), ill.tolist(), strict=True)
    ]
    outcomes, again = (Counter(_send(f"{survey}/reports", each)) for each in (bodies, bodies[:AGAIN]))
    results = _ask(f"{survey}/results", token=started["token"])
    return {
        "counted": outcomes["counted"],
        "sent_again": again.total(),
        "counted_twice": results["n_reports"] - outcomes["counted"],
        "truth": int(ill.sum()),
        "rows": results["rows"],
    }


def _send(address: str, bodies: Sequence[dict[str, Any]]) -> list[str]:
    """Post each body, several at once. Returns what the service said to each."""
    err = Console(stderr=True)
    with ThreadPoolExecutor(CONNECTIONS) as devices:
        answers = devices.map(lambda body: str(_ask(address, body)["status"]), bodies)
        return list(track(answers, "sending", len(bodies), console=err, transient=True, disable=not err.is_terminal))


def _ask(address: str, body: Any = None, token: str | None = None) -> dict[str, Any]:
    """One request for JSON, past any proxy; anything but success is an error."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = Request(address, None if body is None else json.dumps(body).encode(), headers)
    with build_opener(ProxyHandler({})).open(request, timeout=60) as response:
        said: dict[str, Any] = json.load(response)
    return said


def stored() -> dict[str, int]:
    """The rows in each table of the collector's database."""
    with closing(sqlite3.connect(OUT / "collected" / "tacit.sqlite")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in sorted(names)}


@command("demo", epilog="Example: tacit demo")
def demo_command(as_json: JsonFlag = False) -> None:
    """See all of it once: a survey of simulated people. From the plan to the estimate, in the folder out/demo."""
    if as_json:
        print_json(run_for_scripts())
    else:
        run()
