"""Names of values and groups: when two are the same, and which one was meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches


def clean_name(text: str) -> str:
    """The name in `text` without surrounding blanks, in Unicode normal form C, so that equal names are equal texts.

    >>> clean_name(" cafe\u0301 ") == "café"
    True
    """
    return unicodedata.normalize("NFC", text.strip())


#: What cannot be seen in a name but changes it: control characters, and marks that turn the direction of reading.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def has_unseen(name: str) -> bool:
    """Whether a `name` holds invisible characters: control characters, or marks that change the direction of text.

    >>> has_unseen("no"), has_unseen("no\u202e")
    (False, True)
    """
    return _UNSEEN.search(name) is not None


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The known name, if any, that differs from this one in case, blanks or a typing error."""
    folded = {clean_name(each).casefold(): each for each in known}
    return [folded[each] for each in get_close_matches(clean_name(name).casefold(), folded, 1, 0.75)]


def nearest(name: str, known: Iterable[str]) -> str:
    """A question after the known name that is nearly this one; nothing where none is.

    >>> nearest("regoin", ["age", "Region"]), nearest("value", ["age"])
    (" Did you mean 'Region'?", '')
    """
    found = near_names(name, known)
    return f" Did you mean '{found[0]}'?" if found else ""
