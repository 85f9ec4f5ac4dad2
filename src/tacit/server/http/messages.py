"""What travels: the bodies of requests and responses. Unknown fields are refused, so nothing else can be sent."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal, Self

from fastapi import Path
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

#: The forms of a submission's key, of a plan's hash and of a survey's name.
KEY, HASH, SURVEY = "^[0-9a-f]{32}$", "^[0-9a-f]{64}$", "^[0-9a-f]{16}(-[1-9][0-9]{0,3})?$"
#: Any JSON integer that JavaScript can hold; a plan's own range is checked after that.
_LARGEST_REPORT = 2**53 - 1

SURVEY_ID = {
    "type": "string",
    "pattern": SURVEY,
    "description": "The first 16 digits of the plan's hash; behind a dash, which run of it.",
}
SurveyId = Annotated[str, Path(pattern=SURVEY_ID["pattern"], description=SURVEY_ID["description"])]
Base64 = Annotated[str, Field(pattern="^[A-Za-z0-9_-]*$", max_length=1024)]
Key = Annotated[
    str,
    Field(
        pattern=KEY,
        description="16 random bytes of the sender's own, in hexadecimal. Sent again, they count nothing.",
    ),
]


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("A text must not hold the character NUL.")
    return text


def _only_false(value: object) -> object:
    # 0 equals False, and closing is final.
    if value is not False:
        raise ValueError("A survey can be closed with false; it cannot be opened again.")
    return value


def _calendar_day(value: object) -> object:
    # A number would be read as seconds since 1970.
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise ValueError("A day is written as 2026-11-15.")
    return date.fromisoformat(value)


Day = Annotated[date, BeforeValidator(_calendar_day)]


PublishEvery = Annotated[
    int,
    Field(ge=2, le=1_000_000_000, description="Public results change by at least this number of reports of a group."),
]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def read(cls, body: bytes) -> Self:
        """A message from JSON, where FastAPI does not read it."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_url=False, include_input=False)) from error


class Report(_Message):
    """One randomized report."""

    key: Key
    group: Annotated[str, Field(max_length=1000)] | None = None
    block: Annotated[int, Field(ge=1, le=2**16)] | None = Field(
        None, description="Which block of questions the report is about, from 1; only where a plan asks several."
    )
    report: Annotated[int, Field(ge=0, le=_LARGEST_REPORT)]
    public: dict[Annotated[str, Field(max_length=1000)], Annotated[str, Field(max_length=1000)]] | None = Field(
        None, description="The answers to public questions, by name; only where a plan has some."
    )
    credential: Base64 | None = Field(None, description="The signature of the key, in surveys by invitation.")
    plan: Annotated[str, Field(pattern=HASH)] | None = Field(
        None, description="The hash of the plan that made it; a report of another plan is refused."
    )


class Counted(_Message):
    """What became of a submission."""

    status: Literal["counted", "already counted"]


class BatchCounted(Counted):
    """What became of a batch."""

    counted: int = Field(description="Reports that this request added; 0 if the batch was counted before.")
    refused: int = Field(description="Reports that the plan cannot have sent.")


class NewSurvey(_Message):
    """A survey to open."""

    plan: dict[str, Any] = Field(description="The plan, as `tacit plan` wrote it.")
    public_results: bool = False
    invited: bool = Field(False, description="Whether a report needs an invitation.")
    group_question: Annotated[str, Field(max_length=500), AfterValidator(_no_nul)] | None = Field(
        None, description="What the page asks for the group."
    )
    ends: Day | None = Field(None, description="The last day on which reports are taken; it closes after that.")
    publish_every: PublishEvery | None = None


class Change(_Message):
    """What to change about a survey."""

    open: Annotated[Literal[False], BeforeValidator(_only_false)] | None = Field(
        None, description="false closes the survey, for good."
    )
    public_results: bool = Field(False, description="Whether everybody sees the results.")
    publish_every: PublishEvery = 20
    ends: Day | None = Field(None, description="The last day on which reports are taken; null for none.")


class PublicKey(_Message):
    """An RSA key, as JSON Web Keys write it."""

    n: str
    e: str


class SurveyFacts(_Message):
    """The public facts about a survey."""

    model_config = ConfigDict(extra="forbid")

    id: str
    plan: str = Field(description="The plan's hash.")
    question: str | None
    group_question: str | None
    open: bool
    public_results: bool
    publish_every: int = Field(description="Public results change by at least this number of reports of a group.")
    invited: bool
    opened: date
    ends: date | None = Field(description="The last day on which reports are taken.")
    closed: date | None
    credential_key: PublicKey | None
    wave: int = Field(description="Of a survey that is repeated, counted from 1: every wave is asked anew.")
    series: str = Field(description="The hash of the first plan of the series, in its first wording.")
    copy_of: str | None = Field(
        description="Of a copy, the first survey of the plan: the same wave at another place, with the same reports."
    )


class ListedSurvey(SurveyFacts):
    """The same for the administrator."""

    n_reports: int


class InvitationOrder(_Message):
    """How many invitations to make."""

    count: Annotated[int, Field(ge=1, le=100_000)]


class Invitations(_Message):
    """Fresh invitations, each for one report."""

    invitations: list[str]
    links: list[str] = Field(description="The survey page with the invitation behind #, which browsers do not send.")


class InvitationCounts(_Message):
    """How many invitations there are."""

    made: int
    used: int


class Revocation(_Message):
    """Invitations to revoke."""

    invitations: Annotated[list[Base64], Field(min_length=1)]


class Revoked(_Message):
    """What became of them."""

    revoked: int = Field(description="Invitations that no longer count.")
    used: int = Field(description="Invitations that had been used before; their reports stay counted.")


class Deleted(_Message):
    """That it is gone."""

    status: Literal["deleted"]


class NewToken(_Message):
    """What a token shall allow."""

    role: Literal["all", "survey", "results"] = Field(
        description="Everything; managing one survey; or reading results, of one survey or of all."
    )
    survey: Annotated[str, Field(pattern=SURVEY_ID["pattern"])] | None = None

    @model_validator(mode="after")
    def _of_one_survey(self) -> NewToken:
        if (self.role == "survey" and self.survey is None) or (self.role == "all" and self.survey is not None):
            raise ValueError("The role 'survey' needs a survey, and 'all' has none.")
        return self


class TokenFacts(_Message):
    """A token, without itself."""

    name: str
    role: Literal["all", "survey", "results"]
    survey: str | None


class MadeToken(TokenFacts):
    """A fresh token, shown once."""

    token: str


class Exchange(_Message):
    """An invitation, and the blinded key that it is exchanged for."""

    invitation: Base64
    blinded: Base64


class Exchanged(_Message):
    """The blind signature."""

    blind_signature: str


class Row(_Message):
    """One estimated number."""

    name: str
    estimate: float | None
    standard_error: float | None = Field(description="Of the unbiased estimate, where the estimator is assisted.")
    margin: float | None = Field(description="Half the interval.")
    low: float | None = Field(description="Null where the reports do not tell the answer from others.")
    high: float | None
    prior: float | None = Field(description="What the prior alone expects; null where there is none.")
    prior_share: float = Field(description="How much of the estimate is the prior: 0 if nothing, 1 if all.")


class GroupFacts(_Message):
    """One group's reports and promise."""

    group: str | None
    n_reports: int
    epsilon: float
    notion: str
    levels: dict[str, float | None] = Field(description="Exact privacy levels, rounded up; null if unbounded.")
    promise: str
    odds: str = Field(description="The largest factor for odds, for any belief before.")
    belief: list[str] | None = Field(
        description="An answer, the belief in it before a report, and after it at most and at least; or null."
    )
    near: bool = Field(description="Whether the answer stands for numbers near it.")
    bound: str | None = Field(description="Of several questions: the largest factor for the belief in answers.")
    prior_set: bool = Field(description="Whether the promise is for several priors.")


class PriorAlarm(_Message):
    """Whether the reports of a group, or of all together, contradict the prior. May be looked at at any time."""

    group: str | None
    pooled: bool = Field(description="Whether all groups are looked at together.")
    questions: list[str] = Field(description="Of several questions: those of the block whose prior is checked.")
    degrees: int = Field(description="Of the test; 0 where there are too few reports.")
    p_value: float
    contradicted: bool
    sentence: str


class HistoryDay(_Message):
    """How wide the interval was at the end of a day, per respondent."""

    day: date
    n_reports: int
    reach: float = Field(description="Half the interval of the mean; of a histogram, root mean square over its values.")


class QuestionResults(_Message):
    """The estimates of one question of several."""

    name: str
    text: str = Field(description="The wording, or the name where there is none.")
    labels: dict[str, str] = Field(description="How answers read, where that is not as they are named.")
    part_of: str | None = Field(description="The question with several choices that this is one of.")
    task: Literal["shares", "survey", "mean", "quantiles"]
    block: int = Field(description="From 1; the reports on a block are about all of its questions.")
    n_reports: int = Field(description="Reports on its block. Estimates are totals of these people.")
    counts_people: bool
    rows: list[Row]
    n_rows: int


class PublicCount(_Message):
    """How many people gave an answer."""

    name: str
    count: int


class PublicQuestion(_Message):
    """The answers to a public question, which travel as they are."""

    name: str
    text: str
    rows: list[PublicCount]


class Median(_Message):
    """The number that half of the people do not exceed, with its interval, as the plan writes numbers."""

    value: str
    low: str
    high: str


class Records(_Message):
    """How many people a group's prior stands for: about this number, or fewer."""

    than: int
    fewer: bool


class PriorShares(_Message):
    """How much of an assisted estimate is the prior."""

    mean: float
    most: float = Field(description="The largest part of a row.")
    records: Records | None


class ResultFacts(_Message):
    """Estimates with everything needed to read them."""

    survey: str
    question: str | None
    open: bool
    opened: date
    task: str
    n_reports: int
    published_every: int | None = Field(description="Null if these are all reports; else they change by such steps.")
    refused: int
    estimator: str
    estimators: list[str]
    level: float
    counts_people: bool
    rows: list[Row] = Field(description="Empty where several questions are asked.")
    n_rows: int
    median: Median | None = Field(None, description="Of a plan for quantiles with enough reports.")
    questions: list[QuestionResults] = Field(description="Empty where one question is asked.")
    public: list[PublicQuestion] = Field(description="Answers that travel as they are; for the team only.")
    groups: list[GroupFacts]
    prior_check: list[PriorAlarm]
    history: list[HistoryDay]
    n_days: int = Field(description="On how many days reports came.")
    scope: str | None = Field(description="Whom the intervals are about: participants or population.")
    simultaneous: bool = Field(description="Whether all intervals hold at once.")
    about: str = Field(description="Whom the intervals are about, in words.")
    prior_shares: PriorShares | None
    influence: float = Field(description="How far one report changed to another can move an estimate.")
    influence_added: float = Field(description="The same for one more report.")


class Health(_Message):
    """Whether the service and its database answer."""

    status: Literal["ok"]
