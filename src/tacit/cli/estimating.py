"""`tacit estimate`, `difference`, `crosstab`, `compliance`, `export` and `regress`: findings from reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli import app as cli
from tacit.cli.everything import typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.estimates import Cell, Differences, Margin
    from tacit.plan import Plan
    from tacit.tally import Tally

REFUSED = "the plan cannot have sent such reports, or a weight is missing or no number"
_ESTIMATORS = "assisted (default): the prior as far as the reports agree. unbiased, mle: without it. mmse: trusts it."
_QUANTILE = "Also this quantile of a number, such as 0.5 for the median; repeatable."


@dataclass(frozen=True)
class About:
    """Whom an estimate is about, and how sure it is."""

    by: cli.ByOption = None
    group_parts: cli.GroupParts = None
    population: cli.PopulationFiles = None
    population_size: cli.PopulationSize = None
    scope: cli.ScopeOption = None
    level: cli.LevelOption = 0.95
    simultaneous: cli.SimultaneousOption = None


ABOUT = About()


@cli.command("estimate", epilog="Example: tacit estimate plan.json reports.parquet --by region --html estimate.html")
def estimate_command(
    plan: cli.PlanFile,
    reports: cli.Reports,
    estimator: Annotated[
        Literal["assisted", "unbiased", "mle", "mmse"] | None, cli.option(metavar="NAME", help=_ESTIMATORS)
    ] = None,
    about: About = ABOUT,
    project: Annotated[bool, cli.option("--project", help="Move estimates to possible counts.")] = False,
    quantile: Annotated[list[float] | None, cli.option(metavar="Q", help=_QUANTILE)] = None,
    columns: cli.WeightedColumns = cli.WEIGHTED,
    cluster: cli.Cluster = cli.CLUSTER,
    to: cli.Findings = cli.FINDINGS,
) -> None:
    """Estimate the total, with intervals, and check the prior. Reports that it cannot explain raise the alarm.

    The alarm may be looked at at any time, so it is blunt: `tacit difference --against prior`, looked at once, tells
    differences half as large.
    """
    from tacit.estimates import estimate, quantile_differences, quantiles
    from tacit.plan import Plan
    from tacit.show import results
    from tacit.show.spreadsheet import estimate_rows

    contract, by, level = Plan.load(plan), about.by, about.level
    to.check(plan, reports, *(about.population or ()))
    weighted = columns.weight_column is not None
    needed = bool(about.population) or about.population_size is not None
    with cluster.files() as files:
        whole, cells, sizes = read_reports(
            contract, reports, about, about.population, count=files.tally_by, **columns.given(),
            needed=needed or contract.block_column is not None or (weighted and not contract.takes_weights),
        )  # fmt: skip
    options: dict[str, Any] = {"level": level, "by": by, "scope": about.scope, "population": sizes}
    more: dict[str, Any] = {
        "estimator": estimator,
        "population_size": about.population_size,
        "simultaneous": about.simultaneous,
    }
    more |= {"project": project}
    if contract.block_column is not None:
        given = {name: each for name, each in (options | more).items() if each}
        asked_questions(contract, cells, whole, given, quantile, to)
        return
    loaded = contract.asking()
    result = estimate(loaded, cells, **options, **more)
    asked = quantile or ([0.5] if loaded.task.kind == "quantiles" else [])
    medians = quantiles(loaded, cells, asked, **options) if asked else []
    compared = quantile_differences(loaded, cells, asked, **options) if asked and len(result.parts) > 1 else []
    if to.html is not None:
        from tacit.show.page import write_page

        write_page(
            to.html, loaded, result, command=typed(), quantiles=medians, quantile_changes=compared, brand=to.brand
        )  # fmt: skip
    to.write(lambda: estimate_rows(loaded, result, result.parts, by))
    if to.as_json:
        medians_facts = {"quantiles": [each.to_dict() for each in medians]} if asked else {}
        medians_facts |= {"quantile_differences": [each.to_dict() for each in compared]} if compared else {}
        cli.print_json({"plan": loaded.hash} | result.to_dict() | medians_facts | {"refused": whole.refused})
        return
    results.print_quantiles(cli.out, medians, level)
    results.print_quantile_differences(cli.out, compared, level)
    results.print_estimate(cli.out, loaded, result)
    cli.tell_refused(whole.refused, weighted=weighted or columns.offset_column is not None)
    if by is not None:
        results.print_breakdown(cli.out, loaded, by, result.parts)


def asked_questions(
    plan: Plan,
    cells: list[Cell],
    whole: Tally,
    options: dict[str, Any],
    asked: list[float] | None,
    to: cli.Findings,
) -> None:
    """Estimate and print every question; `options` are those of `estimate_questions`, `asked` the quantiles."""
    from tacit.estimates import estimate_questions, quantiles
    from tacit.show.questions import print_questions, question_rows, write_questions
    from tacit.show.results import print_quantiles

    found = estimate_questions(plan, cells, **options)
    about = {name: each for name, each in options.items() if name in ("level", "by", "scope", "population")}
    medians = {
        question.name: quantiles(plan, cells, asked or [0.5], question=question.name, **about)
        for question in plan.private
        if question.task == "quantiles" and question.name in found
    }
    if asked and not medians:
        raise ValueError("No question of this plan is asked for its quantiles.")
    if to.html is not None:
        write_questions(to.html, plan, found, whole, to.brand)
    to.write(lambda: question_rows(found))
    if to.as_json:
        more = {name: {"quantiles": [each.to_dict() for each in several]} for name, several in medians.items()}
        questions = [{"name": name} | one.to_dict() | more.get(name, {}) for name, one in found.items()]
        for each in questions:
            del each["estimates"]
        facts = {"plan": plan.hash, "n_reports": whole.n_reports, "refused": whole.refused}
        cli.print_json(facts | {"questions": questions, "estimates": question_rows(found)})
        return
    print_questions(cli.out, plan, found)
    for name, several in medians.items():
        print_quantiles(cli.out, several, options.get("level", 0.95), name)
    cli.tell_refused(whole.refused, weighted=False)


def read_reports(
    plan: Plan,
    reports: str,
    about: About,
    population: list[Path] | None,
    *,
    needed: bool = True,
    **options: Any,
) -> tuple[Tally, list[Cell], list[Margin]]:
    """All reports of a file counted, the same in cells by what is asked for, and the sizes of the population.

    A file without reports is an error where they are `needed`.
    """
    from tacit.files import read_cells, read_population

    sizes = [read_population(path) for path in population or ()]
    columns = [*([] if about.by is None else [about.by]), *(name for margin in sizes for name in margin.columns)]
    with cli.progress_bar("counting") as watch:
        parts = cli.names_of(about.group_parts)
        whole, cells = read_cells(plan, reports, columns, group_parts=parts, progress=watch, **options)
    if needed and not cells:
        refused = f" All {whole.refused:,} rows were refused: {REFUSED}." if whole.refused else ""
        raise ValueError(f"There are no reports in {reports}.{refused}")
    return whole, cells, sizes


_AGAINST = "rest (default), pairs (each with all after it, groups in the plan's order), prior, or a category of --by."
_BEFORE = "Reports or a tally of an earlier round; several, the oldest first, for a trend."
_BEFORE_PLAN = "The plan of --before, if another; one for all rounds, or one for each."
_SAME = "With --before: the column that says whose report it is, where the same people answered."
_SHARES = "Last year's numbers, a file like the priors; counts bring their sampling error."
_NAMES = "Names of the rounds, as in 2015,2020: the oldest first. Else wave 1, wave 2, or the names of the files."
_WEIGHT = "Column with design weights of the respondents."
_SOME = "Of a histogram, only this answer's; repeatable. Far faster where there are thousands."
_FORMULA = "Public columns, as in 'age + C(region)'."
_MODEL = "linear, logistic or multinomial; by default what the task asks for."

_PAIR = "Of several questions, also the joint answers of two; repeatable."
_WHICH = "Of a plan of several questions: the one that is asked about."
QuestionName = Annotated[str, typer.Argument(metavar="QUESTION", help="The name of a question of the plan.")]
QuestionOption = Annotated[str | None, cli.option("--question", metavar="NAME", help=_WHICH)]


@dataclass(frozen=True)
class DesignColumns(cli.Columns):
    """Where a file of reports has them, their groups, and how much each counts."""

    weight_column: Annotated[str | None, cli.option("--weight-column", metavar="NAME", help=_WEIGHT)] = None


_COLUMNS = DesignColumns()


@cli.command("difference", epilog="Example: tacit difference plan.json 2026.parquet --before 2025.parquet --by region")
def difference_command(
    plan: cli.PlanFile,
    reports: cli.Reports,
    about: About = ABOUT,
    against: Annotated[str | None, cli.option(metavar="WHAT", help=_AGAINST)] = None,
    before: Annotated[list[str] | None, cli.option(metavar="REPORTS", help=_BEFORE)] = None,
    before_plan: Annotated[list[Path] | None, cli.option(metavar="PLAN", help=_BEFORE_PLAN)] = None,
    before_shares: Annotated[Path | None, cli.option(metavar="FILE", help=_SHARES)] = None,
    before_population: Annotated[
        list[Path] | None, cli.option("--before-population", metavar="FILE", help="Of --before, if another.")
    ] = None,
    ratio: Annotated[bool, cli.option("--ratio", help="Show ratios too.")] = False,
    question: QuestionOption = None,
    columns: DesignColumns = _COLUMNS,
    names: Annotated[str | None, cli.option(metavar="NAMES", help=_NAMES)] = None,
    person: Annotated[str | None, cli.option(metavar="NAME", help=_SAME)] = None,
    to: cli.Findings = cli.FINDINGS,
) -> None:
    """Compare shares or means: groups, rounds, or with the prior. Also with last year's numbers."""
    from tacit.estimates import difference, estimate, read_for
    from tacit.files import linked
    from tacit.plan import Plan
    from tacit.show.results import print_differences

    rounds, plans = before or [], before_plan or []
    shares = [] if before_shares is None else [before_shares]
    to.check(plan, reports, *rounds, *plans, *(about.population or ()), *(before_population or ()), *shares)
    _check_difference(about, against, rounds, plans, bool(shares))
    others = about.by or question or about.population or about.population_size or columns.weight_column
    if person is not None and (not rounds or others):
        raise ValueError(
            "--person follows all people from --before on: leave --by, --question, --population, --population-size and "
            "--weight-column out."
        )
    contract = Plan.load(plan)
    loaded = contract.asking(question)
    whole, cells, sizes = read_reports(contract, reports, about, about.population, **columns.given())
    cells = read_for(cells, loaded)
    refused, asked = whole.refused, dict[str, Any]()
    earlier: list[tuple[Plan, Any, Any]] = []
    contracts: list[Plan] = []
    for place, source in enumerate(rounds):
        past_contract = Plan.load(plans[min(place, len(plans) - 1)]) if plans else contract
        older, past, past_sizes = read_reports(
            past_contract, source, about, before_population or about.population, **columns.given()
        )
        refused, past_plan = refused + older.refused, past_contract.asking(question)
        earlier.append((past_plan, read_for(past, past_plan), past_sizes))
        contracts.append(past_contract)
    scope = about.scope or "population"
    called = _round_names(names, [*rounds, reports], [*contracts, contract], before_shares is not None)
    if len(earlier) > 1 or person is not None:
        asked = {"level": about.level, "scope": scope, "simultaneous": about.simultaneous, "names": called}
        waves = [*earlier, (loaded, cells, sizes)]
        if person is not None:
            places = columns.given()
            del places["weight_column"]
            files = zip([past for past, *_ in waves], [*rounds, reports], strict=True)
            asked["linked"] = [linked(each, source, person, **places) for each, source in files]
        _tell_trend(waves, asked, to, refused, ratio)
        return
    if earlier:
        asked = dict(zip(("before_plan", "before", "before_population"), earlier[0], strict=True))
    elif before_shares is not None:
        asked["before_shares"] = _shares_before(before_shares, contract, loaded, question)
    if called is not None:
        asked["names"] = called
    options: dict[str, Any] = {"by": about.by, "population": sizes, "population_size": about.population_size}
    options |= {"level": about.level, "scope": scope}
    found = difference(loaded, cells, against=against, simultaneous=about.simultaneous, **options, **asked)
    if to.html is not None:
        from tacit.show.page import write_page

        everybody = estimate(loaded, cells, **options)
        write_page(to.html, loaded, everybody, comparison=found, command=typed(), brand=to.brand)
    to.write(lambda: _rows(found))
    if to.as_json:
        cli.print_json({"plan": loaded.hash} | found.to_dict() | {"refused": refused})
        return
    notes = [*found.notes, *_refused_notes(refused)]
    print_differences(cli.out, loaded, found, title=about.by or "", ratio=ratio, notes=notes)


def _round_names(given: str | None, sources: list[str], plans: list[Plan], with_shares: bool) -> tuple[str, ...] | None:
    """Names of the rounds, the oldest first: as given, by the waves of a series, or by the files; None for others."""
    wanted = 2 if with_shares else len(sources)
    if given is not None:
        names = cli.names_of(given)
        if len(names) != wanted or wanted < 2:
            raise ValueError(f"--names must name each of the rounds that are compared, the oldest first: {wanted}.")
        return names
    if len({plan.wave for plan in plans}) == len(plans) > 1:
        return tuple(f"wave {plan.wave}" for plan in plans)
    stems = tuple(Path(source).stem for source in sources)
    return stems if len(set(stems)) == len(stems) > 1 and "-" not in stems else None


def _check_difference(about: About, against: str | None, rounds: list[str], plans: list[Path], shares: bool) -> None:
    """Refuse options that do not go together."""
    if (against is not None) + bool(rounds) + shares > 1:
        raise ValueError("Compare with one thing at a time: --against, --before or --before-shares.")
    if len(plans) not in (0, 1, len(rounds)):
        raise ValueError(f"Give --before-plan once, or once for each of the {len(rounds)} --before, in the same order.")
    if len(rounds) > 1 and (about.by is not None or about.population_size is not None):
        raise ValueError("A trend over several rounds is for all people: leave --by and --population-size out.")
    if about.by is None and against != "prior" and not rounds and not shares:
        raise ValueError("Say what to compare: --by a public column, --before an earlier round, or --against prior.")


def _refused_notes(refused: int) -> list[str]:
    return [f"{refused:,} rows were refused: {REFUSED}."] if refused else []


def _shares_before(path: Path, contract: Plan, plan: Plan, question: str | None) -> dict[str | None, Any]:
    """Earlier numbers from a file like the priors: for each group its shares and records."""
    from tacit.designs.prior_file import read_priors

    # A mean may be compared with numbers of any kind, a share with the same answers only.
    asked = contract.question_of(question)
    values, block = asked.answers, contract.block_of(asked.name)
    known = read_priors(path, domain=values if plan.task.counts_people else None)
    return {
        group.name: (block.with_margin(asked.name, group.observed or group.prior), group.records) for group in known
    }


def _rows(found: Differences) -> list[dict[str, Any]]:
    """Differences for a spreadsheet."""
    facts = {"level": found.level, "about": found.scope}
    return [asdict(row) | {"significant": row.significant} | facts for row in found.rows]


def _tell_trend(
    waves: Sequence[tuple[Plan, Any, Any]], about: dict[str, Any], to: cli.Findings, refused: int, ratio: bool
) -> None:
    """A trend over several rounds, each a plan, its cells and the population; printed and written."""
    from tacit.estimates import trend
    from tacit.show.page import write_page
    from tacit.show.results import print_trend

    sizes = [each for *_, each in waves]
    found = trend([(plan, cells) for plan, cells, _ in waves], populations=sizes if any(sizes) else (), **about)
    plan, newest = waves[-1][0], found.estimates[-1]
    if to.html is not None:
        write_page(to.html, plan, newest, trend=found, comparison=found.changes, command=typed(), brand=to.brand)
    to.write(lambda: _rows(found.changes))
    if to.as_json:
        cli.print_json({"plan": plan.hash} | found.to_dict() | {"refused": refused})
        return
    print_trend(cli.out, plan, found, ratio=ratio, notes=_refused_notes(refused))


@cli.command("crosstab", epilog="Example: tacit crosstab plan.json tally.json smokes asthma")
def crosstab_command(
    plan: cli.PlanFile,
    reports: cli.Reports,
    first: QuestionName,
    second: QuestionName,
    level: cli.LevelOption = 0.95,
    simultaneous: cli.SimultaneousOption = None,
    columns: cli.Columns = cli.COLUMNS,
    to: cli.Table = cli.TABLE,
) -> None:
    """Estimate the table of two questions, with intervals. Tests whether the answers are independent.

    Both questions must be in one block: plan with --cross first,second.
    """
    from tacit.estimates import crosstab
    from tacit.plan import Plan
    from tacit.show.questions import print_crosstab

    loaded = Plan.load(plan)
    to.check(plan, reports)
    whole, cells, _ = read_reports(loaded, reports, ABOUT, None, **columns.given())
    found = crosstab(loaded, cells, first, second, level=level, simultaneous=simultaneous)
    to.write(lambda: found.to_dict()["rows"])
    if to.as_json:
        cli.print_json({"plan": loaded.hash} | found.to_dict() | {"refused": whole.refused})
        return
    print_crosstab(cli.out, found)
    cli.tell_refused(whole.refused, weighted=False)


_SAYS = "The report, by its number, that people send who do not follow; else any."


@cli.command("compliance", epilog="Example: tacit compliance plan.json reports.csv --says 1")
def compliance_command(
    plan: cli.PlanFile,
    reports: cli.Reports,
    says: Annotated[int | None, cli.option(metavar="N", help=_SAYS)] = None,
    level: cli.LevelOption = 0.95,
    columns: cli.Columns = cli.COLUMNS,
    as_json: cli.JsonFlag = False,
) -> None:
    """Estimate from two arms how many did not follow the rule. Also what that means for each answer."""
    from tacit.estimates import compliance, pooled_compliance
    from tacit.files import read_tally
    from tacit.plan import Plan
    from tacit.show.results import print_compliance

    loaded = Plan.load(plan).single("Estimating how many follow the rule")
    with cli.progress_bar("counting") as watch:
        whole = read_tally(loaded, reports, progress=watch, **columns.given())
        found = compliance(loaded, whole, says, level)
        pooled = pooled_compliance(found) if len(found) > 1 else None
    if as_json:
        groups = [each.to_dict() for each in found]
        together = None if pooled is None else pooled.to_dict()
        cli.print_json(
            {"plan": loaded.hash, "says": says, "pooled": together, "groups": groups, "refused": whole.refused}
        )
        return
    print_compliance(cli.out, loaded, found, pooled, says)
    cli.tell_refused(whole.refused, weighted=False)


@cli.command("export", epilog="Example: tacit export plan.json reports.parquet -o pseudo.csv --keep region")
def export_command(
    plan: cli.PlanFile,
    reports: cli.ReportFile,
    to: cli.Target = cli.TO_OUTPUT,
    keep: Annotated[list[str] | None, cli.option(metavar="NAME", help="Public column to keep; repeatable.")] = None,
    value: Annotated[list[str] | None, cli.option(metavar="VALUE", help=_SOME)] = None,
    pair: Annotated[list[str] | None, cli.option(metavar="NAME,NAME", help=_PAIR)] = None,
    columns: cli.Columns = cli.COLUMNS,
    output_format: cli.FileFormat = None,
) -> None:
    """Write pseudo-values of reports, for R, Stata or statsmodels. The mean of such a number is the answer's.

    Shares, means, weights and linear models of them are right as they are. A single one says no more than its report.
    """
    from tacit.files import export_file
    from tacit.plan import Plan

    loaded = Plan.load(plan)
    chosen = _named(loaded.asking(), value) if value else None
    cli.new_file(to.output, to.overwrite, plan, reports)
    with cli.progress_bar("writing") as watch:
        done = export_file(
            loaded, reports, to.output, keep=tuple(keep or ()), pairs=[cli.names_of(each) for each in pair or ()],
            values=chosen, report_column=columns.report_column, group_column=columns.group_column, progress=watch,
            source_format=columns.input_format, target_format=output_format,
        )  # fmt: skip
    if to.as_json:
        facts = {"rows": done.rows, "refused": done.refused, "columns": done.columns}
        cli.print_json({"file": to.output, "plan": loaded.hash} | facts, to.console)
        return
    about = ", ".join(
        f"{name}{'' if value is None else f' ({value})'}" for name, value in list(done.columns.items())[:6]
    )
    more = ", …" if len(done.columns) > 6 else ""
    to.console.print(f"{done.rows:,} rows, {done.refused:,} refused. Pseudo-values: {cli.escape(about)}{more}.")


def _named(plan: Plan, names: list[str]) -> list[Any]:
    """The rows of the plan's estimate as they are called on the command line; what it does not have stays a text."""
    known = {str(value): value for value in plan.row_values}
    return [known.get(name, name) for name in names]


@cli.command("regress", epilog="Example: tacit regress plan.json reports.parquet 'C(region) + age'")
def regress_command(
    plan: cli.PlanFile,
    reports: cli.ReportFile,
    formula: Annotated[str, typer.Argument(metavar="FORMULA", help=_FORMULA)],
    question: QuestionOption = None,
    model: Annotated[
        Literal["linear", "logistic", "multinomial"] | None, cli.option(metavar="NAME", help=_MODEL)
    ] = None,
    reference: Annotated[
        str | None, cli.option(metavar="VALUE", help="What a multinomial model compares with.")
    ] = None,
    level: cli.LevelOption = 0.95,
    columns: DesignColumns = _COLUMNS,
    cluster_column: Annotated[
        str | None, cli.option(metavar="NAME", help="Rows that may depend on each other.")
    ] = None,
    to: cli.Table = cli.TABLE,
) -> None:
    """Regress the answer on public columns, with robust errors. It needs reports, not a tally."""
    from tacit.files import regress_file
    from tacit.files.tallies import is_tally
    from tacit.plan import Plan
    from tacit.show.results import print_regression

    if is_tally(reports):
        raise ValueError(f"{reports} is a tally, which has no public columns. A regression needs the reports.")
    to.check(plan, reports)
    contract = Plan.load(plan)
    loaded = contract.asking(question, first=True)
    named = None if reference is None else _named(loaded, [reference])[0]
    done = regress_file(
        contract, reports, formula, question=question, model=model, reference=named, level=level,
        cluster_column=cluster_column, **columns.given(),
    )  # fmt: skip
    to.write(lambda: done.fit.to_dict()["coefficients"])
    left_out = {"refused": done.refused, "incomplete": done.incomplete}
    if to.as_json:
        levels = {"levels": [asdict(each) for each in done.levels]}
        cli.print_json({"plan": loaded.hash} | done.fit.to_dict() | levels | left_out)
        return
    reasons = {"refused": "the plan cannot have sent such reports", "incomplete": "a cell is missing"}
    notes = [f"{n:,} rows were left out: {reasons[name]}." for name, n in left_out.items() if n]
    print_regression(cli.out, loaded, done.fit, done.levels, notes)
