"""The file of values: what can be answered, where nothing is known about how often."""

from __future__ import annotations

import csv
from pathlib import Path

from tacit.designs.prior_file import GroupPrior
from tacit.disk import separator_of
from tacit.prior import Prior, clean_name, has_unseen, numbers_if_all


def read_values(path: str | Path) -> list[GroupPrior]:
    """Read one value a line, or the column `value` of a CSV; everybody is one group, and every value as likely.

    The prior is there because plans have one; under LDP nothing depends on it.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = file.read().splitlines() or [""]
            rows = list(csv.reader(lines, delimiter=separator_of(lines[0], ["value"])))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a text in UTF-8: {error}.") from error
    header = [clean_name(cell) for cell in rows[0]] if rows else []
    if "value" in header:
        place = header.index("value")
        if any(len(row) <= place for row in rows[1:] if row):
            raise ValueError(f"{path}: a row has no cell in the column 'value'.")
        texts = [clean_name(row[place]) for row in rows[1:] if row]
    else:
        texts = [clean_name(line) for line in lines]
    texts = [text for text in texts if text]
    if any(map(has_unseen, texts)):
        raise ValueError(
            f"{path}: a name must not hold control characters or marks that turn the direction of reading."
        )
    if len(set(texts)) < max(2, len(texts)):
        raise ValueError(f"{path} needs at least two values, and each once, one in a line or in a column 'value'.")
    return [GroupPrior(name=None, prior=Prior.uniform(numbers_if_all(texts)))]
