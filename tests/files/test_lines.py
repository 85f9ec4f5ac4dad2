"""One row on one line: stray quotes neither lose rows nor write answers out."""

import csv
import io

import pytest

from tacit import Prior, Survey, make_plan
from tacit.files import InputError, perturb_file, tally_file
from tacit.files.reading import CountedLines

PLAN = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
ROWS = [("yes" if k % 5 == 0 else "no", f"r{k % 3}", "nothing") for k in range(3_000)]


def written(rows, end="\n", quoting=csv.QUOTE_MINIMAL):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end, quoting=quoting)
    writer.writerows([("value", "region", "remark"), *rows])
    return text.getvalue()


STRAY = {
    "a quote that nobody closes": {1_000: 'no,"r1,nothing'},
    "a cell of one quote": {1_000: 'no,",nothing'},
    "two stray quotes": {1_000: 'no,"r1,nothing', 2_000: 'no,"r1,nothing'},
    "a quote in a column that nobody reads": {1_000: 'no,r1,"nothing'},
    "two of those": {1_000: 'no,r1,"nothing', 2_000: 'no,r1,"'},
    "a quote before the answer": {1_000: '"no,r1,nothing'},
    "in the last row": {2_999: 'no,"r1,nothing', 3_000: 'no,r1,"nothing'},
}


@pytest.mark.parametrize("keep", [(), ("region",)])
@pytest.mark.parametrize("name", STRAY)
def test_stray_quotes_are_refused_and_nothing_is_written(tmp_path, name, keep):
    lines = written(ROWS).splitlines()
    for row, line in STRAY[name].items():
        lines[row] = line
    source, target = tmp_path / "answers.csv", tmp_path / "reports.csv"
    source.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as refused:
        perturb_file(PLAN, source, target, keep=keep, on_unknown="skip")
    assert not target.exists()
    assert "nothing" not in str(refused.value)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_quotes_that_are_closed_are_read(tmp_path, end, quoting):
    rows = [(value, f'{region}, "north"', remark) for value, region, remark in ROWS]
    source, target = tmp_path / "answers.csv", tmp_path / "reports.csv"
    # Without the last line end, which a file need not have.
    source.write_bytes(written(rows, end, quoting).rstrip().encode())
    assert perturb_file(PLAN, source, target, keep=["region"]).reports == len(rows)
    assert tally_file(PLAN, target).n_reports == len(rows)


def test_a_quote_inside_a_cell_is_a_letter(tmp_path):
    source = tmp_path / "answers.csv"
    source.write_text('value,region\nyes,5" north\nno,south\n')
    assert perturb_file(PLAN, source, tmp_path / "reports.csv", keep=["region"]).reports == 2


def test_line_ends_of_carriage_returns_alone_are_named(tmp_path):
    source = tmp_path / "answers.csv"
    source.write_bytes(b"value,region\ryes,north\rno,south\r")
    with pytest.raises(InputError, match="carriage returns alone"):
        perturb_file(PLAN, source, tmp_path / "reports.csv")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_counted_however_they_are_read(size):
    text = b'\n\na,"b"\r\n\r\n\nc,d\ne\n\nf'
    count = CountedLines()
    assert b"".join(count(text[start : start + size]) for start in range(0, len(text) + 1, size)) == text
    assert (count.lines, count.quotes) == (4, True)
