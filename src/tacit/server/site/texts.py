"""What the team says on a survey's page, and in which language: text only, kept beside the survey.

It is no part of the plan, so it can be mended while people answer; no promise depends on it.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tacit.server.http.messages import SurveyId
from tacit.server.http.routes import COMMON, Service, guarded, managing
from tacit.server.storage.store import Store

#: The languages of the respondent's page: one file each in pages/languages.
Language = Literal["en", "de", "es", "fr"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


def _at_most(characters: int) -> AfterValidator:
    """A text of at most this number of characters, without blanks around it; none if nothing is left.

    The description of the service does not say it: what is too long for a stranger's body is refused before that.
    """

    def check(text: str | None) -> str | None:
        if text is not None and (len(text) > characters or "\0" in text):
            raise ValueError(f"A text here has {characters:,} characters at most, and none of them is NUL.")
        return (text or "").strip() or None

    return AfterValidator(check)


class Wording(BaseModel):
    """What the team says in one language. Blank lines separate paragraphs; web addresses become links."""

    model_config = ConfigDict(extra="forbid", strict=True)

    introduction: Annotated[str | None, _at_most(5_000), Field(description="Above the answers: who asks, and why.")] = (
        None
    )
    consent: Annotated[
        str | None, _at_most(2_000), Field(description="Where given, it must be agreed to before anything is drawn.")
    ] = None
    privacy_notice: Annotated[str | None, _at_most(50_000), Field(description="Below the question, folded.")] = None
    contact: Annotated[str | None, _at_most(500), Field(description="Whom to ask.")] = None


class Translation(Wording):
    """The same in another language; what is missing is shown in the survey's first language."""

    group_question: Annotated[str | None, _at_most(500), Field(description="What the page asks for the group.")] = None


class Texts(Wording):
    """What the team says on a survey's page, and in which languages it is offered."""

    language: Annotated[
        Language, Field(description="What page and dashboard speak first; questions are as the plan has them.")
    ] = "en"
    translations: Annotated[
        dict[Language, Translation], Field(description="Other languages that the page offers, with their texts.")
    ] = Field(default_factory=dict)
    organisation: Annotated[
        str | None, _at_most(100), Field(description="Who asks: in the header of the page, instead of Tacit.")
    ] = None
    layout: Annotated[
        Literal["form", "steps"], Field(description="Several questions on a phone: one form, or one after the other.")
    ] = "form"


def read_texts(store: Store, survey: str) -> Texts:
    """The texts of a survey; English and nothing else, where none were given."""
    kept = store.setting(_name(survey))
    return Texts() if kept is None else Texts.model_validate_json(kept)


def write_texts(store: Store, survey: str, texts: Texts) -> None:
    """Keep the texts of a survey in place of those before."""
    store.set_setting(_name(survey), texts.model_dump_json().encode())


def change_texts_of(store: Store, survey: str, said: str | None, language: str | None) -> None:
    """Take over texts from JSON, and a language, as far as they are given."""
    if said is None and language is None:
        return
    try:
        texts = read_texts(store, survey) if said is None else Texts.model_validate_json(said)
        known = texts.model_dump() | ({} if language is None else {"language": language})
        write_texts(store, survey, Texts.model_validate(known))
    except ValidationError as error:
        where = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in error.errors())
        raise ValueError(f"These texts cannot be used: {where}.") from error


def _name(survey: str) -> str:
    return f"texts:{survey}"


#: For everybody, and for those who manage the survey.
reading = APIRouter(prefix="/api/surveys", tags=["respondents"], responses=COMMON)
writing = guarded("management", managing)


@reading.get("/{survey}/texts")
async def show_texts(survey: SurveyId, service: Service) -> Texts:
    """What the team says on the survey's page, and in which language."""
    await service.survey(survey)
    return await service.ask(read_texts, service.store, survey)


@writing.put("/{survey}/texts")
async def change_texts(survey: SurveyId, texts: Texts, service: Service) -> Texts:
    """Say something else from now on: all texts are replaced."""
    await service.survey(survey)
    await service.writer.run(lambda: write_texts(service.store, survey, texts))
    return texts
