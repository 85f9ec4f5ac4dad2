"""Surveys by invitation: each invitation counts for one report, and nothing that is kept tells which."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tacit.server.invitations import from_text, to_text
from tacit.server.storage import schema
from tacit.server.storage.store import Store
from tacit.server.storage.vault import tag

from support.blinding import Signer, salt
from support.service import Client, Days, grouped_plan, key, plain_plan, serving, stored

CHANCE = random.Random(9474)


class Invited:
    """A survey by invitation, with a respondent's arithmetic."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.survey = client.open(plain_plan(), invited=True)
        self.signer = Signer.of(client.get(self.survey).json()["credential_key"])

    def invitation(self) -> str:
        answer = self.client.post(f"{self.survey}/invitations", {"count": 1}, admin=True)
        return str(answer.json()["invitations"][0])

    def exchange(self, invitation: str, blinded: str) -> httpx.Response:
        return self.client.post(f"{self.survey}/credentials", {"invitation": invitation, "blinded": blinded})

    def credential(self, number: int, invitation: str) -> str:
        """Everything a browser does for a key."""
        factor = self.signer.factor(CHANCE)
        blinded = self.signer.blind(self.signer.encode(key(number), salt(CHANCE)), factor)
        answer = self.exchange(invitation, blinded)
        assert answer.status_code == 200, answer.text
        return self.signer.unblind(answer.json()["blind_signature"], factor)

    def report(self, number: int, credential: str | None, report: int = 1) -> httpx.Response:
        body: dict[str, Any] = {"key": key(number), "report": report}
        return self.client.post(
            f"{self.survey}/reports", body if credential is None else body | {"credential": credential}
        )


@pytest.fixture(scope="module")
def invited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Invited]:
    """One survey for all these tests, which use different keys: making its RSA key takes longest."""
    store = Store(tmp_path_factory.mktemp("invited"), Days())
    with serving(store) as client:
        yield Invited(client)
    store.close()


def test_an_invitation_becomes_a_report(invited: Invited):
    credential = invited.credential(1, invited.invitation())
    before = stored(invited.client.store)
    counted = invited.report(1, credential)
    assert (counted.status_code, counted.json()) == (200, {"status": "counted"})
    assert sum(stored(invited.client.store).values()) == sum(before.values()) + 1


def test_a_credential_counts_once(invited: Invited):
    credential = invited.credential(2, invited.invitation())
    before = sum(stored(invited.client.store).values())
    assert [invited.report(2, credential).json()["status"] for _ in range(3)] == ["counted", *["already counted"] * 2]
    # Nor for another key: the signature is of the first.
    assert invited.report(200, credential).status_code == 403
    assert sum(stored(invited.client.store).values()) == before + 1


def test_without_a_credential_nothing_counts(invited: Invited):
    credential = invited.credential(3, invited.invitation())
    data = from_text(credential)
    assert data is not None
    forged = to_text(data[:-1] + bytes([data[-1] ^ 1]))
    before = stored(invited.client.store)
    for wrong in (None, "", "AAAA", forged, to_text(bytes(256)), credential[:-4], "A" * 1024):
        refused = invited.report(3, wrong)
        assert refused.status_code == 403, wrong
        assert refused.json()["detail"] == (
            "This survey counts reports of invited people. The credential is missing or wrong."
        )
    assert stored(invited.client.store) == before
    assert invited.report(3, credential).json() == {"status": "counted"}


def test_an_invitation_is_spent_on_one_message(invited: Invited):
    invitation, encoded = invited.invitation(), invited.signer.encode(key(4), salt(CHANCE))
    first, second = (invited.signer.blind(encoded, invited.signer.factor(CHANCE)) for _ in range(2))
    signed = invited.exchange(invitation, first)
    assert signed.status_code == 200
    again = invited.exchange(invitation, first)
    assert (again.status_code, again.json()) == (200, signed.json()), "an answer that was lost can be asked for again"
    spent = invited.exchange(invitation, second)
    assert (spent.status_code, spent.json()["detail"]) == (409, "This invitation was used before.")


def test_forged_invitations_are_refused(invited: Invited):
    genuine = invited.invitation()
    data = from_text(genuine)
    assert data is not None
    blinded = invited.signer.text(5)
    other_number = to_text(bytes([data[0] ^ 1]) + data[1:])
    for wrong in ("", "AAAA", other_number, to_text(data[:-1] + b"\0"), to_text(data + b"\0"), to_text(bytes(48))):
        refused = invited.exchange(wrong, blinded)
        assert (refused.status_code, refused.json()["detail"]) == (403, "This is not an invitation to this survey.")
    assert invited.exchange(genuine, blinded).status_code == 200


def test_an_invitation_belongs_to_its_survey(invited: Invited):
    client = invited.client
    other = client.open(grouped_plan(), invited=True)
    signer = Signer.of(client.get(other).json()["credential_key"])
    refused = client.post(f"{other}/credentials", {"invitation": invited.invitation(), "blinded": signer.text(5)})
    assert refused.status_code == 403
    credential = invited.credential(6, invited.invitation())
    body = {"key": key(6), "group": "young", "report": 0, "credential": credential}
    assert client.post(f"{other}/reports", body).status_code == 403


@pytest.mark.parametrize("blinded", ["", "AAAA", "A" * 342, "A" * 343, "_" * 342])
def test_only_numbers_below_the_modulus_are_signed(invited: Invited, blinded: str):
    invitation = invited.invitation()
    refused = invited.exchange(invitation, blinded)
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "The blinded message must be a number below the modulus, of its length.",
    )
    assert invited.exchange(invitation, invited.signer.text(5)).status_code == 200, "the invitation is not spent by it"


@pytest.mark.parametrize("number", ["0", "1", "n - 1", "n", "n + 5"])
def test_numbers_that_would_sign_themselves_are_not_signed(invited: Invited, number: str):
    blinded = invited.signer.text(eval(number, {"n": invited.signer.n}))
    assert invited.exchange(invited.invitation(), blinded).status_code == 422


# -- unlinkability --------------------------------------------------------------------------------------------------


def test_every_blinding_leads_to_a_valid_signature_of_the_same_key(invited: Invited):
    encoded = invited.signer.encode(key(7), salt(CHANCE))
    factors = [invited.signer.factor(CHANCE) for _ in range(3)]
    blinded = [invited.signer.blind(encoded, factor) for factor in factors]
    signed = [invited.exchange(invited.invitation(), each).json()["blind_signature"] for each in blinded]
    credentials = {invited.signer.unblind(each, factor) for each, factor in zip(signed, factors, strict=True)}
    assert len(set(blinded)) == 3
    assert len(credentials) == 1
    assert invited.report(7, credentials.pop()).json() == {"status": "counted"}


def test_signatures_are_powers_and_each_comes_to_who_asked_for_it(invited: Invited):
    """By Python's integers; 40 exchanges at once, so that several are signed in a turn and written in a transaction."""
    known = invited.client.store.survey(invited.survey.rpartition("/")[2])
    assert known is not None
    assert known.credential_key is not None
    secret = serialization.load_der_private_key(known.credential_key, None)
    assert isinstance(secret, rsa.RSAPrivateKey)
    n, d = secret.public_key().public_numbers().n, secret.private_numbers().d
    numbers = [2, n - 2, *(CHANCE.randrange(2, n - 1) for _ in range(38))]
    invitations = invited.client.post(f"{invited.survey}/invitations", {"count": 40}, admin=True).json()["invitations"]
    with ThreadPoolExecutor(40) as threads:
        answers = list(threads.map(invited.exchange, invitations, map(invited.signer.text, numbers)))
    signed = [answer.json()["blind_signature"] for answer in answers]
    assert signed == [invited.signer.text(pow(number, d, n)) for number in numbers]
    spent = invited.exchange(invitations[0], invited.signer.text(3))
    assert (spent.status_code, invited.exchange(invitations[0], invited.signer.text(2)).json()) == (
        409,
        {"blind_signature": signed[0]},
    )


def test_the_blinded_message_says_nothing_about_the_key():
    """In a small group, all of it: whatever the key, the blinded message runs once through every unit."""
    signer = Signer(n=11 * 23, e=3)
    units = {x for x in range(1, signer.n) if x % 11 and x % 23}
    for encoded in sorted(units)[:20]:
        assert {encoded * pow(factor, signer.e, signer.n) % signer.n for factor in units} == units


def test_what_is_kept_of_an_exchange_is_a_hash(invited: Invited):
    invitation, blinded = invited.invitation(), invited.signer.text(123456789)
    assert invited.exchange(invitation, blinded).status_code == 200
    number, message = from_text(invitation), from_text(blinded)
    assert number is not None
    assert message is not None
    name = invited.survey.rpartition("/")[2]
    with invited.client.store.counting.moment(name) as (connection, pending):
        kept = connection.execute(sa.select(schema.redemptions.c.tag, schema.redemptions.c.blinded))
        rows = [*(tuple(row) for row in kept), *pending[name].exchanged]
    survey = invited.client.store.survey(name)
    assert survey is not None
    secret = invited.client.store.vault.secret(survey.life)
    hashed = hashlib.sha256(message).digest()
    assert (tag(secret, "invitation", number[:16]), tag(secret, "blinded", hashed)) in rows
    assert not [text for row in rows for text in row if number[:16].hex() in text or hashed.hex()[:32] in text]


# -- administration -------------------------------------------------------------------------------------------------


def test_invitations_are_made_with_links(invited: Invited):
    answer = invited.client.post(f"{invited.survey}/invitations", {"count": 50}, admin=True).json()
    name = invited.survey.rpartition("/")[2]
    assert len(set(answer["invitations"])) == 50
    assert answer["links"] == [f"http://test/s/{name}#invitation={each}" for each in answer["invitations"]]


def test_an_open_survey_has_no_invitations(client: Client):
    survey = client.open(plain_plan())
    told = "This survey is open to everybody; it has no invitations."
    for path, body in (("invitations", {"count": 1}), ("credentials", {"invitation": "AAAA", "blinded": "AAAA"})):
        refused = client.post(f"{survey}/{path}", body, admin=True)
        assert (refused.status_code, refused.json()["detail"]) == (409, told)


def test_a_closed_survey_signs_nothing_and_forgets_who_came(tmp_path: Path, days: Days):
    store = Store(tmp_path, days)
    with serving(store) as client:
        closing = Invited(client)
        spent, unused = closing.invitation(), closing.invitation()
        assert closing.exchange(spent, closing.signer.text(5)).status_code == 200
        client.patch(closing.survey, {"open": False}, admin=True)
        for invitation in (spent, unused):
            refused = closing.exchange(invitation, closing.signer.text(5))
            assert (refused.status_code, refused.json()["detail"]) == (409, "This survey is closed.")
        with store._reading.connect() as connection:
            assert connection.execute(sa.select(schema.redemptions)).all() == []
    store.close()


def test_batches_need_no_invitation(invited: Invited):
    """A gateway is trusted with the token; it has invited its people itself."""
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key(99)}
    path = f"{invited.survey}/batches"
    answer = invited.client.request("POST", path, content=b'{"report": 1}', headers=headers, admin=True)
    assert answer.json()["counted"] == 1
