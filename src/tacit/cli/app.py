"""What all commands share: options, the two consoles, how they fail, what they may write.

Every command prints for people, or JSON with --json. Exit codes: 0 done, 1 check failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import cached_property, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_type_hints

import typer

from tacit.disk import kind_of_json, no_file

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.files import PerturbSummary
    from tacit.personal import PersonalPlan
    from tacit.plan import Plan
    from tacit.show.page import Brand
    from tacit.tally import Tally

_EXTRAS = {
    "randomize": ("cryptography", "numba"),
    "files": ("pyarrow", "duckdb"),
    "xlsx": ("openpyxl",),
    "plot": ("matplotlib",),
    "analysis": ("formulaic", "pandas"),
    "spark": ("pyspark",),
    "serve": ("alembic", "fastapi", "httptools", "prometheus_client", "psycopg", "sqlalchemy", "uvicorn"),
}
#: Loaded where it is asked for, and only then.
SPARK = "tacit.files.spark"


class _LateConsole:
    """A console of rich that is made when it is first written to, so that --help does not wait for it."""

    def __init__(self, *, stderr: bool) -> None:
        self._stderr = stderr

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        # Sentences are as long as the line; the terminal breaks them.
        return Console(stderr=self._stderr, highlight=False, soft_wrap=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._console, name)


out, err = (cast("Console", _LateConsole(stderr=stderr)) for stderr in (False, True))


def escape(text: str) -> str:
    """Text as it is, brackets included."""
    from rich.markup import escape

    return escape(text)


#: What commands raise where an input is wrong or cannot be worked with; anything else is a fault of ours.
_SAID = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError, ModuleNotFoundError)


def tell_failure(error: BaseException) -> int | None:
    """One line on standard error, and the exit code; None where it is a fault of ours."""
    if isinstance(error, KeyboardInterrupt):
        err.print("interrupted; nothing was written")
        return 130
    if isinstance(error, _SAID):
        err.print(f"[red]error:[/red] {escape(message_of(error))}")
        return 2
    return None


def message_of(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        name = str(error.name).partition(".")[0]
        extra = next((extra for extra, packages in _EXTRAS.items() if name in packages), None)
        return f"{error}. Install it: pip install 'tacit-privacy[{extra}]'" if extra else str(error)
    if isinstance(error, FileNotFoundError | IsADirectoryError) and error.filename:
        return no_file(error.filename) or str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    # Python's words for options, in those of the command line.
    words = re.sub(r"pass ([a-z_]+)='(\w+)'", lambda found: f"give --{found[1].replace('_', '-')} {found[2]}", text)
    words = re.sub(r"pass ([a-z_]+)=True", lambda found: f"give --{found[1].replace('_', '-')}", words)
    return " ".join(words.split()) or type(error).__name__


def _spread(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are dataclasses, groups of options, are replaced by their fields. The defaults of
    a group are those of its class, or of the instance that is its default.
    """
    hints = get_type_hints(function, include_extras=True)
    flat: list[Parameter] = []
    groups: dict[str, list[str]] = {}
    for name, each in signature(function).parameters.items():
        kind = hints[name]
        if not is_dataclass(kind):
            flat.append(each.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))
            continue
        types, groups[name] = get_type_hints(kind, include_extras=True), [field.name for field in fields(kind)]
        for field in fields(kind):
            default = Parameter.empty if field.default is MISSING else field.default
            default = default if each.default is Parameter.empty else getattr(each.default, field.name)
            flat.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=types[field.name]))

    @wraps(function)
    def command(**given: Any) -> None:
        grouped = {name: hints[name](**{each: given.pop(each) for each in names}) for name, names in groups.items()}
        function(**given, **grouped)

    command.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    return command


class Commands(typer.Typer):
    """Commands, whose options may come in groups."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        register = super().command(name, **settings)
        return lambda function: register(_spread(function))


#: The commands of the files that were imported so far; `everything.py` lists all.
registered = Commands(rich_markup_mode="rich")
command = registered.command

TaskName = Literal["histogram", "quantiles", "sum", "survey", "weighted-sum"]
DesignName = Literal[
    "auto", "columns", "many-values", "repaired", "without-prior", "subset-selection",
    "projective",
]  # fmt: skip
EngineName = Literal["embedded", "spark"]
FormatName = Literal["csv", "parquet", "jsonl", "arrow"]


def option(*names: str, metavar: str | None = None, help: str, envvar: str | None = None) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, envvar=envvar, show_envvar=False)


_PRIORS = "CSV: value, probability or count; optionally group, epsilon, weight, offset. With --no-prior, values only."
FILES = "A csv, parquet, xlsx, jsonl or arrow file; - for standard input."
_ENGINES = "embedded: this machine. spark: a cluster, for paths that Spark reads; perturb then writes a new folder."
_MASTER = "Where Spark is: spark://HOST:PORT, sc://HOST:PORT for Spark Connect, yarn, local; else as Spark is set up."
_FORMATS = "csv, parquet, jsonl or arrow; else by extension, csv for -."

PriorFile = Annotated[Path, typer.Argument(metavar="PRIORS", help=_PRIORS)]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan that `tacit plan` wrote.")]
Reports = Annotated[str, typer.Argument(metavar="REPORTS", help="Reports or a tally; - for standard input.")]
ReportFile = Annotated[str, typer.Argument(metavar="REPORTS", help=FILES)]
_TASK = option("--task", metavar="TASK", help="histogram, quantiles, sum, survey or weighted-sum.")
TaskOption = Annotated[TaskName, _TASK]
#: Not `TaskOption | None`, of which typer loses the name and the help.
MaybeTask = Annotated[TaskName | None, _TASK]
ValueOption = Annotated[list[str] | None, option("--value", metavar="VALUE", help="Surveyed answer; repeatable.")]
JsonFlag = Annotated[bool, option("--json", help="Print JSON for scripts instead of text.")]
Output = Annotated[str, option("-o", "--output", metavar="FILE", help="File to write; - for standard output.")]
Overwrite = Annotated[bool, option("--overwrite", help="Replace a file that is there and differs.")]
ReportColumn = Annotated[str, option(metavar="NAME", help="Column with the reports.")]
GroupColumn = Annotated[str | None, option(metavar="NAME", help="Column with the group names, else 'group'.")]
WeightColumn = Annotated[str | None, option(metavar="NAME", help="Public weights a of the respondents.")]
OffsetColumn = Annotated[str | None, option(metavar="NAME", help="Public offsets b, for the sum of a·x + b.")]
HtmlFile = Annotated[Path | None, option("--html", metavar="FILE", help="Also write a page with plots, to forward.")]
_ORGANISATION = "Who publishes the page: shown above the title."
Organisation = Annotated[str | None, option(metavar="NAME", help=_ORGANISATION, envvar="TACIT_ORGANISATION")]
_LOGO = "Its logo for the page: a PNG, JPEG, WebP or SVG file."
Logo = Annotated[Path | None, option(metavar="FILE", help=_LOGO, envvar="TACIT_LOGO")]
Engine = Annotated[EngineName, option("--engine", metavar="ENGINE", help=_ENGINES)]
Master = Annotated[str | None, option("--master", metavar="URL", help=_MASTER)]
FileFormat = Annotated[FormatName | None, option(metavar="FORMAT", help=_FORMATS)]


_KEEP = "Public column to keep; repeatable. Refused if it gives the answers away, by its labels or by its order."
_ORDER = (
    "Write reports in the order of the answers, instead of a random one. Who knows how the answers were sorted learns "
    "more than the reports say. Refused if neighbours answer alike."
)
_FORCE = "Write reports even if a kept column, or the kept order, gives the answers away."
KeptColumns = Annotated[list[str] | None, option("--keep", metavar="NAME", help=_KEEP)]
KeepOrder = Annotated[bool, option("--keep-order", help=_ORDER)]
Force = Annotated[bool, option("--force", help=_FORCE)]
_PARTS = "What was crossed to make the groups, in order: region,age for 'north / 18-24'."
_POPULATION = "CSV: size, and the public columns it is by; repeat it to rake over several."
_SCOPE = "Whom intervals are about: the population that respondents stand for (default), or participants."
_SIZE = (
    "How many people the population has: totals are theirs, and intervals shorter the larger the part that answered."
)

ByOption = Annotated[str | None, option("--by", metavar="NAME", help="Public column, group column or group part.")]
GroupParts = Annotated[str | None, option(metavar="NAMES", help=_PARTS)]
PopulationFiles = Annotated[list[Path] | None, option("--population", metavar="FILE", help=_POPULATION)]
PopulationSize = Annotated[float | None, option("--population-size", metavar="N", help=_SIZE)]
ScopeOption = Annotated[Literal["participants", "population"] | None, option("--for", metavar="WHOM", help=_SCOPE)]
LevelOption = Annotated[float, option("--level", metavar="L", help="Level of the intervals, between 0 and 1.")]
_SIMULTANEOUS = "Whether intervals hold for all rows of a table at once; yes if there are more than 20."
SimultaneousOption = Annotated[bool | None, option("--simultaneous/--one-by-one", help=_SIMULTANEOUS)]
CsvFile = Annotated[Path | None, option("--csv", metavar="FILE", help="Also write the table, for a spreadsheet.")]


@dataclass(frozen=True)
class Columns:
    """Where a file of reports has them, and their groups."""

    report_column: ReportColumn = "report"
    group_column: GroupColumn = None
    input_format: FileFormat = None

    def given(self) -> dict[str, Any]:
        """For functions that read such a file."""
        return {"format" if name == "input_format" else name: each for name, each in asdict(self).items()}


@dataclass(frozen=True)
class WeightedColumns(Columns):
    """The same, with what each respondent's answer is multiplied by."""

    weight_column: WeightColumn = None
    offset_column: OffsetColumn = None


@dataclass(frozen=True)
class Cluster:
    """What counts and randomizes."""

    engine: Engine = "embedded"
    master: Master = None

    @contextmanager
    def files(self) -> Iterator[Any]:
        """`perturb_file` and `tally_file` of the engine."""
        if self.engine == "spark":
            with import_module(SPARK).connected(self.master) as files:
                yield files
            return
        if self.master is not None:
            raise ValueError("A master is for --engine spark. Leave --master out, or name the engine.")
        yield import_module("tacit.files")


@dataclass(frozen=True)
class Table:
    """A table that is written beside what is printed."""

    csv: CsvFile = None
    overwrite: Overwrite = False
    as_json: JsonFlag = False

    def check(self, *inputs: str | Path) -> None:
        """Refuse what cannot be written, before the work begins."""
        new_file(self.csv, self.overwrite, *inputs)

    def write(self, rows: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Write the rows, if a file is named."""
        if self.csv is not None:
            from tacit.show.spreadsheet import write_csv

            write_csv(self.csv, rows())


@dataclass(frozen=True)
class Publisher:
    """Who publishes a page."""

    organisation: Organisation = None
    logo: Logo = None

    @property
    def brand(self) -> Brand | None:
        """None if nothing is said."""
        from tacit.show.page import Brand

        return Brand(self.organisation, self.logo) if self.organisation or self.logo else None


@dataclass(frozen=True)
class Findings(Publisher, Table):
    """A table and a page that are written beside what is printed."""

    html: HtmlFile = None

    def check(self, *inputs: str | Path) -> None:
        super().check(*inputs)
        new_file(self.html, self.overwrite, *inputs)


@dataclass(frozen=True)
class Target:
    """The file that a command writes, and how the command says what it did."""

    output: Output
    overwrite: Overwrite = False
    as_json: JsonFlag = False

    @property
    def console(self) -> Console:
        """Where people read what was done: standard output, unless the file goes there."""
        return err if self.output == "-" else out

    def check(self, *inputs: str | Path) -> None:
        """Refuse what cannot be written, or would replace what is read, before the work begins."""
        check_target(self.output, *inputs)

    def keep_plan(self, new: str) -> None:
        """Refuse to replace another plan than the new one, of this hash: reports may depend on it."""
        if not would_replace(self.output, self.overwrite):
            return
        try:
            old = json.loads(Path(self.output).read_text(encoding="utf-8"))["hash"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ValueError(
                f"{self.output} exists and is not a plan. Name another file, or give --overwrite."
            ) from None
        if old != new:
            raise ValueError(
                f"{self.output} holds another plan, {str(old)[:12]}, and reports may depend on it. Name another file, "
                "or give --overwrite."
            )

    def put_plan(self, plan: Plan | PersonalPlan, facts: Mapping[str, Any] | None = None) -> bool:
        """Write a plan, and say so with `facts` as JSON if that is asked for; whether people still have to be told."""
        self.keep_plan(plan.hash)
        if self.output == "-":
            print_json(plan.to_dict())
        else:
            plan.save(self.output)
        if self.as_json:
            print_json({"plan": plan.hash, "file": self.output} | dict(facts or {}), self.console)
        return not self.as_json

    def keep_tally(self, merged: Tally | None = None) -> None:
        """Refuse to replace anything but a tally: counting again is ordinary, and this may be asked before it.

        What was merged does not replace another tally either, whose reports may be nowhere else.
        """
        from tacit.files import load_tally

        if not would_replace(self.output, self.overwrite):
            return
        if not _is_any_tally(self.output):
            raise ValueError(f"{self.output} exists and is not a tally. Name another file, or give --overwrite.")
        if merged is not None and (old := load_tally(self.output)) != merged:
            raise ValueError(
                f"{self.output} holds another tally, of {old.n_reports:,} reports, which may be nowhere else. Name "
                "another file, or give --overwrite."
            )

    def put_tally(self, tally: Any, save: Callable[[Any, str], None], text: str) -> None:
        """Write a tally, of groups or of individual priors, and say so."""
        if self.output == "-":
            typer.echo(json.dumps(tally.to_dict(), ensure_ascii=False))
        else:
            save(tally, self.output)
        if self.as_json:
            facts = {"file": self.output, "plan": tally.plan, "n_reports": tally.n_reports, "refused": tally.refused}
            print_json(facts | {"sources_complete": tally.sources.complete}, self.console)
            return
        wrote = "" if self.output == "-" else f"; wrote {escape(self.output)}"
        self.console.print(f"{tally.n_reports:,} reports {text}, {tally.refused:,} refused{wrote}.")


#: As they are by default: a plan, or a tally, goes to a file, and reports to standard output.
TO_PLAN, TO_TALLY, TO_OUTPUT = Target("plan.json"), Target("tally.json"), Target("-")


COLUMNS, WEIGHTED, CLUSTER = Columns(), WeightedColumns(), Cluster()
TABLE, PUBLISHER, FINDINGS = Table(), Publisher(), Findings()


def names_of(listed: str | None) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in listed.split(",")) if listed else ()


def sides(text: str, mark: str, wrong: str) -> tuple[str, str]:
    """What stands before and behind the last `mark`; `wrong` says what was expected if there is none."""
    before, found, behind = text.rpartition(mark)
    if not found:
        raise ValueError(f"{wrong} Got {text!r}.")
    return before.strip(), behind.strip()


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on standard error, where a person can see it; none beside Spark's own."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal or SPARK in sys.modules) as bar:
        job = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(job, completed=done, total=total)


def print_json(data: Any, to: Console = out) -> None:
    from tacit.show.sentences import json_ready

    to.file.write(json.dumps(json_ready(data), ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def does_not_hold(error: ValueError, as_json: bool) -> typer.Exit:
    """Say why a plan is refused by an audit; the exit to raise."""
    if as_json:
        print_json({"holds": False, "reason": str(error)})
    err.print(f"[red]refused:[/red] {escape(message_of(error))}")
    return typer.Exit(1)


def check_target(path: str | Path, *inputs: str | Path) -> None:
    """Refuse what cannot be written, or would replace what is read, before the work begins."""
    if str(path) == "-":
        return
    if any(str(each) != "-" and Path(each).resolve() == Path(path).resolve() for each in inputs):
        raise ValueError(f"{path} is read by this command, so it cannot be written. Name another file.")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder. Name a file to write.")
    if not Path(path).resolve().parent.is_dir():
        raise ValueError(f"There is no folder {Path(path).parent} to write {Path(path).name} to.")


def would_replace(path: str | Path, overwrite: bool) -> bool:
    """Whether there is a file with content, and --overwrite is not given."""
    return str(path) != "-" and not overwrite and Path(path).is_file() and Path(path).stat().st_size > 0


def new_file(path: str | Path | None, overwrite: bool, *inputs: str | Path) -> None:
    """Refuse what cannot be written, would replace what is read, or any file with content without --overwrite."""
    if path is None:
        return
    check_target(path, *inputs)
    if would_replace(path, overwrite):
        raise ValueError(f"{path} exists. Name another file, or give --overwrite.")


def tell_notes(notes: Iterable[str], console: Console) -> None:
    """Each note once, as a sentence."""
    for note in dict.fromkeys(notes):
        console.print(f"[yellow]note:[/yellow] {escape(note.removesuffix('.'))}.")


def keep_reports(path: str, overwrite: bool) -> None:
    """Refuse to replace reports, or any other file with content, without --overwrite."""
    if would_replace(path, overwrite):
        raise ValueError(
            f"{path} exists. Drawing again, under this name or another, makes a second report of every answer, and two "
            "reveal more than one. Use the existing reports. If they were not given to anyone, give --overwrite; for "
            "answers of other people, name another file."
        )


def warn_of_second_draw(plan: Plan, output: str, reports: int) -> None:
    """Say so if files beside the output have as many reports of the plan, and what two reports of an answer tell."""
    from tacit.files.perturbing import reports_beside

    names = reports_beside(plan.hashes, output, reports)
    ratios = [group.audit.ldp.ratio for group in plan.groups]
    odds = "" if None in ratios else f", odds by up to a factor {float(max(filter(None, ratios)) ** 2):.3g}"
    has = "has" if len(names) == 1 else "have"
    if names:
        err.print(
            f"[bold red]warning:[/bold red] {escape(', '.join(names))} beside it {has} as many reports of this plan. "
            "If they are of the same answers, each person has two reports now, which change beliefs by more than "
            f"ε says{odds}. Delete one of the files before others get both, and count one only."
        )


def tell_perturbed(done: PerturbSummary, to: Target, keep_order: bool, more: Mapping[str, Any] | None = None) -> None:
    """Say how many reports were made, with `more` in JSON; loudly what gives answers away, and what a kept order means,
    unless JSON that says so is on standard error already.
    """
    from tacit.files.giveaway import giveaway_sentence

    console, on_err = to.console, to.as_json and to.console is err
    if to.as_json:
        facts = {"rows": done.rows, "reports": done.reports, "skipped": dict(done.skipped)}
        print_json({"file": to.output} | facts | {"gives_away": done.gives_away} | dict(more or {}), console)
    else:
        why = "; ".join(f"{reason}: {n:,}" for reason, n in done.skipped.items())
        skipped = f"{sum(done.skipped.values()):,} skipped" + (f" ({why})" if why else "")
        console.print(f"{done.reports:,} reports of {done.rows:,} rows, {skipped}.")
        tell_notes(done.notes, console)
    for columns in () if on_err else done.gives_away:
        err.print(f"[bold red]warning:[/bold red] {escape(giveaway_sentence(columns))}")
    if keep_order and not on_err and not done.gives_away:
        err.print(
            "[yellow]note:[/yellow] reports are in the order of the answers. The promise is about each report alone: "
            "who knows how the answers were sorted, or collected, learns more from reports that stand together."
        )


def with_limit(plan: Any, limit: str | None) -> Any:
    """The plan with a limit on what the reports of one person in its series add up to, where one is given."""
    from dataclasses import replace

    from tacit.exact import budget

    return plan if limit is None else replace(plan, limit=budget(limit, "limit"))


def _is_any_tally(path: str) -> bool:
    """Whether a file says that it is a tally, of groups or of individual priors."""
    from tacit.files.tallies import is_tally

    if not path.lower().endswith(".parquet"):
        return (kind_of_json(path) or "").startswith("a tally")
    with suppress(ValueError):
        return is_tally(path)
    return False


def tell_refused(refused: int, why: str = "", *, weighted: bool) -> None:
    """Say how many rows an estimate leaves out, and why there are such."""
    if refused:
        reasons = f"the plan cannot have sent such reports{why}"
        if weighted:
            reasons += ", or their weight or offset is missing or no number of at most 2^53"
        rows = "1 row was" if refused == 1 else f"{refused:,} rows were"
        out.print(f"[yellow]{rows} refused: {reasons}.[/yellow]")
