"""The tables of docs/peers.md, from what `make bench-peers` has kept.

PYTHONPATH=benchmarks python -m peers.markdown out/peers
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from peers.show import rate

Line = dict[str, str]
#: The cell that is shown in full.
SHOWN = {"values": "100", "epsilon": "1.0", "truth": "Zipf"}
LIP = ("LIP, exact prior", "LIP, τ = 0.03", "LIP, τ = 0.1")


def read(path: Path) -> list[Line]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table in Markdown.

    >>> print(grid(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|---:|
    | x | 1 |
    """
    rule = "|" + "---|" * left + "---:|" * (len(heads) - left)
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])


def one_cell(lines: Iterable[Line]) -> str:
    """Everything about one size, budget and truth."""
    rows = []
    for line in lines:
        if any(line[key] != wanted for key, wanted in SHOWN.items()) or not line["rows"]:
            continue
        error = float(line["mean_squared_error"])
        level = f"{float(line['audited_level']):.{4 if line['audit_is_exact'] == 'True' else 2}f}"
        over = " **over**" if line["exceeds_claim"] == "True" else ""
        rows.append([
            f"{line['system']}, {line['protocol']}", "yes" if line["secure"] == "True" else "no",
            rate(float(line["perturbed_per_second"])), rate(float(line["estimated_per_second"])),
            line["bytes_per_report"], f"{'~' if line['scaled'] == 'True' else ''}{error * 1e6:.1f}",
            f"{error / float(line['best_ldp_error']):.2f}", _percent(line["coverage"]),
            f"{line['promise']} {'' if line['audit_is_exact'] == 'True' else '≥ '}{level}{over}",
            f"{float(line['ldp_level']):.2f}" if line["ldp_level"] else "–",
        ])  # fmt: skip
    heads = [
        "system, protocol", "secure", "perturb/s", "aggregate and estimate/s", "bytes", "10⁶ × squared error",
        "÷ best LDP", "coverage", "audited ε", "LDP level",
    ]  # fmt: skip
    return grid(heads, rows)


def _percent(share: str) -> str:
    return f"{float(share):.0%}" if share else "–"


def ratios(lines: Sequence[Line], reference: str) -> str:
    """Tacit's LIP error over that of the best LDP known, for every size, budget and truth."""
    cells = list(dict.fromkeys((line["epsilon"], line["truth"], line["values"]) for line in lines))
    sizes = list(dict.fromkeys(d for _, _, d in cells))
    found = {
        (line["protocol"], line["epsilon"], line["truth"], line["values"]): float(line["mean_squared_error"])
        / float(line[reference])
        for line in lines
        if line["protocol"] in LIP and line[reference] and line["mean_squared_error"]
    }
    rows = [
        [protocol, f"{float(epsilon):g}", truth, *(_ratio(found.get((protocol, epsilon, truth, d))) for d in sizes)]
        for protocol in LIP
        for epsilon, truth in sorted({(epsilon, truth) for epsilon, truth, _ in cells})
    ]
    return grid(["row", "ε", "truth", *(f"d = {int(d):,}" for d in sizes)], rows, left=3)


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def speeds(lines: Sequence[Line], column: str) -> str:
    """A rate for every system and size, at the ε and truth that are shown."""
    here = [line for line in lines if all(line[key] == SHOWN[key] for key in ("epsilon", "truth"))]
    sizes = list(dict.fromkeys(line["values"] for line in here))
    names = dict.fromkeys(f"{line['system']}, {line['protocol']}" for line in here)
    found = {(f"{line['system']}, {line['protocol']}", line["values"]): line[column] for line in here}
    rows = [
        [name, *(rate(float(speed)) if (speed := found.get((name, d), "")) else "–" for d in sizes)] for name in names
    ]
    return grid(["system, protocol", *(f"d = {int(d):,}" for d in sizes)], rows)


def main() -> None:
    folder = Path(sys.argv[1])
    lines, goals = read(folder / "results.csv"), read(folder / "goals.csv")
    said = {"True": "met", "False": "missed", "": "–"}
    for title, text in {
        "One cell in full": one_cell(lines),
        "Error over the best LDP known, at equal ε": ratios(lines, "best_ldp_error"),
        "Error over the best LDP known, at equal LDP level": ratios(lines, "best_ldp_error_at_that_level"),
        "Reports made a second": speeds(lines, "perturbed_per_second"),
        "Reports aggregated and estimated a second": speeds(lines, "estimated_per_second"),
        "Goals": grid(
            ["what", "goal", "measured", ""],
            [[goal["what"], goal["goal"], goal["measured"], said[goal["met"]]] for goal in goals],
            left=4,
        ),
    }.items():
        print(f"### {title}\n\n{text}\n")


if __name__ == "__main__":
    main()
