"""The story that `make demo` tells: how many people have heart disease, asked of a simulated crowd.

Rates by age and sex are those of CDC's BRFSS 2020 telephone survey (319,795 answers, cleaned, unweighted); the people
are simulated. Everything runs through the same commands a user types, and the files stay in out/demo to look at.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tacit.audit import audit
from tacit.design import optimal_binary, theorem3
from tacit.prior import Prior
from tacit.rounding import PrivacyError

OUT = Path("out/demo")
EPSILON = 1
PEOPLE = 100_000
#: Group: people asked and how many of them have or had heart disease, BRFSS 2020.
BRFSS_2020 = {
    "women 18–39": (36_978, 363),
    "men 18–39": (40_344, 422),
    "women 40–59": (51_212, 2_067),
    "men 40–59": (46_724, 2_748),
    "women 60–74": (52_709, 4_534),
    "men 60–74": (46_193, 7_741),
    "women 75+": (26_906, 4_270),
    "men 75+": (18_729, 5_228),
}


def run() -> None:
    """Print the demo."""
    console = Console(highlight=False)
    console.print("[bold]Tacit: ask a crowd, learn the total, never the person[/bold]\n")
    console.print(
        f"{PEOPLE:,} people are asked whether they have heart disease. Each device randomizes the answer before it is "
        "sent, so that no report changes anybody's belief by more than a factor "
        f"e^{EPSILON} = {math.exp(EPSILON):.2f}, up or down. What is known before, the rate for each age and sex, "
        "comes from last year's survey.\n"
    )
    truth, commands = prepare()
    for words in commands:
        shown = " ".join(f'"{word}"' if " " in word else word for word in words)
        console.print(f"[bold cyan]$ tacit {shown}[/bold cyan]", soft_wrap=True)
        subprocess.run([sys.executable, "-m", "tacit", *words], check=True)
        console.print()
    console.print(f"\nThe truth, which nobody but this simulation knows: [bold]{truth:,}[/bold].\n")
    console.print("[bold]Why not the published formula?[/bold] It breaks its own promise for rare answers:\n")
    console.print(promises())
    console.print(
        "\nEvery level is decided on the integers that devices use, not on floats or samples: see docs/theory.md.\n"
        f"Open [bold]{OUT / 'report.html'}[/bold] for the estimate with plots.\n"
    )


def run_for_scripts() -> dict[str, Any]:
    """The same without the story: what each command says in JSON, and the truth."""
    truth, commands = prepare()
    said: dict[str, Any] = {"folder": str(OUT), "truth": truth}
    for words in commands:
        ran = subprocess.run(
            [sys.executable, "-m", "tacit", *words, "--json"], check=True, capture_output=True, text=True
        )
        said[words[0]] = json.loads(ran.stdout)
    return said


def prepare() -> tuple[int, list[list[str]]]:
    """Write priors and simulated answers. Returns how many have the disease, and the commands to run."""
    OUT.mkdir(parents=True, exist_ok=True)
    write_priors(OUT / "priors.csv")
    truth = write_answers(OUT / "answers.parquet")
    plan, answers, reports = (str(OUT / name) for name in ("plan.json", "answers.parquet", "reports.parquet"))
    asked = ["--task", "survey", "--value", "yes", "--question", "Do you have heart disease?"]
    sized = ["--epsilon", str(EPSILON), "--respondents", str(PEOPLE)]
    return truth, [
        ["plan", str(OUT / "priors.csv"), *asked, *sized, "-o", plan],
        ["perturb", plan, answers, "-o", reports],
        ["estimate", plan, reports, "--by", "group", "--html", str(OUT / "report.html")],
    ]


def write_priors(path: Path) -> None:
    """What is known before anybody answers, as counts per group."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["group", "value", "count"])
        for name, (people, ill) in BRFSS_2020.items():
            writer.writerows([[name, "yes", ill], [name, "no", people - ill]])


def write_answers(path: Path, seed: int = 2020) -> int:
    """Simulate the crowd and its true answers, which would never leave the devices. Returns how many said yes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    sizes = np.array([people for people, _ in BRFSS_2020.values()], dtype=np.float64)
    rates = np.array([ill / people for people, ill in BRFSS_2020.values()])
    group = rng.choice(len(sizes), size=PEOPLE, p=sizes / sizes.sum())
    ill = rng.random(PEOPLE) < rates[group]
    names = pa.array(list(BRFSS_2020))
    columns = {"group": names.take(pa.array(group)), "value": pa.array(["no", "yes"]).take(pa.array(ill.astype(int)))}
    pq.write_table(pa.table(columns), path)
    return int(ill.sum())


def promises(groups: Sequence[str] = tuple(BRFSS_2020)) -> Table:
    """Per group: the level that the published channel reaches, and ours."""
    table = Table("group", "believed", "promised ε", "published reaches", "ours", "kept")
    for column in table.columns[1:5]:
        column.justify = "right"
    for name in groups:
        people, ill = BRFSS_2020[name]
        prior = Prior.of({"yes": ill, "no": people - ill})
        try:
            theorem3(prior, EPSILON)
            kept = "by both"
        except PrivacyError:
            kept = "[red]by ours only[/red]"
        published = audit(theorem3(prior, EPSILON, force=True), prior).lip.epsilon
        ours = audit(optimal_binary(prior, EPSILON), prior).lip.epsilon
        table.add_row(name, f"{ill / people:.1%}", f"{EPSILON}", f"{published:.3f}", f"{ours:.3f}", kept)
    return table
