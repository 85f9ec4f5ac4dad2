"""Folders that Spark wrote, read on one machine: which files one has, and whether it is complete."""

from __future__ import annotations

from pathlib import Path

from tacit.files.columns import InputError

#: What Spark puts beside the files of a job that is done, and of one that is not.
DONE, UNDONE = "_SUCCESS", "_temporary"


def parts_of(folder: str | Path) -> list[Path]:
    """The Parquet files of a complete folder, in the order of their names."""
    inside = sorted(Path(folder).iterdir())
    names = {path.name for path in inside}
    if UNDONE in names:
        raise InputError(still_written(folder))
    shown = [path for path in inside if not path.name.startswith((".", "_"))]
    if any(path.is_dir() for path in shown):
        raise InputError(f"{folder} has folders in it. Read it with --engine spark, or name files in them one by one.")
    parts = [path for path in shown if path.suffix == ".parquet"]
    if DONE not in names or not parts:
        raise InputError(
            f"{folder} is a folder, and not a complete one of Parquet files that Spark wrote, which has a file "
            f"'{DONE}'. Write it again, or name its files one by one."
        )
    return parts


def still_written(folder: str | Path) -> str:
    """What to say of a folder that somebody is writing to, or was stopped while writing."""
    return (
        f"{folder} has a folder '{UNDONE}': the run that writes it is not done, or was stopped. "
        "Write it again, to a new folder."
    )
