"""Real data for the figures: the files beside the project, or the original public ones, by path or downloaded.

Each loader takes one path and reads either form, told apart by the file's ending. `find` looks a file up in the data
directory and says how to get it where it is missing. Nothing is downloaded unless `download` is called with the
checksum that the caller expects.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from studies.figure import DataMissingError, Options
from tacit.disk import atomic
from tacit.exact import Floats, Integers

Texts = NDArray[np.str_]

#: Where the data is looked for unless the options name a directory.
DEFAULT_DATA = Path("../shared/data")

#: The names that each data set may have, the original public file first, and where that one comes from.
SOURCES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "kosarak": (
        ("kosarak.dat", "kosarak.dat.gz", "kosarak_item_counts.csv"),
        "the FIMI repository, http://fimi.uantwerpen.be/data/kosarak.dat.gz",
    ),
    "gowalla": (
        ("loc-gowalla_totalCheckins.txt", "loc-gowalla_totalCheckins.txt.gz", "gowalla_nyc_checkins.parquet"),
        "SNAP, https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
    ),
    "gowalla world": (
        ("loc-gowalla_totalCheckins.txt", "loc-gowalla_totalCheckins.txt.gz", "gowalla_1000users_checkins.parquet"),
        "SNAP, https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
    ),
    "heart": (
        ("heart_2020_cleaned.csv", "brfss2020_heart.parquet"),
        "the CDC's BRFSS 2020 as cleaned in 'Personal Key Indicators of Heart Disease' (heart_2020_cleaned.csv)",
    ),
    "diabetes": (
        ("brfss2015_diabetes_by_age.csv",),
        "the CDC's BRFSS 2015, counted by age: columns age, yes (told that they have diabetes) and all",
    ),
    "adult": (
        ("adult.data", "uci_adult.parquet"),
        "UCI, https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.data",
    ),
}

_ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
_HEART_COLUMNS = ("HeartDisease", "AgeCategory", "Sex", "GenHealth", "Diabetic", "Smoking")


@dataclass(frozen=True, eq=False)
class Clicks:
    """How often each page was clicked."""

    pages: Integers
    counts: Integers


@dataclass(frozen=True, eq=False)
class Checkins:
    """Check-ins in the order of users and, within a user, of time; `time` is in seconds since 1970, UTC.

    `repeated` is how many rows were left out because an equal one was there already.
    """

    user: Integers
    time: Integers
    latitude: Floats
    longitude: Floats
    place: Integers
    repeated: int = 0

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True, eq=False)
class Heart:
    """One row per respondent of the heart disease survey."""

    disease: NDArray[np.bool_]
    age: Texts
    sex: Texts
    health: Texts
    diabetes: NDArray[np.bool_]
    smokes: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Adult:
    """One row per person of the census extract."""

    hours: Integers
    education: Texts


def find(name: str, options: Options) -> Path:
    """The file of a data set in the data directory, the original public file before the prepared one."""
    names, source = SOURCES[name]
    directory = options.data if options.data is not None else DEFAULT_DATA
    for candidate in names:
        if (directory / candidate).is_file():
            return directory / candidate
    raise DataMissingError(
        f"No data for '{name}': expected one of {', '.join(names)} in {directory}. Get it from {source}, and name its "
        "directory with --data; studies.loaders.download fetches a file whose SHA-256 you know."
    )


def download(url: str, sha256: str, target: str | Path, timeout: float = 60.0) -> Path:
    """Fetch `url` to `target` if its SHA-256 is the one given; otherwise raise and leave what was there before."""
    path, wanted = Path(target), sha256.lower()
    if len(wanted) != 64 or set(wanted) - set("0123456789abcdef"):
        raise ValueError(f"The 'sha256' parameter must be 64 hexadecimal digits. Got {sha256!r} instead.")
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"The 'url' parameter must start with http:// or https://. Got {url!r} instead.")
    digest = hashlib.sha256()
    with urlopen(Request(url), timeout=timeout) as answer, atomic(path) as draft:
        with open(draft, "wb") as file:
            while block := answer.read(1 << 20):
                digest.update(block)
                file.write(block)
        if digest.hexdigest() != wanted:
            raise ValueError(f"{url}: the SHA-256 must be {wanted}. Got {digest.hexdigest()}; the file is not kept.")
    return path


def load_clicks(path: Path) -> Clicks:
    """Clicks per page: a CSV of item_id and count, or FIMI transactions, one per line, item ids between spaces."""
    if path.suffix == ".csv":
        with open(path, newline="", encoding="utf-8") as file:
            rows = [(int(row["item_id"]), int(row["count"])) for row in csv.DictReader(file)]
        table = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return Clicks(table[:, 0], table[:, 1])
    try:
        items = np.array(_bytes(path).split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path}: transactions must be item ids between spaces ({error}).") from None
    pages, counts = np.unique(items, return_counts=True)
    return Clicks(pages, counts.astype(np.int64))


def load_checkins(path: Path) -> Checkins:
    """Check-ins without exact repetitions: a Parquet file, or SNAP's user, ISO time, latitude, longitude, place."""
    table = _checkin_table(path)
    place = "loc_id" if "loc_id" in table.column_names else "poi"
    seconds = table["time"].to_numpy().astype("datetime64[s]").astype(np.int64)
    columns = [table["user"].to_numpy(), seconds, *(table[name].to_numpy() for name in ("lat", "lon", place))]
    # By user and time first; rows that are equal in all columns then stand together.
    order = np.lexsort(columns[::-1])
    columns = [column[order] for column in columns]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    user, time, latitude, longitude, places = (column[fresh] for column in columns)
    return Checkins(user, time, latitude, longitude, places, repeated=int((~fresh).sum()))


def load_heart(path: Path) -> Heart:
    """The heart disease survey: a Parquet file, or the cleaned CSV with the same column names."""
    columns = _columns(path, _HEART_COLUMNS)
    told = ("AgeCategory", "Sex", "GenHealth")
    said = (columns[name] == "Yes" for name in ("Diabetic", "Smoking"))
    return Heart(columns["HeartDisease"] == "Yes", *(columns[name] for name in told), *said)


def load_diabetes(path: Path) -> dict[str, tuple[int, int]]:
    """By age, how many were told that they have diabetes, of how many: a CSV of age, yes and all."""
    with open(path, newline="", encoding="utf-8") as file:
        return {row["age"]: (int(row["yes"]), int(row["all"])) for row in csv.DictReader(file)}


def load_adult(path: Path) -> Adult:
    """The census extract: a Parquet file, or UCI's adult.data (or adult.test), comma separated and without a header."""
    if path.suffix == ".parquet":
        columns = _columns(path, ("hours_per_week", "education"))
        return Adult(columns["hours_per_week"].astype(np.int64), columns["education"])
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if row and not row[0].startswith("|")]
    if wrong := [row for row in rows if len(row) != len(_ADULT_COLUMNS)]:
        raise ValueError(f"{path}: a row must have {len(_ADULT_COLUMNS)} fields. Got one with {len(wrong[0])}.")
    hours, education = (_ADULT_COLUMNS.index(name) for name in ("hours_per_week", "education"))
    return Adult(np.array([int(row[hours]) for row in rows]), np.array([row[education] for row in rows]))


def _bytes(path: Path) -> bytes:
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            return file.read()
    return path.read_bytes()


def _checkin_table(path: Path) -> Any:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path)
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = {"user": pa.int64(), "time": pa.timestamp("us", "UTC"), "lat": pa.float64(), "lon": pa.float64()}
    return arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(column_names=[*types, "loc_id"]),
        parse_options=arrow_csv.ParseOptions(delimiter="\t"),
        convert_options=arrow_csv.ConvertOptions(column_types={**types, "loc_id": pa.int64()}),
    )


def _columns(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """The named columns of a Parquet file or of a CSV with a header, as arrays."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path, columns=list(names))
    else:
        from pyarrow import csv as arrow_csv

        options = arrow_csv.ConvertOptions(include_columns=list(names))
        table = arrow_csv.read_csv(path, convert_options=options)
    return {name: np.array(table[name].to_pylist()) for name in names}
