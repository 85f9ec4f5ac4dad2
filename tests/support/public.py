"""What a dotted name stands for."""

from __future__ import annotations

from dataclasses import is_dataclass
from importlib import import_module
from typing import Any


def resolve(name: str) -> Any:
    """The module, class, function or attribute of that name, such as `tacit.plan.Plan.values`; raises if there is none.

    A field of a dataclass has no value on its class: it stands for its annotation.
    """
    first, *rest = name.split(".")
    found: Any = import_module(first)
    for part in rest:
        if is_dataclass(found) and part in found.__dataclass_fields__:
            found = found.__dataclass_fields__[part]
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            found = import_module(f"{found.__name__}.{part}")
    return found
