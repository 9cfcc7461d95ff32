"""`manage.py emails`: kinds that are paused, the suppression list, forgetting, and previews."""

import json
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import Message
from tests.integration.mail.shipments import MARKS, accepted, ship, state
from tests.integration.mail.test_emails_command import refused, told
from weir.workers import task_names
from weir.workers.mail import suppression
from weir.workers.mail.maintenance import operators
from weir.workers.mail.models import Email, MailAct, PausedKind, Suppression
from weir.workers.mail.phases import EmailState
from weir.workers.mail.reports import counts
from weir.workers.mail.sending import runner
from weir.workers.orders.models import SHIPPED

pytestmark = MARKS
WHY = ("--why", "because", "--who", "Ada")


def acts() -> list[tuple[str, str, str, str]]:
    return list(MailAct.objects.order_by("pk").values_list("what", "about", "who", "why"))


def data(*arguments: object) -> Any:
    return json.loads(told(*arguments, "--json"))


# --- kinds ------------------------------------------------------------------------------------------------


def test_a_paused_kind_waits_until_somebody_resumes_it(mail: MailServer, messages: list[Message]) -> None:
    """The pause says who set it, and why; both acts are kept."""
    email = ship()
    assert told("pause", SHIPPED, *WHY) == f"{SHIPPED} is paused: what is queued waits.\n"
    assert runner.send_due().sent == 0
    assert "paused by Ada" in told("kinds")
    assert f"Ada has paused the kind {SHIPPED} since" in told("show", email.pk)
    messages.clear()
    assert told("resume", SHIPPED, *WHY) == f"Sending {SHIPPED} is resumed.\n"
    assert messages == [(task_names.SEND_EMAILS, ())]
    assert runner.send_due().sent == 1
    assert accepted(mail, email) == 1
    assert acts() == [("pause", SHIPPED, "Ada", "because"), ("resume", SHIPPED, "Ada", "because")]


def test_what_is_paused_twice_keeps_its_first_reason() -> None:
    """And what is not paused cannot be resumed; neither call is recorded."""
    told("pause", SHIPPED, *WHY)
    assert refused("pause", SHIPPED, "--why", "another") == f"{SHIPPED}, paused by Ada: because. It stays so."
    told("resume", SHIPPED, *WHY)
    assert refused("resume", SHIPPED, *WHY) == f"{SHIPPED} is not paused."
    assert len(acts()) == 2


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_kind_that_is_misspelt_is_refused(action: str) -> None:
    assert "There is no kind 'order.shiped'. Did you mean order.shipped?" in refused(action, "order.shiped", *WHY)
    assert not acts()


def test_a_kind_that_no_app_registers_any_more_can_be_resumed() -> None:
    """Its e-mails still exist, and so does its pause."""
    PausedKind.objects.create(kind="old.kind", who="Ada", why="x")
    assert [kind["is_registered"] for kind in data("kinds")["kinds"] if kind["kind"] == "old.kind"] == [False]
    told("resume", "old.kind", *WHY)
    assert not PausedKind.objects.exists()


def test_kinds_are_listed_with_what_waits_is_unknown_and_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Including one that has e-mails but that no app registers; counting ends at a bound."""
    monkeypatch.setattr(counts, "MOST", 2)
    for word in ("refuse", "cut-accepted"):
        ship(word)
    runner.send_due()
    for _ in range(3):
        ship()
    Email.objects.create(kind="old.kind", key="1", message_id="<1>")
    found = {kind["kind"]: kind for kind in data("kinds")["kinds"]}
    assert {name: found[SHIPPED][name] for name in ("is_registered", "paused", "waiting", "unknown", "failed")} == {
        "is_registered": True, "paused": None, "waiting": 2, "unknown": 1, "failed": 1,
    }  # fmt: skip
    assert (found["old.kind"]["is_registered"], found["old.kind"]["waiting"]) == (False, 1)
    printed = " ".join(told("kinds").split())
    assert f"{SHIPPED} 2+ 1 1 0 0" in printed
    assert "old.kind 1 0 0 0 0 no app registers it" in printed


# --- the suppression list -----------------------------------------------------------------------------


def test_an_address_on_the_list_is_not_written_to_until_it_is_taken_off(mail: MailServer) -> None:
    """In any case of letters; both acts are kept, by the address' hash."""
    email = ship()
    assert told("suppress", email.recipient.upper().replace("CUSTOMERS.EXAMPLE", "customers.example"), *WHY)
    assert "on the suppression list" in told("show", email.pk)
    assert runner.send_due().suppressed == 1
    assert state(email) == (EmailState.SUPPRESSED, 0)
    assert told("unsuppress", email.recipient, *WHY) == f"{email.recipient} is written to again.\n"
    told("resolve", email.pk, "--resend", *WHY)
    assert runner.send_due().sent == 1
    assert accepted(mail, email) == 1
    hashed = suppression.address_hash(email.recipient)
    assert acts() == [("suppress", hashed, "Ada", "because"), ("release", hashed, "Ada", "because")]


def test_what_is_on_the_list_or_is_not_is_said() -> None:
    told("suppress", "kim@example.com", *WHY)
    assert refused("suppress", "Kim@EXAMPLE.com", *WHY) == "Kim@example.com is on the suppression list already."
    assert refused("unsuppress", "ada@example.com", *WHY) == "ada@example.com is not on the suppression list."
    assert refused("suppress", "no address", *WHY) == "'no address' is not an e-mail address."
    assert len(acts()) == 1


def test_an_address_is_recognised_in_letters_of_any_script() -> None:
    """It is stored with its domain in ASCII, and operators write it as they know it."""
    email = ship()
    Email.objects.filter(pk=email.pk).update(recipient="kim@xn--mller-kva.example")
    for written in ("kim@müller.example", "Kim@MÜLLER.example"):
        assert [found["id"] for found in data("list", "--to", written)["emails"]] == [email.pk]
    assert operators.suppress("kim@Müller.example", "Ada", "because")
    assert "on the suppression list" in told("show", email.pk)
    assert operators.release("kim@Müller.example", "Ada", "because")
    assert not Suppression.objects.exists()


def test_the_list_is_shown_by_pages_the_newest_first() -> None:
    """Of an address that was forgotten, it has the hash."""
    assert told("suppressed") == "No address is on the suppression list.\n"
    suppression.suppress("a@example.com", "550 no such user \x1b[31m")
    suppression.suppress("b@example.com", "forgotten", keep_address=False)
    suppression.suppress("c@example.com", "550")
    first = data("suppressed", "--limit", 2)
    assert [entry["address"] for entry in first["suppressed"]] == ["c@example.com", None]
    assert first["has_more"]
    last = first["suppressed"][-1]["id"]
    assert told("suppressed", "--limit", 2).endswith(f"More are on the list: --before {last} goes on.\n")
    [only] = data("suppressed", "--before", last)["suppressed"]
    assert (only["address"], data("suppressed", "--before", last)["has_more"]) == ("a@example.com", False)
    shown = told("suppressed")
    assert suppression.address_hash("b@example.com") in "".join(shown.split())
    assert "\x1b" not in shown


# --- forgetting ---------------------------------------------------------------------------------------


def test_forgetting_says_what_it_did() -> None:
    """If e-mails are left, that is an error that says why: the command has to be repeated."""
    email = ship()
    assert told("forget", email.recipient, *WHY) == "1 e-mail forgotten, 1 of them cancelled.\n"
    assert data("forget", email.recipient, *WHY) == {"forgotten": 0, "cancelled": 0, "left": 0}
    assert Suppression.objects.get().address == ""


# --- previews -----------------------------------------------------------------------------------------


def test_a_stored_e_mail_is_shown_as_it_is_transmitted(mail: MailServer, capsysbinary: Any) -> None:
    """As text, as HTML, or to the last byte."""
    email = ship()
    text = told("preview", email.pk)
    assert f"To: {email.recipient}" in text
    assert f"Subject: {email.subject}" in text
    assert "It is on its way to you." in text
    call_command("emails", "preview", str(email.pk), "--format", "eml")
    assert capsysbinary.readouterr().out == bytes(email.rendering.content)
    call_command("emails", "preview", str(email.pk), "--format", "html")
    assert b"<strong>" in capsysbinary.readouterr().out
    runner.send_due()
    assert accepted(mail, email) == 1
    assert told("preview", email.pk) == text
    assert data("preview", email.pk)["is_stored"]


def test_a_kind_is_shown_with_arguments_and_nothing_is_stored() -> None:
    """Numbers are numbers; the first line says that it was rendered for this."""
    order = int(ship().key)
    before = Email.objects.count()
    shown = told("preview", SHIPPED, f"order_id={order}", "--to", "kim@example.com")
    assert shown.startswith("(rendered now, not stored)\n")
    assert "To: kim@example.com" in shown
    assert data("preview", SHIPPED, f"order_id={order}")["html"].startswith("<!doctype html>")
    assert Email.objects.count() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["order.shiped"], "Did you mean order.shipped?"),
        ([SHIPPED], "order.shipped lacks order_id: it must have order_id. Give KEY=VALUE for each."),
        (
            [SHIPPED, "id=1", "no=2"],
            "lacks order_id, and does not take id and no: it must have order_id.",
        ),
        ([SHIPPED, "order_id"], "write KEY=VALUE, not 'order_id'"),
        ([SHIPPED, "order_id=1", "--language", "xx!"], "There is no language 'xx!'"),
        ([SHIPPED, "order_id=1", "--language", "fr"], "There is no language 'fr'"),
        ([SHIPPED, "order_id=1", "--format", "htm"], "There is no format 'htm'. Did you mean html?"),
        ([SHIPPED, "order_id=1", "--to", "nobody"], "'nobody' is not an e-mail address."),
        (["1", "order_id=1"], "An e-mail that is stored has its arguments: give the id alone."),
        (["999999999"], "There is no e-mail 999999999."),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(arguments: list[str], sentence: str, settings: Settings) -> None:
    settings.LANGUAGES = [("en", "English"), ("de", "German")]
    assert sentence in refused("preview", *arguments)


def test_what_was_deleted_after_its_retention_is_not_rendered_anew() -> None:
    """It might differ from what was sent: its hash is shown."""
    email = ship()
    runner.send_due()
    email.rendering.delete()
    email.refresh_from_db()
    assert f"Its SHA-256 is {email.content_hash}." in refused("preview", email.pk)


def test_who_and_why_must_be_said() -> None:
    """Nothing is done without a reason."""
    for action, about in (
        ("pause", SHIPPED), ("resume", SHIPPED), ("suppress", "a@b.example"), ("unsuppress", "a@b.example"),
        ("forget", "a@b.example"), ("cancel", "1"), ("correct", "1"),
    ):  # fmt: skip
        with pytest.raises(CommandError, match="--why"):
            told(action, about)
    assert not acts()
    assert not Suppression.objects.exists()
