"""The routes for running surveys: opening, changing, closing, copying and deleting them; invitations and tokens."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request, Response

from tacit.server.collector import Collector, ReadySurvey
from tacit.server.http import messages as m
from tacit.server.http.batches import ARROW, NDJSON
from tacit.server.http.messages import HASH, KEY
from tacit.server.http.routes import CLOSED, PROBLEM, Service, everything, guarded, managing
from tacit.server.problems import Refusal
from tacit.server.site.texts import read_texts, write_texts
from tacit.server.storage import tokens
from tacit.server.storage.store import Survey

administration, management = guarded("administration", everything), guarded("management", managing)
access = guarded("tokens", everything, path="tokens")


def facts(survey: Survey, ready: ReadySurvey, today: date) -> dict[str, Any]:
    """The public facts about a survey."""
    names = ("id", "group_question", "public_results", "publish_every", "invited", "opened", "ends", "closed")
    return {name: getattr(survey, name) for name in names} | {
        "plan": ready.plan.hash,
        "question": ready.plan.heading,
        "open": survey.is_open(today),
        "credential_key": None if ready.credentials is None else ready.credentials.public,
        "wave": ready.plan.wave,
        "series": ready.plan.first_wave,
        "copy_of": survey.id.partition("-")[0] if "-" in survey.id else None,
    }


async def survey_facts(name: str, service: Collector) -> m.SurveyFacts:
    """The same, looked up."""
    return m.SurveyFacts(**facts(await service.survey(name), await service.ready(name), service.store.today()))


# -- surveys --------------------------------------------------------------------------------------------------------


@administration.get("")
async def list_surveys(service: Service) -> list[m.ListedSurvey]:
    """All surveys."""
    today = service.store.today()
    return [
        m.ListedSurvey(**facts(survey, await service.ready(survey.id), today), n_reports=n)
        for survey, n in await service.surveys()
    ]


@administration.post("", status_code=201, responses={200: {"model": m.SurveyFacts, "description": "It exists already"}})
async def create_survey(wanted: m.NewSurvey, service: Service, response: Response) -> m.SurveyFacts:
    """Open a survey for a plan. A plan has one survey, unless it is copied: the same plan again changes nothing."""
    name, new = await service.create(wanted)
    response.status_code = 201 if new else 200
    return await survey_facts(name, service)


@administration.post("/{survey}/copies", status_code=201, responses=CLOSED)
async def copy_survey(
    survey: m.SurveyId,
    service: Service,
    next_wave: Annotated[bool, Query(description="Open the next wave: browsers ask again.")] = False,
) -> m.SurveyFacts:
    """Open another run of a survey: the same plan, settings and texts, none of its reports, invitations or end.

    It is the same wave at another place: a browser that has answered sends its stored report. With `next_wave` it is
    one wave later, and browsers ask again.
    """
    made = await service.copy(survey, next_wave)
    texts = await service.ask(read_texts, service.store, survey)
    await service.writer.run(partial(write_texts, service.store, made, texts))
    return await survey_facts(made, service)


@administration.delete("/{survey}")
async def delete_survey(survey: m.SurveyId, service: Service) -> m.Deleted:
    """Delete a survey with everything that is kept of it, for good."""
    await service.delete(survey)
    return m.Deleted(status="deleted")


@management.patch("/{survey}", responses=CLOSED)
async def change_survey(survey: m.SurveyId, change: m.Change, service: Service) -> m.SurveyFacts:
    """Close a survey, which is final, or change who sees its results, in which steps, and its last day."""
    await service.change(survey, change)
    return await survey_facts(survey, service)


# -- invitations ----------------------------------------------------------------------------------------------------


@management.post("/{survey}/invitations", responses=CLOSED)
async def make_invitations(
    survey: m.SurveyId, order: m.InvitationOrder, service: Service, request: Request
) -> m.Invitations:
    """Make invitations. They are not kept, and cannot be listed later."""
    made = await service.invite(survey, order.count)
    # Where people find the service, or where this request found it.
    home = request.app.state.public_url or str(request.base_url).rstrip("/")
    page = f"{home}/s/{survey}"
    return m.Invitations(invitations=made, links=[f"{page}#invitation={each}" for each in made])


@management.get("/{survey}/invitations")
async def count_invitations(survey: m.SurveyId, service: Service) -> m.InvitationCounts:
    """How many invitations were made and how many were used, but not which. Closing forgets how many were used."""
    made, used = await service.invitations(survey)
    return m.InvitationCounts(made=made, used=used)


@management.post("/{survey}/revocations", responses=CLOSED)
async def revoke_invitations(survey: m.SurveyId, named: m.Revocation, service: Service) -> m.Revoked:
    """Let invitations that were not used yet count for nothing. Reports of used ones stay counted."""
    revoked, used = await service.revoke(survey, named.invitations)
    return m.Revoked(revoked=revoked, used=used)


# -- reports --------------------------------------------------------------------------------------------------------


@management.post(
    "/{survey}/batches",
    responses=CLOSED | {415: PROBLEM | {"description": f"Neither {NDJSON} nor {ARROW}"}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (NDJSON, ARROW)},
        }
    },
)
async def send_batch(
    survey: m.SurveyId,
    service: Service,
    request: Request,
    idempotency_key: Annotated[str, Header(pattern=KEY, description="16 random bytes: 32 digits.")],
    plan: Annotated[str | None, Query(pattern=HASH, description="Hash of the plan they are of.")] = None,
) -> m.BatchCounted:
    """Count many reports, all of them or none. Columns: `report`, `group` if the plan has groups, `block` if it asks
    several questions.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if plan is not None and plan != (await service.ready(survey)).plan.hash:
        raise Refusal(422, "These reports were made with another plan.")
    outcome, counted, refused = await service.batch(survey, idempotency_key, await request.body(), kind)
    request.app.state.metrics.counted(counted)
    return m.BatchCounted(status=outcome, counted=counted, refused=refused)  # type: ignore[arg-type]


@management.get("/{survey}/tally")
async def export_tally(
    survey: m.SurveyId,
    service: Service,
    since: Annotated[m.Day | None, Query(description="First day.")] = None,
    until: Annotated[m.Day | None, Query(description="Last day.")] = None,
) -> dict[str, Any]:
    """The tally of some days, or of all, as `tacit estimate` and `tacit merge` read it."""
    return await service.tally(survey, since, until)


# -- tokens ---------------------------------------------------------------------------------------------------------

TokenName = Annotated[str, Path(pattern="^[a-z0-9][a-z0-9-]{0,39}$", description="As its maker called it.")]


@access.get("")
async def list_tokens(service: Service) -> list[m.TokenFacts]:
    """All tokens by name, with what each allows."""
    found = await service.ask(tokens.tokens, service.store)
    return [m.TokenFacts(name=each.name, role=each.role, survey=each.survey) for each in found]


@access.put("/{name}")
async def make_token(name: TokenName, wanted: m.NewToken, service: Service) -> m.MadeToken:
    """Make a token, in place of any of that name. It is shown now and never again."""
    if wanted.survey is not None:
        await service.survey(wanted.survey)
    make = partial(tokens.make_token, service.store, name, wanted.role, wanted.survey)
    return m.MadeToken(name=name, role=wanted.role, survey=wanted.survey, token=await service.writer.run(make))


@access.delete("/{name}")
async def revoke_token(name: TokenName, service: Service) -> m.Deleted:
    """Let a token in no more, from now on and in all processes."""
    if not await service.writer.run(partial(tokens.revoke_token, service.store, name)):
        raise Refusal(404, "There is no token of this name.")
    return m.Deleted(status="deleted")
