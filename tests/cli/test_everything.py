"""The list of commands: it is what the files register, and help, completion and corrections need nothing but it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tacit.cli import everything
from tacit.cli.everything import SECTIONS, command_of

LISTED = {name: about for section in SECTIONS.values() for name, about in section.items()}
#: Runs `tacit` with the words that follow, and says which of its modules and of what it rests on were imported.
IMPORTED = """
import sys
from tacit.__main__ import main
try:
    main()
except SystemExit:
    pass
print("imported:", *(name for name in sys.modules if name.startswith("tacit.") or name in ("rich", "numpy", "json")))
"""


def said(*words: str, **environment: str) -> str:
    ran = CliRunner().invoke(everything.app, list(words), env=environment)
    return ran.stdout + ran.stderr


def imported_by(*words: str) -> set[str]:
    ran = subprocess.run([sys.executable, "-c", IMPORTED, *words], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("name", LISTED)
def test_the_list_says_what_the_file_registers(name: str):
    file, line = LISTED[name]
    command = command_of(name)
    assert (command.name, command.hidden) == (name, False)
    sentence = re.match(r".*?\.(?=\s|$)", command.help or "", re.DOTALL)
    assert sentence
    assert " ".join(sentence[0].split()) == line
    callback = command.callback
    assert callback is None or callback.__module__ == f"tacit.cli.{file}"


def test_every_registered_command_is_listed():
    from tacit.cli.app import registered

    for name in LISTED:
        command_of(name)
    known = [info.name for info in (*registered.registered_commands, *registered.registered_groups)]
    assert sorted(known) == sorted(LISTED)


def test_help_begins_with_the_four_steps_and_every_line_is_whole():
    text = said("--help", COLUMNS="80")
    named = re.findall(r"^  ([a-z][a-z-]*)  +\S", text, re.MULTILINE)
    assert named == list(LISTED)
    assert named[:4] == ["plan", "perturb", "tally", "estimate"]
    for name, (_, line) in LISTED.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", text, re.MULTILINE)
    assert said(COLUMNS="80") == text


def test_help_imports_no_command_and_a_command_its_own_file_only():
    assert imported_by("--help") == {"tacit.__main__", "tacit.cli", "tacit.cli.everything"}
    mine = {name for name in imported_by("audit", "--help") if name.startswith("tacit.cli.")}
    assert mine == {"tacit.cli.everything", "tacit.cli.app", "tacit.cli.plans"}


def test_a_mistyped_command_is_corrected_and_the_version_told():
    assert "Did you mean 'estimate'?" in said("estmate")
    assert re.fullmatch(r"tacit \d+\.\d+\.\d+\S*\n", said("--version"))


@pytest.mark.parametrize(
    ("line", "offered"), [("tacit pe", ["perturb", "personal"]), ("tacit estimate --est", ["--estimator"])]
)
def test_shells_complete_commands_and_their_options(line: str, offered: list[str]):
    environment = os.environ | {"_TACIT_COMPLETE": "complete_bash", "COMP_WORDS": line}
    environment["COMP_CWORD"] = str(len(line.split()) - 1)
    code = "from tacit.__main__ import main; import sys; sys.argv = ['tacit']; main()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert ran.stdout.split() == offered
