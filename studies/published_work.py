"""`python -m studies.published_work`, or `make published`: Tacit on work that others published, in one table.

Each row has the published number, Tacit's own on the same data, and what is equal and what is not. Published numbers
are written down here with their source; the data are read from the folder of the evaluation (`--data`), and a row whose
data are not there says so.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from studies.figure import Options
from studies.loaders import DEFAULT_DATA, find
from tacit import Histogram, Prior, Promise, Randomizer, Search, Survey, Tally, design, estimate, make_plan
from tacit.designs import adopt, rules
from tacit.files import regress_file
from tacit.plan import Plan
from tacit.prior import Ball

#: Blair, Imai and Zhou (2015), Table 3: logistic regression of contact with armed groups in Nigeria.
NIGERIA = {
    "Intercept": (-0.34017, 0.50856), "assets": (0.07896, 0.04136), "married": (-0.26743, 0.25451),
    "age": (-0.35283, 0.26423), "age²": (0.04099, 0.02603), "education": (-0.00691, 0.04558),
    "female": (-0.55439, 0.16244),
}  # fmt: skip
#: Heck and Moshagen (2018), on data of Radukić and Musch (2014): left–right position on the private answer, and age.
MINARETS = {"would ban minarets": (1.364, 0.290), "age": (-0.0015, 0.0078)}
#: And the correlations of the private answer.
MINARETS_CORRELATIONS = {"left–right": (0.593, 0.142), "age": (-0.054, 0.119)}
#: The probability p of each group (RRreg's documentation). In the other order the share of those for a ban is 1.13.
MINARETS_TRUTH = {1: 2 / 12, 2: 10 / 12}
#: Feldman, Nelson, Nguyen and Talwar (2022): mean squared error of a count, 1,000 users, 22,000 values, ε = 2 … 4.
ZIPF_VALUES, ZIPF_USERS = 22_000, 1_000
ZIPF_KINDS = {
    "SS": "subset selection", "HR": "Hadamard", "RHR": "recursive Hadamard", "PG": "projective geometry response",
}  # fmt: skip
#: At ε = 5 only these two are published.
ZIPF_AT_5 = tuple({"mechanism": name, "epsilon": "5", "mse": mse} for name, mse in (("SS", "27.31"), ("PG", "27.25")))
#: multi-freq-ldpy: Adult age, 74 values, n = 45,222, ε = 1, subset selection, clipped.
ADULT_AGE = 5.5e-5
#: multi-freq-ldpy's protocols for one attribute, by the modules of its code.
PROTOCOLS = {
    "subset selection": "SS", "optimized unary encoding": "UE", "optimized local hashing": "LH",
    "randomized response": "GRR",
}  # fmt: skip
#: PriPL-Tree (VLDB 2024), figure 6e, read from the plot: Adult fnlwgt, 1,024 bins, ε = 1, random ranges, LDP.
ADULT_RANGES = 3.2e-4


@dataclass(frozen=True)
class Compared:
    """One row of the table; numbers as text, because rows have different units."""

    work: str
    number: str
    published: str
    own: str
    remark: str


def nigeria(path: Path) -> Iterator[Compared]:
    """Forced response with a die: 1/6 must say yes, 1/6 must say no."""
    plan = adopt(rules.forced_response(["yes", "no"], {"yes": "1/6", "no": "1/6"}), Survey("yes"))
    names = {f"cov.{name}": name for name in ("married", "education", "female")} | {"cov.asset.index": "assets"}
    table: dict[str, list[Any]] = {name: [] for name in ("report", "age", "age²", *names.values())}
    for row in _rows(path):
        if any(row[name] in ("", "NA", "nan") for name in ("rr.q1", "cov.age", *names)):
            continue
        table["report"].append(0 if float(row["rr.q1"]) == 1 else 1)
        table["age"].append(float(row["cov.age"]) / 10)
        table["age²"].append((float(row["cov.age"]) / 10) ** 2)
        for column, name in names.items():
            table[name].append(float(row[column]))
    found = regress_file(plan, table, "assets + married + age + `age²` + education + female").fit
    for each in found.coefficients:
        value, error = NIGERIA[each.name.strip("`")]
        yield Compared(
            "Nigeria, logistic regression", each.name.strip("`"), f"{value:.3f} ({error:.3f})",
            f"{each.estimate:.3f} ({each.standard_error:.3f})",
            "equal: data, design, model. Not equal: theirs is maximum likelihood, ours solves unbiased scores",
        )  # fmt: skip


def minarets(path: Path) -> Iterator[Compared]:
    """A stochastic lie detector: those against a ban say yes with 1 − p, and those for it with an unknown t.

    Moshagen, Musch and Erdfelder (2012). Two groups with p = 2/12 and 10/12 give t and the share π of those for a ban.
    """
    rows = [row for row in _rows(path) if float(row["RRdesign"]) == 1]
    said, group, age, side = (
        np.array([float(row[name]) for row in rows]) for name in ("rrt", "condition", "age.c", "leftRight")
    )
    for name, (own, error) in _regression(said, group, side, age).items():
        value, published_error = MINARETS[name]
        yield Compared(
            f"Minarets, linear regression, N = {len(rows):,}", name, f"{value:.4g} ({published_error:.2g})",
            f"{own:.4g} ({error:.2g})",
            "equal: data, design, likelihood (normal errors, t as estimated from the two groups). Not equal: theirs is "
            "RRreg's code, ours is written for this table, as no plan of Tacit has an unknown t",
        )  # fmt: skip

    chance = np.random.default_rng(0)
    again = [chance.integers(0, len(rows), len(rows)) for _ in range(1000)]
    for name, other in {"left–right": side, "age": age}.items():
        error = float(np.nanstd([_correlation(said[some], group[some], other[some]) for some in again]))
        value, published_error = MINARETS_CORRELATIONS[name]
        yield Compared(
            f"Minarets, correlation, N = {len(rows):,}", name, f"{value:.3f} ({published_error:.3f})",
            f"{_correlation(said, group, other):.3f} ({error:.3f})",
            "equal: data, design, estimate (covariance with pseudo-values over the standard deviations of the private "
            "answer and of the other column, a mean of the groups by precision). Not equal: the bootstrap samples, "
            "ours are 1,000",
        )  # fmt: skip


def _lie_detector(said: Any, group: Any) -> tuple[float, float]:
    """π and t: a group says yes with probability π t + (1 − π)(1 − p), and p differs by 8/12 between the groups."""
    first, second = (float(said[group == name].mean()) for name in MINARETS_TRUTH)
    share = 1 - (first - second) / (MINARETS_TRUTH[2] - MINARETS_TRUTH[1])
    return share, (first - (1 - share) * (1 - MINARETS_TRUTH[1])) / share


def _correlation(said: Any, group: Any, other: Any) -> float:
    """The correlation of the private answer with another column; NaN where the estimate of π is not within 0 and 1.

    The pseudo-value z = (report − (1 − p)) / (t − (1 − p)) has the private answer x as its mean. Thus Cov(z, other) =
    Cov(x, other), and Var(x) = π(1 − π), while Var(z) is far larger: 10 and 51 times here. Groups have the weight n /
    Var(z). The correlation of the reports is too small by the root of that, with the other sign where t < 1 − p.
    """
    share, says_so = _lie_detector(said, group)
    if not 0 < share < 1:
        return math.nan
    found, weights = [], []
    for name, truth in MINARETS_TRUTH.items():
        mine = group == name
        z = (said[mine] - (1 - truth)) / (says_so - (1 - truth))
        covariance = np.cov(z, other[mine], bias=True)[0, 1]
        found.append(covariance / math.sqrt(share * (1 - share) * other[mine].var()))
        weights.append(len(z) / z.var())
    return float(np.clip(np.average(found, weights=weights), -1, 1))


def _regression(said: Any, group: Any, side: Any, age: Any) -> dict[str, tuple[float, float]]:
    """Maximum likelihood of side = a + b x + c age + a normal error, where x is seen through its report only."""
    from scipy.optimize import minimize

    share, says_so = _lie_detector(said, group)
    yes = np.column_stack([np.full(len(said), says_so), [1 - MINARETS_TRUTH[int(name)] for name in group]])
    chances = np.where(said[:, None] == 1, yes, 1 - yes)

    def lost(at: Any) -> float:
        a, b, c, log_error, log_odds = at
        off = (side - a - c * age)[:, None] - np.array([b, 0.0])
        held = np.array([1.0, math.exp(-log_odds)]) / (1 + math.exp(-log_odds))
        densities = np.exp(-0.5 * (off / math.exp(log_error)) ** 2 - log_error)
        return -float(np.log((held * chances * densities).sum(axis=1)).sum())

    start = [side.mean() - share, 1.0, 0.0, math.log(side.std()), math.log(share / (1 - share))]
    best = minimize(lost, start, method="BFGS").x
    steps = np.diag([1e-3, 1e-3, 1e-4, 1e-3, 1e-3])
    curved = [
        [sum(s * r * lost(best + s * one + r * two) for s in (1, -1) for r in (1, -1)) for two in steps]
        for one in steps
    ]
    size = np.diag(steps)
    errors = np.sqrt(np.diag(np.linalg.inv(np.array(curved) / (4 * np.outer(size, size)))))
    return {name: (float(best[place]), float(errors[place])) for place, name in enumerate(MINARETS, start=1)}


def zipf(path: Path, epsilons: Sequence[str] = ()) -> Iterator[Compared]:
    """The least published error of four mechanisms, and Tacit's with the prior, with one that is off, without one."""
    published: dict[str, dict[str, float]] = {}
    for row in [*_rows(path), *ZIPF_AT_5]:
        published.setdefault(row["epsilon"], {})[row["mechanism"]] = float(row["mse"])
    prior = Prior(range(ZIPF_VALUES), [10**12 // rank for rank in range(1, ZIPF_VALUES + 1)])
    for epsilon in epsilons or published:
        best = min(published[epsilon], key=lambda name: published[epsilon][name])
        promises = {
            "LIP for the true prior": Promise(epsilon),
            "LIP for all priors within .1 of it": Promise(epsilon, prior_set=Ball(prior, "0.1")),
            "LDP, no prior": Promise(epsilon, "ldp"),
        }
        for name, promise in promises.items():
            alone = promise.notion == "ldp"
            search = Search(method="without-prior" if alone else "auto")
            found = design(Prior.uniform(ZIPF_VALUES) if alone else prior, Histogram(), promise, search=search)
            own = found.certificate.aimed_for_participants * ZIPF_USERS / ZIPF_VALUES
            yield Compared(
                f"Zipf, {ZIPF_VALUES:,} values, {ZIPF_USERS:,} users, ε = {float(epsilon):.3g}",
                f"error² of a count, {name}", f"{published[epsilon][best]:.1f} ({ZIPF_KINDS[best]})",
                f"{own:.1f}, {own / published[epsilon][best]:.2f} of it",
                "equal: values, users, ε" + (", LDP" if alone else "") + ". Not equal: theirs is the best mean of 10 "
                "runs of four mechanisms, ours the variance" + ("" if alone else "; LIP promises less than LDP"),
            )  # fmt: skip


def adult_age(path: Path, runs: int = 10) -> Iterator[Compared]:
    """Frequencies of age, 74 values, of the 45,222 people without missing cells; the other 3,620 make the prior."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path).to_pandas()
    whole = ~(table.astype(str).apply(lambda column: column.str.strip()).isin(["?", "", "None", "nan"])).any(axis=1)
    column = next(name for name in table.columns if name.strip() == "age")
    ages = table.loc[whole, column].to_numpy().astype(int)
    values = sorted(set(ages.tolist()))
    others = table.loc[~whole, column].astype(int).value_counts()
    positions = np.searchsorted(values, ages)
    plans = {
        "LDP, no prior": make_plan(
            Prior.uniform(values), "histogram", 1, notion="ldp", search=Search(method="without-prior")
        ),
        f"LIP, prior of {int((~whole).sum()):,} other people": make_plan(
            Prior(values, [int(others.get(value, 0)) + 0.5 for value in values]), "histogram", 1
        ),
    }
    truth = np.bincount(positions, minlength=len(values)) / len(ages)
    for name, plan in plans.items():
        errors = [_error(plan, positions, truth, run) for run in range(runs)]
        yield Compared(
            f"Adult, age, {len(values)} values, n = {len(ages):,}, ε = 1", f"error² of a frequency, {name}",
            f"{ADULT_AGE:.1e} (subset selection)", f"{np.mean(errors):.1e} ± {np.std(errors) / math.sqrt(runs):.0e}",
            "equal: people, ε, estimates moved to possible ones. Not equal: "
            + ("the mechanism" if plan.groups[0].notion == "ldp" else "the promise: LIP for the prior, LDP at most 2"),
        )  # fmt: skip

    for name, oracle in PROTOCOLS.items():
        try:
            module = import_module(f"multi_freq_ldpy.pure_frequency_oracles.{oracle}")
        except ImportError:
            return
        client, aggregate = getattr(module, f"{oracle}_Client"), getattr(module, f"{oracle}_Aggregator_MI")
        # Their unary encoding counts the values itself.
        size, theirs = (() if oracle == "UE" else (len(values),)), []
        for run in range(runs):
            np.random.seed(run)  # noqa: NPY002 (their generator)
            found = aggregate([client(int(x), len(values), 1.0) for x in positions], *size, 1.0)
            theirs.append(float(((np.asarray(found) - truth) ** 2).mean()))
        yield Compared(
            f"Adult, age, {len(values)} values, n = {len(ages):,}, ε = 1",
            f"error² of a frequency, multi-freq-ldpy in this run, {name}",
            f"{ADULT_AGE:.1e} (subset selection)" if oracle == "SS" else "–",
            f"{np.mean(theirs):.1e} ± {np.std(theirs) / math.sqrt(runs):.0e} (theirs)",
            f"their code on the same people in this run, {runs} repetitions; LDP, estimates clipped and rescaled",
        )  # fmt: skip


def _error(plan: Plan, positions: Any, truth: Any, run: int) -> float:
    tally = Tally.of(plan, Randomizer(plan).reports(0, positions, words=run))
    found = estimate(plan, tally, "unbiased", scope="participants", project=True).columns["estimate"] / len(positions)
    return float(((found - truth) ** 2).mean())


def adult_ranges(
    path: Path, budgets: tuple[str, ...] = ("0.2", "0.5", "1", "2"), runs: int = 10, bins: int = 1024, knots: int = 12
) -> Iterator[Compared]:
    """All ranges over 1,024 bins of `fnlwgt`, from a plan for quantiles over 12 groups of bins.

    One half of the people makes the prior, which also says how answers lie within a group; the other half is asked.
    """
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path).to_pandas()
    column = next(name for name in table.columns if name.strip() == "fnlwgt")
    weights = np.random.default_rng(0).permutation(table[column].to_numpy().astype(float))
    edges = np.linspace(weights.min(), weights.max(), bins + 1)
    places = np.clip(np.searchsorted(edges, weights, side="right") - 1, 0, bins - 1)
    known, asked = np.split(places, [len(places) // 2])
    counts = np.bincount(known, minlength=bins) + 0.5
    prior, truth = counts / counts.sum(), np.bincount(asked, minlength=bins) / len(asked)
    group = np.minimum((prior.cumsum() - prior / 2) * knots, knots - 1).astype(int)
    inside = prior / np.bincount(group, weights=prior)[group]
    believed = Prior(list(range(knots)), np.bincount(group, weights=counts))
    work = f"Adult, ranges of fnlwgt, {bins:,} bins, n = {len(asked):,}"
    equal = (
        "equal: column, bins, mean over ranges. Not equal: half of the people, all ranges instead of random ones, and "
    )
    yield Compared(
        work, "error² of a range, the prior alone", "–", f"{_range_error(prior - truth):.1e}", equal + _PRIOR
    )
    for epsilon in budgets:
        plan = make_plan(believed, "quantiles", epsilon)
        errors = []
        for run in range(runs):
            tally = Tally.of(plan, Randomizer(plan).reports(0, group[asked], words=run))
            found = estimate(plan, tally, "unbiased", scope="participants", project=True).columns["estimate"]
            shares = np.diff(found / len(asked), prepend=0.0, append=1.0)
            errors.append(_range_error(inside * shares[group] - truth))
        yield Compared(
            f"{work}, ε = {epsilon}", "error² of a range, LIP, prior of the other half",
            f"{ADULT_RANGES:.1e} (PriPL-Tree)" if epsilon == "1" else "in a figure only",
            f"{np.mean(errors):.1e} ± {np.std(errors) / math.sqrt(runs):.0e}", equal + _PRIOR,
        )  # fmt: skip


_PRIOR = "the promise: LIP for the prior, LDP at most 2ε; answers within a group of bins are spread as in the prior"


def _range_error(off: Any) -> float:
    """The mean over all ranges of the squared error, from the errors of the bins: differences of cumulated errors."""
    sums = np.concatenate([[0.0], off.cumsum()])
    return float(2 * (len(sums) * (sums**2).sum() - sums.sum() ** 2) / (len(sums) * (len(sums) - 1)))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compared(options: Options) -> Iterator[Compared]:
    """All rows whose data are at hand; for the others a row that says what is missing."""
    folder = options.data if options.data is not None else DEFAULT_DATA
    parts = {
        nigeria: folder / "published" / "nigeria.csv",
        minarets: folder / "published" / "minarets.csv",
        zipf: folder / "published" / "pgr_zipf1.0.csv",
    }
    for part, path in parts.items():
        if path.is_file():
            yield from part(path)
        else:
            yield Compared(part.__name__, "", "", "", f"left out: {path} is not there")
    adult = find("adult", options)
    yield from adult_age(adult)
    yield from adult_ranges(adult)


def page(rows: list[Compared]) -> str:
    """The table in Markdown, and below it what is equal and what is not."""
    notes = list(dict.fromkeys(row.remark for row in rows))
    lines = ["| work | number | published | Tacit | note |", "|---|---|---:|---:|---:|"]
    lines += [
        f"| {row.work} | {row.number} | {row.published} | {row.own} | {notes.index(row.remark) + 1} |" for row in rows
    ]
    return "\n".join([*lines, "", *(f"{number}. {note}." for number, note in enumerate(notes, start=1))]) + "\n"


def main(words: list[str] | None = None) -> int:
    """Compute the table, print it, and write it to out/published.md."""
    parser = argparse.ArgumentParser("python -m studies.published_work", description=__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder with the data; default: {DEFAULT_DATA}")
    parser.add_argument("--out", type=Path, default=Path("out/published.md"), metavar="FILE")
    asked = parser.parse_args(words)
    text = page(list(compared(Options(data=asked.data))))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
