"""What separates cells, and what is said where there is no file."""

from __future__ import annotations

from io import StringIO

import pytest

from tacit.disk import csv_records, no_file, separator_of


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
    assert list(csv_records(StringIO('value;count\n"a;b";2\n'), ["value"])) == [{"value": "a;b", "count": "2"}]


def test_what_is_no_file_is_said(tmp_path):
    (tmp_path / "here").write_text("")
    assert no_file(tmp_path / "here") is None
    assert no_file(tmp_path) == f"{tmp_path} is not a file."
    assert no_file(tmp_path / "nowhere") == f"There is no file {tmp_path / 'nowhere'}."
