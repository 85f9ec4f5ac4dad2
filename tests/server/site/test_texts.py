"""What a survey's page says, in which language, and that every language says the same things."""

from __future__ import annotations

import json
import re

import pytest

from tacit.server.site.texts import LANGUAGES, Texts, change_texts_of, read_texts
from tacit.server.storage.store import Store, survey_id

from support.places import PAGES
from support.service import Client, plain_plan

NOTHING = {
    "layout": "form", "introduction": None, "consent": None, "privacy_notice": None, "contact": None,
    "organisation": None, "translations": {},
}  # fmt: skip


def words(language: str) -> dict[str, str]:
    """All sentences of a language, by their keys; the file is JSON but for its first words."""
    text = (PAGES / "languages" / f"{language}.js").read_text(encoding="utf-8")
    pairs = json.loads(text.removeprefix("export default ").rstrip().removesuffix(";"), object_pairs_hook=list)
    assert len(dict(pairs)) == len(pairs), "a key is there twice"
    return dict(pairs)


def placeholders(sentence: str) -> list[str]:
    """What is filled in, and what is code."""
    return sorted(set(re.findall(r"{\w+}|`[^`]*`", sentence)))


def test_there_is_one_file_for_each_language():
    assert {path.stem for path in (PAGES / "languages").iterdir()} == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_sentences_with_the_same_gaps(language: str):
    english, other = words("en"), words(language)
    assert list(other) == list(english)
    for key, sentence in english.items():
        assert placeholders(other[key]) == placeholders(sentence), key
        assert other[key].strip() == other[key] != "", key
    if language != "en":
        same = [key for key in english if other[key] == english[key]]
        # The same word in both languages.
        alike = {"contact", *(f"board_{name}" for name in ("mle", "estimate", "interval", "total", "information"))}
        assert set(same) <= alike, "not translated"


def test_the_check_of_gaps_can_fail():
    assert placeholders("from {first} to {last}") != placeholders("von {first} bis {letzte}")


def test_every_sentence_is_said_and_every_said_sentence_is_there():
    files = (*PAGES.glob("*.js"), *(PAGES / f"{name}.html" for name in ("survey", "dashboard")))
    pages = "".join(path.read_text(encoding="utf-8") for path in files)
    said = set(re.findall(r'data-say="(\w+)"', pages))
    texts = set(re.findall(r'"(\w+)"', pages))
    known = set(words("en"))
    assert said <= known
    made = {f"set_{kind}" for kind in ("ranges", "mixtures", "distance")}
    made |= {f"number_{kind}" for kind in ("wanted", "wrong", "open_wrong")}
    assert known - said - texts - made == set()


def test_texts_are_kept_for_everybody_to_read_and_changed_with_the_token(client: Client):
    survey = client.open(plain_plan())
    assert client.get(f"{survey}/texts").json() == {"language": "en", **NOTHING}
    wanted = {"language": "fr", "introduction": " Bonjour.\n\nUn instant. ", "contact": "  "}
    assert client.request("PUT", f"{survey}/texts", json=wanted).status_code == 401
    assert client.request("PUT", f"{survey}/texts", json=wanted, admin=True).status_code == 200
    kept = {"language": "fr", **NOTHING, "introduction": "Bonjour.\n\nUn instant."}
    assert client.get(f"{survey}/texts").json() == kept
    assert client.request("PUT", f"{survey}/texts", json={}, admin=True).json() == {"language": "en", **NOTHING}


@pytest.mark.parametrize(
    "wrong",
    [
        {"language": "xx"},
        {"language": None},
        {"introduction": "a\0b"},
        {"introduction": "x" * 5001},
        {"contact": 7},
        {"html": "<b>"},
        {"translations": {"xx": {}}},
        {"translations": {"de": {"html": "<b>"}}},
        ["language"],
    ],
)
def test_texts_of_another_form_are_refused(client: Client, wrong: object):
    survey = client.open(plain_plan())
    assert client.request("PUT", f"{survey}/texts", json=wrong, admin=True).status_code == 422
    assert client.get(f"{survey}/texts").json() == {"language": "en", **NOTHING}


def test_a_survey_that_is_not_there_says_nothing(client: Client):
    for path in ("/api/surveys/0123456789abcdef/texts", "/api/surveys/nonsense/texts"):
        assert client.get(path).status_code in (404, 422)
        assert client.request("PUT", path, json={}, admin=True).status_code in (404, 422)


def test_the_command_takes_texts_from_a_file_and_a_language(store: Store):
    survey = survey_id(plain_plan())
    change_texts_of(store, survey, '{"contact": "us@example.org"}', None)
    change_texts_of(store, survey, None, "de")
    assert read_texts(store, survey) == Texts(language="de", contact="us@example.org")
    with pytest.raises(ValueError, match="language"):
        change_texts_of(store, survey, None, "klingon")
    with pytest.raises(ValueError, match="intro: "):
        change_texts_of(store, survey, '{"intro": ""}', None)
    assert read_texts(store, survey) == Texts(language="de", contact="us@example.org")
