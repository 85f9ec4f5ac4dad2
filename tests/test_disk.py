"""What separates cells, what is said where there is no file, and writing without halves."""

from __future__ import annotations

import os
import stat
from io import StringIO

import pytest

from tacit.disk import TextTable, no_file, separator_of, write_text


@pytest.mark.parametrize(
    ("header", "needed", "separator"),
    [
        ("value,count", ["value"], ","),
        ("value;count", ["value"], ";"),
        ("value\tcount", ["value"], "\t"),
        ("value|count", ["value"], "|"),
        ("value", ["value"], ","),
        ("", ["value"], ","),
        # What is needed decides, not what there is most of.
        ("value,rent; cold; warm", ["value"], ","),
        ("value;a,b;c,d,e", ["value"], ";"),
        ('"rent; cold","value"\n', ["value"], ","),
        ('"a, b; c";value\n', ["value", "a, b; c"], ";"),
        (" value ; count \n", ["value"], ";"),
        # Where nothing is needed, or nothing found, the most names.
        ("a;b;c,d", [], ";"),
        ("a;b;c,d", ["other"], ";"),
        ("a,b", ["other"], ","),
    ],
)
def test_a_header_says_what_separates_cells(header: str, needed: list[str], separator: str):
    assert separator_of(header, needed) == separator


def test_quoted_cells_may_hold_what_separates():
    assert TextTable.read(StringIO('value;count\n"a;b";2\n'), ["value"]).rows == ((2, ("a;b", "2")),)


def test_what_is_no_file_is_said(tmp_path):
    (tmp_path / "here").write_text("")
    assert no_file(tmp_path / "here") is None
    assert no_file(tmp_path) == f"{tmp_path} is not a file."
    assert no_file(tmp_path / "nowhere") == f"There is no file {tmp_path / 'nowhere'}."


def test_a_device_a_pipe_and_a_link_stay_what_they_are(tmp_path):
    """The named wrong way is to put a file in their place: as root, `-o /dev/null` would break the machine."""
    pipe, link, real = tmp_path / "pipe", tmp_path / "link", tmp_path / "real"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "for the pipe")
    assert os.read(reader, 100) == b"for the pipe"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    real.write_text("old")
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "real"]
