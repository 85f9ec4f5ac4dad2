"""The command in this process: what it printed, each run of blanks as one, and whether it was done or refused."""

from __future__ import annotations

from typer.testing import CliRunner

from tacit.cli.everything import app


def run(*words: object) -> tuple[int, str, str]:
    """The exit code, what people read, and what was said beside it; a fault of ours is raised."""
    ran = CliRunner().invoke(app, [str(word) for word in words])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), repr(ran.exception)
    return ran.exit_code, " ".join(ran.stdout.split()), " ".join(ran.stderr.split())


def done(*words: object) -> str:
    """What a command printed that must have worked."""
    code, out, err = run(*words)
    assert code == 0, err
    return out


def refused(*words: object) -> str:
    """The sentence of a command that must have refused its input."""
    code, _, err = run(*words)
    assert code == 2, err
    return err.removeprefix("error: ")
