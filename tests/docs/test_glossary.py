"""The glossary: sorted, without repetition, and every name in it exists where it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.cli.everything import FILES, command_of

from support.places import ROOT
from support.public import resolve

PAGE = ROOT / "docs" / "glossary.md"
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
][1:]
#: Where the names in files, options and requests are described: pages, and the help of the commands.
PAGES = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("reference.md", "plan.md", "service.md")]


def helps() -> str:
    """Every command and option with its help."""
    commands = [command_of(name) for name in FILES]
    commands += [each for command in commands for each in getattr(command, "commands", {}).values()]
    return " ".join(
        text
        for command in commands
        for param in command.params
        for text in (*param.opts, *param.secondary_opts, param.help or "")
    )


DESCRIPTIONS = " ".join([*PAGES, helps()])


def test_the_terms_are_sorted_and_each_is_there_once():
    terms = [row[0].casefold() for row in ROWS]
    assert terms == sorted(set(terms))


def test_there_are_few_terms():
    assert len(ROWS) <= 90


def test_every_term_has_one_plain_sentence():
    for term, meaning, *_ in ROWS:
        assert re.fullmatch(r"[A-Z].*[^.]\.", meaning), term
        assert ". " not in meaning, term


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_name_exists(row: list[str]):
    _, _, python, others = row
    for name in re.findall(r"`([^`]+)`", python):
        resolve(name)
    for name in re.findall(r"`([^`]+)`", others):
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", DESCRIPTIONS), name


def test_every_link_leads_somewhere():
    for link in re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8")):
        assert Path(PAGE.parent, link).is_file(), link
