"""What the service does behind its routes: surveys, submissions, invitations and results, for the event loop.

A refusal says its HTTP status here; requests, who may ask and how often are the business of `app` and `intake`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import cached_property, partial
from typing import Any, TypeVar

from tacit.estimates import Estimator, NotEstimableError, QuestionView, views_of
from tacit.plan import Plan
from tacit.server import invitations
from tacit.server.http import batches
from tacit.server.http.messages import SURVEY_ID, Change, NewSurvey, Report
from tacit.server.problems import BusyError, Refusal
from tacit.server.results.results import Results, crosstab_facts
from tacit.server.site.published import Page
from tacit.server.storage.counting import fold_groups
from tacit.server.storage.store import Outcome, Redemption, Store, Submission, Survey, check_served, survey_id
from tacit.server.storage.writer import PATIENCE, Writer, resolve

#: Plans that are kept ready; a plan of 100,000 values takes about 100 MB.
_READY_PLANS = 64
#: Seconds of erasing tags in a request; seconds between the first look at an ended survey and its closing; and seconds
#: by which a clock that was not set may differ from a steady one in that time.
_ERASING, _CONFIRMED, _SET = 3.0, 3600.0, 120.0
#: Blinded messages that are signed in a turn.
_TURN = 16
#: Bytes of public results that are kept ready.
_PAGES_BYTES = 2**26
T = TypeVar("T")
_UNREDEEMED = {
    "spent": "This invitation was used before.",
    "revoked": "This invitation was revoked.",
}
_NAME = re.compile(SURVEY_ID["pattern"])


class ReadySurvey:
    """What never changes about a survey, ready to check submissions: its plan, and who may take part."""

    def __init__(self, survey: Survey) -> None:
        self.id, self.life = survey.id, survey.life
        self.plan = Plan.from_dict(json.loads(survey.plan))
        self.secret = survey.invitation_secret
        self.credentials = None if survey.credential_key is None else invitations.CredentialKey(survey.credential_key)
        # Done here, before a report waits for it: the first fold of a process compiles.
        self.folds = fold_groups(self.plan)

    def inviting(self) -> tuple[bytes, invitations.CredentialKey]:
        """What signs invitations, and what they are exchanged for."""
        if self.secret is None or self.credentials is None:
            raise Refusal(409, "This survey is open to everybody; it has no invitations.")
        return self.secret, self.credentials

    def submission(self, message: Report) -> Submission:
        """A message as a submission, if the plan can have sent it and its sender may take part."""
        if message.plan is not None and message.plan not in self.plan.hashes:
            raise Refusal(422, "This report was made with another plan.")
        place = self.plan.counted_as.get((message.group, message.block))
        if place is None:
            raise Refusal(422, self._elsewhere(message))
        if not self.plan.groups[place].mechanism.can_send(message.report):
            raise Refusal(422, "The plan cannot have sent this report.")
        if self.credentials is not None and not self.credentials.verifies(message.key, message.credential):
            raise Refusal(403, "This survey counts reports of invited people. The credential is missing or wrong.")
        place += self._cell(message) * len(self.plan.groups)
        return Submission(self.id, message.key, ((place, message.report, 1),), folds=self.folds, life=self.life)

    def _cell(self, message: Report) -> int:
        """The number of the combination of public answers; 0 where no question is public."""
        names, given = self.plan.public_questions, message.public or {}
        cell = self.plan.public_cells.get(tuple(given.get(name, "") for name in names))
        if cell is None or given.keys() != set(names):
            asked = f"one of the answers to each of: {', '.join(names)}" if names else "no public answers"
            raise Refusal(422, f"The plan takes {asked}.")
        return cell

    def _elsewhere(self, message: Report) -> str:
        """Why the plan has no place for a report: its group, or its block."""
        groups, blocks = ({place[k] for place in self.plan.counted_as} for k in (0, 1))
        if message.group not in groups:
            return "The plan does not have this group."
        if None in blocks:
            return "The plan asks one question, so a report has no block."
        return f"The plan has {len(blocks)} blocks of questions. Say which of them, from 1, the report is about."

    @cached_property
    def views(self) -> tuple[QuestionView, ...]:
        """Each question of the plan, to be estimated."""
        return views_of(self.plan)

    def view(self, question: str | None) -> QuestionView:
        """The question of that name; without a name the only one."""
        for view in self.views:
            if view.question.name == question or (question is None and len(self.views) == 1):
                return view
        raise Refusal(422, f"Name one of the questions: {', '.join(view.question.name for view in self.views)}.")

    @cached_property
    def estimators(self) -> list[Estimator]:
        """The estimators that the reports on every question allow."""
        first, *others = (view.estimators for view in self.views)
        return [name for name in first if all(name in other for other in others)]

    @cached_property
    def plan_page(self) -> Page:
        """The plan, as pages and clients get it."""
        return Page(json.dumps(self.plan.to_dict(), ensure_ascii=False).encode(), "application/json")


PageMaker = Callable[[dict[str, Any]], Page]


class Collector:
    """What the routes ask for. Whatever blocks, runs in a thread, and all writing in the one of the writer."""

    #: Seconds for which public results are shown without a look whether there are newer ones.
    fresh = 1.0

    def __init__(self, store: Store, committed: Callable[[int, float], Any] = lambda size, seconds: None) -> None:
        self.store = store
        self.writer = Writer(store, committed)
        self._results = Results(store)
        self._estimating, self._publishing = asyncio.Lock(), asyncio.Lock()
        self._pages: OrderedDict[tuple[Any, ...], tuple[float, tuple[Any, ...], Page]] = OrderedDict()
        self._ready: OrderedDict[str, ReadySurvey] = OrderedDict()
        self._making: dict[str, asyncio.Future[ReadySurvey]] = {}
        self._ending, self._signing = Ending(), Signing()

    async def ask(self, work: Callable[..., T], *words: Any) -> T:
        """Ask the database, in a thread; not for ever."""
        thread: list[int] = []

        def working() -> T:
            thread.append(threading.get_ident())
            return work(*words)

        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.to_thread(working)
        except TimeoutError as error:
            if thread:
                self.store.database.give_up(thread[0])
            raise BusyError(f"The database took longer than {PATIENCE:g} seconds.") from error

    async def known(self, name: str) -> ReadySurvey:
        """A survey's unchanging part, as this process knows it. Another process may have deleted the survey: what is
        written by it says so (`Outcome`, "another"). However many ask for it first, it is made once.
        """
        known = self._ready.get(name)
        if known is None:
            return await self._ready_for(await self.survey(name))
        self._ready.move_to_end(name)
        return known

    async def ready(self, name: str) -> ReadySurvey:
        """The unchanging part of the survey that now has this name."""
        return await self._ready_for(await self.survey(name))

    async def _ready_for(self, survey: Survey) -> ReadySurvey:
        known = self._ready.get(survey.id)
        if known is None or known.life != survey.life:
            making = self._making.get(survey.life)
            if making is None:
                making = self._making[survey.life] = asyncio.ensure_future(self._make_ready(survey))
                making.add_done_callback(lambda _: self._making.pop(survey.life, None))
            known = await asyncio.shield(making)
        if survey.id in self._ready:
            self._ready.move_to_end(survey.id)
        return known

    async def _make_ready(self, survey: Survey) -> ReadySurvey:
        made = self._ready[survey.id] = await asyncio.to_thread(ReadySurvey, survey)
        if len(self._ready) > _READY_PLANS:
            self._ready.popitem(last=False)
        return made

    async def _written(self, name: str, job: Callable[[ReadySurvey], Submission | Redemption]) -> Outcome:
        """Write what `job` makes of a survey; anew if the survey is not the one that this process knew."""
        outcome = await self.writer.submit(job(await self.known(name)))
        if outcome in ("another", "closed"):
            # Deleted, maybe, or another of this name.
            outcome = await self.writer.submit(job(await self.ready(name)))
        return _unless_closed(outcome)

    async def survey(self, name: str) -> Survey:
        """A survey as it is now."""
        # Only what can be a name is looked up: PostgreSQL takes no text with NUL in it.
        found = await self.ask(self.store.survey, name) if _NAME.fullmatch(name) else None
        if found is None:
            raise Refusal(404, "There is no such survey.")
        return found

    async def surveys(self) -> list[tuple[Survey, int]]:
        """All surveys with their numbers of reports."""
        return await self.ask(self.store.surveys)

    async def create(self, wanted: NewSurvey) -> tuple[str, bool]:
        """Open a survey; its id, and whether it is new."""
        plan = await asyncio.to_thread(_plan, wanted.plan)
        secrets = await asyncio.to_thread(invitations.new_secrets, wanted.invited)
        names = ("public_results", "group_question", "ends", "publish_every")
        shown = {name: value for name in names if (value := getattr(wanted, name)) is not None}
        create = partial(self.store.create, plan, **shown, **secrets)
        return survey_id(plan), await self.writer.run(create)

    async def report(self, name: str, message: Report) -> Outcome:
        """Count one report."""
        return await self._written(name, lambda ready: ready.submission(message))

    async def batch(self, name: str, key: str, body: bytes, media_type: str) -> tuple[Outcome, int, int]:
        """Count a batch; what became of it, and how many reports it counted and refused."""
        ready = await self.ready(name)
        batch = await asyncio.to_thread(batches.read_batch, ready.plan, ready.folds, body, media_type)
        given = (batch.reports, batch.refused, ready.folds, batch.covered, batch.many)
        submission = Submission(name, key, *given, ready.life)
        outcome = _unless_closed(await self.writer.submit(submission))
        return outcome, submission.n_reports if outcome == "counted" else 0, batch.refused

    async def invite(self, name: str, count: int) -> list[str]:
        """New invitations."""
        secret, _ = (await self.ready(name)).inviting()
        await self.writer.run(partial(self.store.add_invitations, name, count))
        return await asyncio.to_thread(invitations.make_invitations, secret, name, count)

    async def revoke(self, name: str, named: list[str]) -> tuple[int, int]:
        """Let invitations count for nothing; how many now do, and how many had been used."""
        secret, _ = (await self.ready(name)).inviting()
        numbers = {invitations.read_invitation(secret, name, each) for each in named}
        if None in numbers:
            raise Refusal(422, "Not all of these are invitations to this survey; none was revoked.")
        used = await self.writer.run(partial(self.store.revoke, name, [n for n in numbers if n is not None]))
        return len(numbers) - used, used

    async def invitations(self, name: str) -> tuple[int, int]:
        """How many invitations were made, and how many of them were used."""
        survey = await self.survey(name)
        return survey.invitations, await self.ask(self.store.used_invitations, name)

    async def exchange(self, name: str, invitation: str, blinded: str) -> str:
        """Exchange an invitation for a blind signature, once; the same exchange again gives the same answer."""
        known = await self.known(name)
        try:
            outcome, signed = await self._exchange(known, invitation, blinded)
        except Refusal:
            outcome, signed = "another", ""
        if outcome == "another":
            # Refused, or of another life: the word of a survey that this process remembers is not the last.
            outcome, signed = await self._exchange(await self.ready(name), invitation, blinded)
        if _unless_closed(outcome) != "redeemed":
            raise Refusal(409, _UNREDEEMED[outcome])
        return signed

    async def _exchange(self, ready: ReadySurvey, invitation: str, blinded: str) -> tuple[Outcome, str]:
        secret, credentials = ready.inviting()
        number, message = invitations.read_invitation(secret, ready.id, invitation), invitations.from_text(blinded)
        if number is None:
            raise Refusal(403, "This is not an invitation to this survey.")
        if message is None or not credentials.can_sign(message):
            raise Refusal(422, "The blinded message must be a number below the modulus, of its length.")
        redemption = Redemption(ready.id, number, hashlib.sha256(message).digest(), ready.life)
        # Signed while it is written, and given away only when the invitation is known to be spent for it.
        signing = self._signing.begin(credentials, message)
        outcome = await self.writer.submit(redemption)
        return outcome, invitations.to_text(await signing)

    async def alone(self, make: Callable[..., T], *words: Any) -> T:
        """What a long computation returns, in a thread. One is made at a time: many who look share the work."""
        async with self._estimating:
            try:
                return await asyncio.to_thread(make, *words)
            except NotEstimableError as error:
                raise Refusal(409, str(error)) from error

    async def results(
        self, name: str, estimator: Estimator | None, limit: int | None, everything: bool
    ) -> dict[str, Any]:
        """Estimates as they are now, or as published."""
        survey = await self.survey(name)
        ready = await self._ready_for(survey)

        def make() -> dict[str, Any]:
            chosen = estimator or ready.estimators[0]
            facts = self._results.facts(survey, ready.plan, ready.views, chosen, limit, everything)
            return facts | {"estimators": ready.estimators}

        return await self.alone(make)

    async def public_page(
        self, name: str, estimator: Estimator | None, limit: int | None, make: PageMaker
    ) -> Page | None:
        """Published results as bytes, None if they are not public: made once for each publication, however many ask."""
        place, now = (name, estimator, limit, make), time.monotonic()
        known = self._pages.get(place)
        if known is not None and now - known[0] < self.fresh:
            return known[2]
        survey = await self.survey(name)
        if not survey.public_results:
            return None
        ready = await self._ready_for(survey)
        version = await self.ask(self._results.public_version, survey, ready.plan)
        if known is None or known[1] != version:
            async with self._publishing:
                known = self._pages.get(place)
                if known is None or known[1] != version:
                    page = make(await self.results(name, estimator, limit, False))
                    known = now, version, page
        self._pages[place] = now, version, known[2]
        self._pages.move_to_end(place)
        while sum(len(page.content) for _, _, page in self._pages.values()) > _PAGES_BYTES and len(self._pages) > 1:
            self._pages.popitem(last=False)
        return known[2]

    async def estimated(
        self,
        name: str,
        question: str | None,
        estimator: Estimator | None,
        make: Callable[[Plan, QuestionView, Estimator], T],
    ) -> tuple[QuestionView, T]:
        """What `make` estimates of one question of a survey's plan, one at a time as well."""
        ready = await self.ready(name)
        view = ready.view(question)
        return view, await self.alone(lambda: make(ready.plan, view, estimator or ready.estimators[0]))

    async def waves(self, name: str, may_read: Callable[[str], bool]) -> dict[int, list[tuple[str, Plan]]]:
        """The surveys of a survey's series that may be read, with their plans, by wave."""
        series = (await self.ready(name)).plan.first_wave
        found: dict[int, list[tuple[str, Plan]]] = {}
        for survey, _ in await self.surveys():
            if may_read(survey.id) and (plan := (await self._ready_for(survey)).plan).first_wave == series:
                found.setdefault(plan.wave, []).append((survey.id, plan))
        return found

    async def crosstab(self, name: str, first: str, second: str) -> dict[str, Any]:
        """The table of two questions, from the reports as they are now."""
        ready = await self.ready(name)

        def make() -> dict[str, Any]:
            return crosstab_facts(ready.plan, self.store.tally(name, ready.plan), first, second)

        try:
            return await self.alone(make)
        except ValueError as error:
            raise Refusal(422, str(error)) from error

    async def tally(self, name: str, since: date | None, until: date | None) -> dict[str, Any]:
        """The tally of some days."""
        ready = await self.ready(name)
        tally = await asyncio.to_thread(self.store.tally, name, ready.plan, since, until)
        return tally.to_dict()

    # -- managing -----------------------------------------------------------------------------------------------------

    async def change(self, name: str, change: Change) -> None:
        """Change or close a survey."""
        survey = await self.survey(name)
        given = change.model_dump(exclude_unset=True, exclude={"open"})
        if survey.closed is not None and "ends" in given:
            raise Refusal(409, "This survey is closed.")
        if given:
            await self.writer.run(partial(self.store.change, name, **given))
        if change.open is False:
            await self._close(name)

    async def _close(self, name: str) -> None:
        """Close a survey, and erase its tags step by step, between which others are served; what is not done in time is
        done later, and nothing can be compared with what is left.
        """
        await self.writer.run(partial(self.store.close_survey, name))
        until = time.monotonic() + _ERASING
        while await self.writer.run(self.store.erase_some_tags) and time.monotonic() < until:
            pass

    async def delete(self, name: str) -> None:
        """Delete a survey with everything that is kept of it."""
        await self.survey(name)
        await self._close(name)
        await self.writer.run(partial(self.store.delete, name))
        self._ready.pop(name, None)

    async def copy(self, name: str, next_wave: bool = False) -> str:
        """Open another run of a survey, with the same plan and settings and nothing of its reports; its id.

        The next wave has a plan of its own, which differs in its wave alone.
        """
        survey = await self.survey(name)
        ready = await self._ready_for(survey)
        secrets = await asyncio.to_thread(invitations.new_secrets, survey.invited)
        names = ("group_question", "public_results", "publish_every")
        shown = {each: getattr(survey, each) for each in names}
        if not next_wave:
            return await self.writer.run(partial(self.store.run_again, ready.plan, **shown, **secrets))
        plan = await asyncio.to_thread(_next_wave, ready.plan)
        if not await self.writer.run(partial(self.store.create, plan, **shown, **secrets)):
            raise Refusal(409, f"The next wave has a survey already: {survey_id(plan)}.")
        return survey_id(plan)

    async def make_rounds(self) -> None:
        """Close the surveys whose last day is over, and go on erasing the tags of closed ones and counting batches.

        Closing is final, so the clock is looked at twice, with an hour in between that also a clock which nobody sets
        has seen pass. Until then such a survey takes no reports, and would again if the clock were set back.
        """
        for survey, _ in await self.surveys():
            if survey.closed is None and self._ending.is_over(survey.life, not survey.is_open(self.store.today())):
                await self._close(survey.id)
        await self.writer.run(self.store.erase_some_tags)
        # Of a process that was killed, maybe.
        self.store.counting.arriving = True


class Signing:
    """Signs blinded messages in threads, several in a turn, while they are written."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[invitations.CredentialKey, bytes, asyncio.Future[bytes]]] = deque()
        #: One core is left to the event loop.
        self._idle = max(1, (os.cpu_count() or 1) - 1)
        self._threads = ThreadPoolExecutor(self._idle, "tacit-signing")

    def begin(self, key: invitations.CredentialKey, blinded: bytes) -> asyncio.Future[bytes]:
        """The blind signature to be."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, blinded, future))
        self._start()
        return future

    def _start(self) -> None:
        if self._waiting and self._idle:
            self._idle -= 1
            self._threads.submit(self._work, asyncio.get_running_loop())

    def _stopped(self) -> None:
        self._idle += 1
        self._start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while turn := list(_taken(self._waiting, _TURN)):
            signed = invitations.sign_blinded([(key, blinded) for key, blinded, _ in turn])
            loop.call_soon_threadsafe(resolve, [future for _, _, future in turn], signed)
        loop.call_soon_threadsafe(self._stopped)


def _taken(waiting: deque[T], most: int) -> Iterator[T]:
    """Up to `most` of what waits, for several threads at once."""
    with suppress(IndexError):
        for _ in range(most):
            yield waiting.popleft()


def _next_wave(plan: Plan) -> Plan:
    """The same plan one wave later."""
    if plan.follows is not None:
        raise Refusal(409, "By the belief rule the next wave has other groups: make its plan with tacit next.")
    later: dict[str, Any] = {"wave": plan.wave + 1, "series": plan.first_wave, "earlier": ()}
    return replace(plan, **later)


class Ending:
    """Which surveys are over, by a clock that may have been set to a wrong day for a while."""

    def __init__(self, steady: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._steady, self._wall = steady, wall
        self._seen: dict[str, tuple[float, float]] = {}

    def is_over(self, life: str, ended: bool) -> bool:
        """Whether a survey that has ended by the clock had so an hour ago, and the clock was not set since."""
        if not ended:
            self._seen.pop(life, None)
            return False
        now = self._steady(), self._wall()
        first = self._seen.setdefault(life, now)
        steady, wall = (b - a for a, b in zip(first, now, strict=True))
        if abs(wall - steady) > _SET:
            self._seen[life] = now
            return False
        return steady >= _CONFIRMED


def _plan(data: dict[str, Any]) -> Plan:
    try:
        plan = Plan.from_dict(data)
        check_served(plan)
        # What is not checked by the plan itself, such as its certificate, must at least be JSON that browsers read.
        json.dumps(plan.to_dict(), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise Refusal(422, f"The plan is refused: {error}") from error
    return plan


def _unless_closed(outcome: Outcome) -> Outcome:
    if outcome in ("closed", "another"):
        raise Refusal(409, "This survey is closed.")
    return outcome
