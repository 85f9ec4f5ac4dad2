"""The whole command: the list of all commands, each imported from its file when it is asked for, and only then.

`tacit --help` is written from the list alone, so it waits for typer and nothing else. A test compares the list with
what the files register.
"""

from __future__ import annotations

import shlex
from copy import copy
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

import tacit

#: By section, in the order of work: a command's name, the file of this room that it is in, and what it does.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "The four steps": {
        "plan": ("plans", "Design the randomizer, prove its promise, write the plan."),
        "perturb": ("collecting", "Randomize answers with secure random bits."),
        "tally": ("collecting", "Count reports per group, into a .json or .parquet file."),
        "estimate": ("estimating", "Estimate the total, with intervals, and check the prior."),
    },
    "Before asking": {
        "priors": ("priors", "Count answers of the past, group by group, into a prior file."),
        "compare": ("priors", "Compare the error of LIP, LDP and the published form, by ε."),
        "audit": ("plans", "Verify a plan again, in exact integers, and explain it."),
        "sheet": ("plans", "Write a page for the ethics board and the privacy officer."),
        "channel": ("plans", "Print the numbers that devices use: Pr(report | answer)."),
    },
    "Again next year": {
        "next": ("further_plans", "Plan the next wave from this wave's reports."),
        "edit": ("further_plans", "Correct the words of a plan that is in use."),
    },
    "More from reports": {
        "merge": ("collecting", "Merge tallies of the same plan."),
        "crosstab": ("estimating", "Estimate the table of two questions, with intervals."),
        "difference": ("estimating", "Compare shares or means: groups, rounds, or with the prior."),
        "regress": ("estimating", "Regress the answer on public columns, with robust errors."),
        "export": ("estimating", "Write pseudo-values of reports, for R, Stata or statsmodels."),
        "compliance": ("estimating", "Estimate from two arms how many did not follow the rule."),
    },
    "Asking in browsers": {
        "serve": ("serve", "Run the collection service; back it up; give out tokens."),
        "page": ("serve", "Write a survey's page as one file."),
        "verify-page": ("serve", "Check that a service serves what Tacit publishes."),
    },
    "Other data, other priors": {
        "adopt": ("further_plans", "Make a plan from the design of others, to read their data."),
        "personal": ("personal", "Individual priors: each record brings its own."),
    },
    "To learn": {
        "demo": ("demo", "See all of it once: a survey of simulated people."),
    },
}
FILES = {name: file for section in SECTIONS.values() for name, (file, _) in section.items()}


@cache
def command_of(name: str) -> TyperCommand | TyperGroup:
    """A command as its file registers it."""
    from tacit.cli.app import registered

    import_module(f"tacit.cli.{FILES[name]}")
    # The others that are registered, with dozens of options, need not be made ready.
    asked = copy(registered)
    asked.registered_commands = [each for each in registered.registered_commands if each.name == name]
    asked.registered_groups = [each for each in registered.registered_groups if each.name == name]
    return typer.main.get_group(asked).commands[name]  # type: ignore[return-value]


class _Everything(TyperGroup):
    """Lists commands without their files, and lets all fail in the same way: one clear line and an exit code."""

    #: The words after `tacit`, for pages that say how they were made.
    words: ClassVar[list[str]] = []

    def __init__(self, **settings: Any) -> None:
        listed = {
            name: TyperCommand(name, short_help=line)
            for section in SECTIONS.values()
            for name, (_, line) in section.items()
        }
        super().__init__(**settings | {"commands": listed})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The listed command gives way to the one of its file."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if listed is None or name is None else command_of(name), rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of commands comes at once, as plain text; the help of each is rich."""
        mode, self.rich_markup_mode = self.rich_markup_mode, None
        super().format_help(ctx, formatter)
        self.rich_markup_mode = mode

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, FILES))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in section.items()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _Everything.words = list(args)
        # Typer's own way for no words at all leaves help to rich, which this one is not written with.
        return super().parse_args(ctx, args if args or ctx.resilient_parsing else ["--help"])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            from tacit.cli.app import tell_failure

            code = tell_failure(error)
            if code is None:
                raise
            raise typer.Exit(code) from error


def typed() -> str:
    """The command as it was typed."""
    return shlex.join(["tacit", *_Everything.words])


app = typer.Typer(
    cls=_Everything,
    help="Ask a crowd, learn the total, never the person.\n\n"
    "Four steps: plan (once), perturb (on each device), tally (where reports arrive), estimate.",
    epilog="Start with: tacit demo",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacit {tacit.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass
