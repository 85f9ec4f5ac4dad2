"""`tacit estimate`, `difference`, `export` and `regress`: findings from reports. Argument parsing and printing only."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli.app import (
    ByOption,
    CsvFile,
    Engine,
    FileFormat,
    GroupColumn,
    GroupParts,
    HtmlFile,
    JsonFlag,
    LevelOption,
    Logo,
    Master,
    OffsetColumn,
    Organisation,
    Output,
    Overwrite,
    PlanFile,
    PopulationFiles,
    PopulationSize,
    ReportColumn,
    ReportFile,
    ScopeOption,
    SimultaneousOption,
    WeightColumn,
    brand_of,
    check_target,
    command,
    err,
    escape,
    files_on,
    keep_file,
    names_of,
    option,
    out,
    print_json,
    progress_bar,
    tell_refused,
)
from tacit.cli.everything import typed
from tacit.cli.questions import asked_questions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.estimates import Cell, Differences, Margin
    from tacit.plan import AnyPlan, Plan
    from tacit.show.page import Brand
    from tacit.tally import Tally

Reports = Annotated[str, typer.Argument(metavar="REPORTS", help="Reports or a tally; - for standard input.")]
REFUSED = "the plan cannot have sent such reports, or a weight is missing or no number"
_ESTIMATORS = "assisted (default): the prior as far as the reports agree. unbiased, mle: without it. mmse: trusts it."
_QUANTILE = "Also this quantile of a number, such as 0.5 for the median; repeatable."
_BY = "Also break down by this public column, by the groups, or by a part of crossed groups."


@command("estimate", epilog="Example: tacit estimate plan.json reports.parquet --by region --html estimate.html")
def estimate_command(
    plan: PlanFile,
    reports: Reports,
    estimator: Annotated[
        Literal["assisted", "unbiased", "mle", "mmse"] | None, option(metavar="NAME", help=_ESTIMATORS)
    ] = None,
    level: LevelOption = 0.95,
    by: Annotated[str | None, option(metavar="NAME", help=_BY)] = None,
    group_parts: GroupParts = None,
    population: PopulationFiles = None,
    population_size: PopulationSize = None,
    scope: ScopeOption = None,
    simultaneous: SimultaneousOption = None,
    project: Annotated[bool, option("--project", help="Move estimates to possible counts.")] = False,
    quantile: Annotated[list[float] | None, option(metavar="Q", help=_QUANTILE)] = None,
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    offset_column: OffsetColumn = None,
    input_format: FileFormat = None,
    engine: Engine = "embedded",
    master: Master = None,
    html: HtmlFile = None,
    organisation: Organisation = None,
    logo: Logo = None,
    csv: CsvFile = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Estimate the total, with intervals, and check the prior. Reports that it cannot explain raise the alarm.

    The alarm may be looked at at any time, so it is blunt: `tacit difference --against prior`, looked at once, tells
    differences half as large.
    """
    from tacit.estimates import estimate, quantile_differences, quantiles
    from tacit.plan import load_plan
    from tacit.show import results

    contract = load_plan(plan)
    for target in (html, csv):
        if target is not None:
            check_target(target, plan, reports, *(population or ()))
            keep_file(target, overwrite)
    weighted = weight_column is not None and not contract.takes_weights
    with files_on(engine, master) as files:
        whole, cells, sizes = read_reports(
            contract, reports, by, population, report_column=report_column, group_column=group_column,
            group_parts=group_parts, weight_column=weight_column, offset_column=offset_column, format=input_format,
            count=files.tally_by, needed=bool(population) or population_size is not None or weighted,
        )  # fmt: skip
    if contract.block_column is not None:
        options = {"estimator": estimator, "level": level, "scope": scope, "by": by, "population": sizes}
        options |= {"population_size": population_size, "simultaneous": simultaneous, "project": project}
        given = {name: each for name, each in options.items() if each}
        asked_questions(contract, cells, whole, given, quantile, html, csv, as_json, brand_of(organisation, logo))
        return
    loaded = contract.asking()
    result = estimate(
        loaded, cells, estimator, level, scope=scope, by=by, population=sizes, population_size=population_size,
        simultaneous=simultaneous, project=project,
    )  # fmt: skip
    asked = quantile or ([0.5] if loaded.task.kind == "quantiles" else [])
    about: dict[str, Any] = {"level": level, "by": by, "scope": scope, "population": sizes}
    medians = quantiles(loaded, cells, asked, **about) if asked else []
    compared = quantile_differences(loaded, cells, asked, **about) if asked and len(result.parts) > 1 else []
    if html is not None:
        from tacit.show.page import write_page

        write_page(
            html, loaded, result, command=typed(), quantiles=medians, quantile_changes=compared,
            brand=brand_of(organisation, logo),
        )  # fmt: skip
    if csv is not None:
        from tacit.show.spreadsheet import estimate_rows, write_csv

        write_csv(csv, estimate_rows(loaded, result, result.parts, by))
    if as_json:
        more = {"quantiles": [each.to_dict() for each in medians]} if asked else {}
        more |= {"quantile_differences": [each.to_dict() for each in compared]} if compared else {}
        print_json({"plan": loaded.hash} | result.to_dict() | more | {"refused": whole.refused})
        return
    results.print_quantiles(out, medians, level)
    results.print_quantile_differences(out, compared, level)
    results.print_estimate(out, loaded, result)
    tell_refused(whole.refused, weighted=weight_column is not None or offset_column is not None)
    if by is not None:
        results.print_breakdown(out, loaded, by, result.parts)


def read_reports(
    plan: AnyPlan,
    reports: str,
    by: str | None,
    population: list[Path] | None,
    *,
    group_parts: str | None,
    needed: bool,
    **options: Any,
) -> tuple[Tally, list[Cell], list[Margin]]:
    """All reports of a file counted, the same in cells by what is asked for, and the sizes of the population.

    A file without reports is an error where they are `needed`.
    """
    from tacit.files import read_cells, read_population

    sizes = [read_population(path) for path in population or ()]
    columns = [*([] if by is None else [by]), *(name for margin in sizes for name in margin.columns)]
    with progress_bar("counting") as watch:
        whole, cells = read_cells(plan, reports, columns, group_parts=names_of(group_parts), progress=watch, **options)
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
QuestionOption = Annotated[str | None, option("--question", metavar="NAME", help=_WHICH)]
DesignWeights = Annotated[str | None, option("--weight-column", metavar="NAME", help=_WEIGHT)]


@command("difference", epilog="Example: tacit difference plan.json 2026.parquet --before 2025.parquet --by region")
def difference_command(
    plan: PlanFile,
    reports: Reports,
    by: ByOption = None,
    against: Annotated[str | None, option(metavar="WHAT", help=_AGAINST)] = None,
    before: Annotated[list[str] | None, option(metavar="REPORTS", help=_BEFORE)] = None,
    before_plan: Annotated[list[Path] | None, option(metavar="PLAN", help=_BEFORE_PLAN)] = None,
    before_shares: Annotated[Path | None, option(metavar="FILE", help=_SHARES)] = None,
    before_population: Annotated[
        list[Path] | None, option("--before-population", metavar="FILE", help="Of --before, if another.")
    ] = None,
    group_parts: GroupParts = None,
    population: PopulationFiles = None,
    population_size: PopulationSize = None,
    scope: ScopeOption = None,
    level: LevelOption = 0.95,
    simultaneous: SimultaneousOption = None,
    ratio: Annotated[bool, option("--ratio", help="Show ratios too.")] = False,
    question: QuestionOption = None,
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    weight_column: DesignWeights = None,
    input_format: FileFormat = None,
    names: Annotated[str | None, option(metavar="NAMES", help=_NAMES)] = None,
    person: Annotated[str | None, option(metavar="NAME", help=_SAME)] = None,
    html: HtmlFile = None,
    organisation: Organisation = None,
    logo: Logo = None,
    csv: CsvFile = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare shares or means: groups, rounds, or with the prior. Also with last year's numbers."""
    given = dict(locals())
    from tacit.estimates import difference, estimate, read_for
    from tacit.files import linked
    from tacit.plan import load_plan
    from tacit.show.results import print_differences

    _check_difference(given)
    rounds, plans = before or [], before_plan or []
    contract = load_plan(plan)
    loaded = contract.asking(question)
    read_from = partial(
        read_reports, by=by, report_column=report_column, group_column=group_column, group_parts=group_parts,
        weight_column=weight_column, format=input_format, needed=True,
    )  # fmt: skip
    whole, cells, sizes = read_from(contract, reports, population=population)
    cells = read_for(cells, loaded)
    refused, asked = whole.refused, dict[str, Any]()
    earlier: list[tuple[Plan, Any, Any]] = []
    contracts: list[AnyPlan] = []
    for place, source in enumerate(rounds):
        past_contract = load_plan(plans[min(place, len(plans) - 1)]) if plans else contract
        older, past, past_sizes = read_from(past_contract, source, population=before_population or population)
        refused, past_plan = refused + older.refused, past_contract.asking(question)
        earlier.append((past_plan, read_for(past, past_plan), past_sizes))
        contracts.append(past_contract)
    called = _round_names(names, [*rounds, reports], [*contracts, contract], before_shares is not None)
    if len(earlier) > 1 or person is not None:
        asked = {"level": level, "scope": scope or "population", "simultaneous": simultaneous, "names": called}
        waves = [*earlier, (loaded, cells, sizes)]
        if person is not None:
            columns: dict[str, Any] = {"report_column": report_column, "group_column": group_column}
            columns |= {"format": input_format}
            files = zip([past for past, *_ in waves], [*rounds, reports], strict=True)
            asked["linked"] = [linked(each, source, person, **columns) for each, source in files]
        _tell_trend(waves, asked, html, csv, as_json, refused, ratio, brand_of(organisation, logo))
        return
    if earlier:
        asked = dict(zip(("before_plan", "before", "before_population"), earlier[0], strict=True))
    elif before_shares is not None:
        asked["before_shares"] = _shares_before(before_shares, contract, loaded, question)
    if called is not None:
        asked["names"] = called
    about: dict[str, Any] = {"by": by, "population": sizes, "population_size": population_size, "level": level}
    about |= {"scope": scope or "population"}
    found = difference(loaded, cells, against=against, simultaneous=simultaneous, **about, **asked)
    if html is not None:
        from tacit.show.page import write_page

        everybody = estimate(loaded, cells, **about)
        write_page(html, loaded, everybody, comparison=found, command=typed(), brand=brand_of(organisation, logo))
    if csv is not None:
        _write_rows(csv, found)
    if as_json:
        print_json({"plan": loaded.hash} | found.to_dict() | {"refused": refused})
        return
    notes = [*found.notes, *([f"{refused:,} rows were refused: {REFUSED}."] if refused else [])]
    print_differences(out, loaded, found, title=by or "", ratio=ratio, notes=notes)


def _round_names(
    given: str | None, sources: list[str], plans: list[AnyPlan], with_shares: bool
) -> tuple[str, ...] | None:
    """Names of the rounds, the oldest first: as given, by the waves of a series, or by the files; None for others."""
    wanted = 2 if with_shares else len(sources)
    if given is not None:
        names = names_of(given)
        if len(names) != wanted or wanted < 2:
            raise ValueError(f"--names must name each of the rounds that are compared, the oldest first: {wanted}.")
        return names
    if len({plan.wave for plan in plans}) == len(plans) > 1:
        return tuple(f"wave {plan.wave}" for plan in plans)
    stems = tuple(Path(source).stem for source in sources)
    return stems if len(set(stems)) == len(stems) > 1 and "-" not in stems else None


def _check_difference(given: dict[str, Any]) -> None:
    """Refuse options that do not go together, and files that would be overwritten."""
    before, plans, shares, person = (given[name] for name in ("before", "before_plan", "before_shares", "person"))
    read = [*(before or ()), *(plans or ()), *(given["population"] or ()), *(given["before_population"] or ())]
    for target in (given["html"], given["csv"]):
        if target is not None:
            check_target(target, given["plan"], given["reports"], *read, *([] if shares is None else [shares]))
            keep_file(target, given["overwrite"])
    n_rounds, by, size = len(before or ()), given["by"], given["population_size"]
    if (given["against"] is not None) + (n_rounds > 0) + (shares is not None) > 1:
        raise ValueError("Compare with one thing at a time: --against, --before or --before-shares.")
    if len(plans or ()) not in (0, 1, n_rounds):
        raise ValueError(f"Give --before-plan once, or once for each of the {n_rounds} --before, in the same order.")
    if n_rounds > 1 and (by is not None or size is not None):
        raise ValueError("A trend over several rounds is for all people: leave --by and --population-size out.")
    others = by or given["question"] or given["population"] or size or given["weight_column"]
    if person is not None and (not n_rounds or others):
        raise ValueError(
            "--person follows all people from --before on: leave --by, --question, --population, --population-size and "
            "--weight-column out."
        )
    if by is None and given["against"] != "prior" and not n_rounds and shares is None:
        raise ValueError("Say what to compare: --by a public column, --before an earlier round, or --against prior.")


def _shares_before(path: Path, contract: AnyPlan, plan: Plan, question: str | None) -> dict[str | None, Any]:
    """Earlier numbers from a file like the priors: for each group its shares and records."""
    from tacit.designs.prior_file import read_priors

    # A mean may be compared with numbers of any kind, a share with the same answers only.
    asked = contract.question_of(question)
    values, block = asked.answers, contract.block_of(asked.name)
    known = read_priors(path, domain=values if plan.task.counts_people else None)
    return {
        group.name: (block.with_margin(asked.name, group.observed or group.prior), group.records) for group in known
    }


def _write_rows(path: Path, found: Differences) -> None:
    """Differences as a spreadsheet."""
    from dataclasses import asdict

    from tacit.show.spreadsheet import write_csv

    facts = {"level": found.level, "about": found.scope}
    write_csv(path, [asdict(row) | {"significant": row.significant} | facts for row in found.rows])


def _tell_trend(
    waves: Sequence[tuple[Plan, Any, Any]],
    about: dict[str, Any],
    html: Path | None,
    csv: Path | None,
    as_json: bool,
    refused: int,
    ratio: bool,
    brand: Brand | None,
) -> None:
    """A trend over several rounds, each a plan, its cells and the population; printed and written."""
    from tacit.estimates import trend
    from tacit.show.page import write_page
    from tacit.show.results import print_trend

    sizes = [each for *_, each in waves]
    found = trend([(plan, cells) for plan, cells, _ in waves], populations=sizes if any(sizes) else (), **about)
    plan = waves[-1][0]
    if html is not None:
        write_page(
            html, plan, found.estimates[-1], trend=found, comparison=found.changes, command=typed(), brand=brand
        )  # fmt: skip
    if csv is not None:
        _write_rows(csv, found.changes)
    if as_json:
        print_json({"plan": plan.hash} | found.to_dict() | {"refused": refused})
        return
    notes = [f"{refused:,} rows were refused: {REFUSED}."] if refused else []
    print_trend(out, plan, found, ratio=ratio, notes=notes)


@command("export", epilog="Example: tacit export plan.json reports.parquet -o pseudo.csv --keep region")
def export_command(
    plan: PlanFile,
    reports: ReportFile,
    output: Output = "-",
    keep: Annotated[list[str] | None, option(metavar="NAME", help="Public column to keep; repeatable.")] = None,
    value: Annotated[list[str] | None, option(metavar="VALUE", help=_SOME)] = None,
    pair: Annotated[list[str] | None, option(metavar="NAME,NAME", help=_PAIR)] = None,
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    input_format: FileFormat = None,
    output_format: FileFormat = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Write pseudo-values of reports, for R, Stata or statsmodels. The mean of such a number is the answer's.

    Shares, means, weights and linear models of them are right as they are. A single one says no more than its report.
    """
    from tacit.files import export_file
    from tacit.plan import load_plan

    loaded = load_plan(plan)
    chosen = _named(loaded.asking(), value) if value else None
    check_target(output, plan, reports)
    keep_file(output, overwrite)
    with progress_bar("writing") as watch:
        done = export_file(
            loaded, reports, output, keep=tuple(keep or ()), pairs=[names_of(each) for each in pair or ()],
            values=chosen, report_column=report_column, group_column=group_column, progress=watch,
            source_format=input_format,
            target_format=output_format,
        )  # fmt: skip
    console = err if output == "-" else out
    if as_json:
        facts = {"rows": done.rows, "refused": done.refused, "columns": done.columns}
        print_json({"file": output, "plan": loaded.hash} | facts, console)
        return
    about = ", ".join(
        f"{name}{'' if value is None else f' ({value})'}" for name, value in list(done.columns.items())[:6]
    )
    more = ", …" if len(done.columns) > 6 else ""
    console.print(
        f"{done.rows:,} rows, {done.refused:,} refused. Pseudo-values: {escape(about)}{more}.", soft_wrap=True
    )


def _named(plan: Plan, names: list[str]) -> list[Any]:
    """The rows of the plan's estimate as they are called on the command line; what it does not have stays a text."""
    known = {str(value): value for value in plan.row_values}
    return [known.get(name, name) for name in names]


@command("regress", epilog="Example: tacit regress plan.json reports.parquet 'C(region) + age'")
def regress_command(
    plan: PlanFile,
    reports: ReportFile,
    formula: Annotated[str, typer.Argument(metavar="FORMULA", help=_FORMULA)],
    question: QuestionOption = None,
    model: Annotated[Literal["linear", "logistic", "multinomial"] | None, option(metavar="NAME", help=_MODEL)] = None,
    reference: Annotated[str | None, option(metavar="VALUE", help="What a multinomial model compares with.")] = None,
    level: LevelOption = 0.95,
    weight_column: DesignWeights = None,
    cluster_column: Annotated[str | None, option(metavar="NAME", help="Rows that may depend on each other.")] = None,
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    input_format: FileFormat = None,
    csv: CsvFile = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Regress the answer on public columns, with robust errors. It needs reports, not a tally."""
    from dataclasses import asdict

    from tacit.files import regress_file
    from tacit.files.tallies import is_tally
    from tacit.plan import load_plan
    from tacit.show.results import print_regression
    from tacit.show.spreadsheet import write_csv

    if is_tally(reports):
        raise ValueError(f"{reports} is a tally, which has no public columns. A regression needs the reports.")
    if csv is not None:
        check_target(csv, plan, reports)
        keep_file(csv, overwrite)
    contract = load_plan(plan)
    loaded = contract.asking(question, first=True)
    named = None if reference is None else _named(loaded, [reference])[0]
    done = regress_file(
        contract, reports, formula, question=question, model=model, reference=named, level=level,
        weight_column=weight_column, cluster_column=cluster_column, report_column=report_column,
        group_column=group_column, format=input_format,
    )  # fmt: skip
    if csv is not None:
        write_csv(csv, done.fit.to_dict()["coefficients"])
    left_out = {"refused": done.refused, "incomplete": done.incomplete}
    if as_json:
        levels = {"levels": [asdict(each) for each in done.levels]}
        print_json({"plan": loaded.hash} | done.fit.to_dict() | levels | left_out)
        return
    reasons = {"refused": "the plan cannot have sent such reports", "incomplete": "a cell is missing"}
    notes = [f"{n:,} rows were left out: {reasons[name]}." for name, n in left_out.items() if n]
    print_regression(out, loaded, done.fit, done.levels, notes)
