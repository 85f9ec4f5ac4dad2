"""Public results: they change in steps, so that single reports cannot be watched as they come in.

Each group's part of the tally is published when it has `publish_every` reports more than when it was last published,
first at as many. Someone who looks all the time sees differences of that many reports of one group or more, and never a
smaller one, also not across processes: what was published is in the database, and all of it is one chain.
"""

from __future__ import annotations

import json
import math
import zlib
from datetime import date

import sqlalchemy as sa

from tacit.plan import AnyPlan
from tacit.server.storage import schema
from tacit.server.storage.store import Store, Survey
from tacit.tally import Tally


def published(store: Store, survey: Survey, plan: AnyPlan) -> list[tuple[date, Tally]]:
    """What was last published on each day; publishes now what is due."""
    days = _read(store, survey.id)
    last = days[-1][1] if days else Tally(plan.hash, {})
    if _due(survey, plan, _n_reports(store, survey.id, plan), last):
        _publish(store, survey, plan)
        days = _read(store, survey.id)
    return days


def publication(store: Store, survey: Survey, plan: AnyPlan) -> tuple[tuple[date, int], ...]:
    """On which days how many reports were published; publishes now what is due. Reads one tally at most."""
    table = schema.published
    mine = sa.select(table.c.day, table.c.n_reports).where(table.c.survey == survey.id).order_by(table.c.day)
    newest = sa.select(table.c.tally).where(table.c.survey == survey.id).order_by(table.c.day.desc()).limit(1)
    with store.database.reading.connect() as connection:
        packed = connection.scalar(newest)
    last = Tally(plan.hash, {}) if packed is None else _unpacked(bytes(packed))
    if _due(survey, plan, _n_reports(store, survey.id, plan), last):
        _publish(store, survey, plan)
    with store.database.reading.connect() as connection:
        return tuple((row.day, row.n_reports) for row in connection.execute(mine))


def _publish(store: Store, survey: Survey, plan: AnyPlan) -> None:
    live, table = store.tally(survey.id, plan), schema.published
    with store.database.writing.begin() as connection:
        # One after the other, so that each step starts at the one before.
        connection.execute(sa.select(schema.surveys.c.id).where(schema.surveys.c.id == survey.id).with_for_update())
        mine = sa.select(table.c.day, table.c.tally).where(table.c.survey == survey.id)
        rows = connection.execute(mine.order_by(table.c.day.desc()).limit(1)).all()
        last = _unpacked(bytes(rows[0].tally)) if rows else Tally(plan.hash, {})
        counts = {name: tally.total for name, tally in live.groups.items()}
        due = _due(survey, plan, counts, last)
        if not due:
            return
        groups = dict(last.groups) | {name: live.groups[name] for name in due}
        tally = Tally(plan.hash, groups, live.refused)
        # Never on a day before the last: after a clock was set back, that day would stay the last, and old.
        day = max([store.today(), *(row.day for row in rows[-1:])])
        here = (table.c.survey == survey.id) & (table.c.day == day)
        connection.execute(sa.delete(table).where(here))
        row = {"survey": survey.id, "day": day, "n_reports": tally.n_reports, "tally": _packed(tally)}
        connection.execute(sa.insert(table), row)


def _due(survey: Survey, plan: AnyPlan, counts: dict[str | None, int], last: Tally) -> list[str | None]:
    """The groups with enough new reports."""
    before = {name: tally.total for name, tally in last.groups.items()}
    names = [group.name for group in plan.groups]
    return [name for name in names if counts.get(name, 0) - before.get(name, 0) >= survey.publish_every]


def _n_reports(store: Store, name: str, plan: AnyPlan) -> dict[str | None, int]:
    sums: dict[str | None, int] = {}
    for day in store.totals(name).values():
        for k, n in day.items():
            name_of_group = plan.groups[k % len(plan.groups)].name
            sums[name_of_group] = sums.get(name_of_group, 0) + n
    return sums


def _read(store: Store, name: str) -> list[tuple[date, Tally]]:
    table = schema.published
    query = sa.select(table.c.day, table.c.tally).where(table.c.survey == name).order_by(table.c.day)
    with store.database.reading.connect() as connection:
        return [(row.day, _unpacked(bytes(row.tally))) for row in connection.execute(query)]


def _packed(tally: Tally) -> bytes:
    return zlib.compress(json.dumps(tally.to_dict()).encode())


def _unpacked(data: bytes) -> Tally:
    return Tally.from_dict(json.loads(zlib.decompress(data)))


def central_epsilon(epsilon: float, step: int, delta: float) -> float:
    """The ε of differential privacy, with δ, that steps of `step` reports give each of them in a group whose mechanism
    is ε-LDP: amplification by shuffling (Feldman, McMillan and Talwar, FOCS 2021, Theorem 3.1),

        ln(1 + (e^ε − 1)/(e^ε + 1) · (8 √(e^ε ln(4/δ)) / √n + 8 e^ε / n)),   for ε ≤ ln(n / (16 ln(2/δ))),

    with n = `step`, for somebody who sees published results and no single report. Below that n it claims nothing more
    than the ε of the device.

    >>> round(central_epsilon(1.0, 20, 1e-6), 2), round(central_epsilon(1.0, 10_000, 1e-6), 2)
    (1.0, 0.21)
    """
    if step < 16 * math.log(2 / delta) * math.exp(epsilon):
        return epsilon
    growth = math.exp(epsilon)
    spread = 8 * math.sqrt(growth * math.log(4 / delta) / step) + 8 * growth / step
    return min(epsilon, math.log1p((growth - 1) / (growth + 1) * spread))
