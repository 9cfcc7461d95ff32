"""Programs send e-mails of the kinds that apps have registered, each once."""

from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import translation

from tests.integration.conftest import InThreads
from tests.programs import KIND, Program, World, token
from weir.workers.mail import kinds, suppression
from weir.workers.mail.kinds import Content
from weir.workers.mail.models import Email, Rendering

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def program(world: World) -> Program:  # noqa: ARG001  made in it
    return Program(token("weir_mail.add_email"))


@pytest.fixture(autouse=True)
def _note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a kind, as an app would; it says what its context says."""
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))
    kinds.register("note")(lambda *, text, name="": Content(subject="A note", text=f"{text} {name}"))


def letter(key: str = "17", **given: Any) -> dict[str, Any]:
    return {"kind": "note", "key": key, "to": "Kim <kim@example.com>", "context": {"text": "Hello"}, **given}


def test_a_repeated_request_gets_the_same_email(program: Program) -> None:
    """Also if it says something else: the first one counts, as in web code."""
    first = program.call("POST", "/emails", letter())
    again = program.call("POST", "/emails", letter(to="eve@example.com", context={"text": "Another"}))
    assert [answer.status_code for answer in (first, again)] == [201, 200]
    assert again.json() == first.json()
    assert first.json().keys() == {"id", "kind", "key", "state", "created_at"}, "whoever adds need not see others' text"
    email = Email.objects.get(kind="note")
    assert (email.pk, email.recipient, email.recipient_name) == (first.json()["id"], "kim@example.com", "Kim")
    assert b"Hello" in Rendering.objects.get(email=email).content


def test_what_web_code_has_sent_is_not_sent_again(program: Program, world: World) -> None:
    sent = Email.objects.get(pk=world.email)
    answer = program.call("POST", "/emails", letter(sent.key, kind=KIND, context={"order_id": world.order}))
    assert (answer.status_code, answer.json()["id"], answer.json()["state"]) == (200, sent.pk, "unknown")


def test_of_programs_at_once_one_queues_it(program: Program, in_threads: InThreads) -> None:
    answers = in_threads(
        8, lambda number: Program(program.secret).call("POST", "/emails", letter(to=f"k{number}@a.example"))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert Email.objects.filter(kind="note").count() == 1


def test_what_cannot_be_sent_is_refused_and_not_stored(program: Program) -> None:
    """The program learns at once what would otherwise stand in a row that it does not see."""
    suppression.suppress("kim@example.com", "It bounced.")
    for given, kind, words in (
        ({}, "suppressed", "The address is on the suppression list"),
        ({"to": "KIM@example.com"}, "suppressed", "The address is on the suppression list"),
        ({"to": "ada@a.example", "kind": "notes"}, "invalid", "There is no kind of e-mail 'notes'. Did you mean"),
        ({"to": "ada@a.example", "context": {}}, "invalid", "note lacks text: it must have text and may take name."),
        ({"to": "ada@a.example", "context": {"text": "a", "x": 1}}, "invalid", "note does not take x"),
        ({"to": "ada@a.example", "kind": KIND, "context": {"order_id": 0}}, "invalid", "DoesNotExist"),
        ({"to": "ada"}, "invalid", "'ada' is not an e-mail address"),
        ({"to": "ada@a.example", "expires_at": "2020-01-31T12:00:00Z"}, "invalid", "it would never be sent"),
        ({"to": "ada@a.example", "kind": "weir.needs_somebody"}, "invalid", "Only Weir itself sends"),
    ):
        answer = program.call("POST", "/emails", letter(**given))
        said = answer.json()
        assert (answer.status_code, said["type"], words in said["detail"]) == (422, f"/api/problems/{kind}", True), said
    assert not Email.objects.filter(key="17").exists()
    assert program.call("POST", "/emails", letter(to="ada@a.example")).status_code == 201, "the key is still free"


def test_an_email_that_was_sent_is_answered_though_its_address_is_suppressed_now(program: Program) -> None:
    program.call("POST", "/emails", letter())
    Email.objects.filter(kind="note").update(state="sent", sent_at=Now())
    suppression.suppress("kim@example.com", "It bounced.")
    assert program.call("POST", "/emails", letter()).status_code == 200


def test_the_language_is_not_that_of_the_program(program: Program) -> None:
    """The header Accept-Language speaks of the answer."""
    with translation.override("de"):
        program.call("POST", "/emails", letter())
    assert Email.objects.get(kind="note").language == "en"
    program.call("POST", "/emails", letter("18", language="de"))
    assert Email.objects.get(key="18").language == "de"
