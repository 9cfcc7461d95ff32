"""`manage.py emails`: what it counts and lists, and what a person may say."""

import getpass
import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from demo.fakes import mail_server
from tests.integration.conftest import Message
from weir.workers import task_names
from weir.workers.mail.models import Act, Email, RelayHold, Resolution
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.reports import counts
from weir.workers.mail.sending import runner
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

REPLY = "ConnectionResetError: [Errno 104] Connection reset by peer"


def shipped(number: str, **fields: Any) -> Email:
    """Ship an order; returns its e-mail, with these fields."""
    order = Order.objects.create(number=number, customer_email=f"{number.lower()}@example.com")
    shipping.ship(order.pk)
    email = order.shipped_email
    Email.objects.filter(pk=email.pk).update(**fields)
    email.refresh_from_db()
    return email


def unknown(number: str, minutes: int = 0, **fields: Any) -> Email:
    """Return an e-mail whose transmission began this many minutes ago, and whose outcome is not known."""
    known = {"phase": Phase.AFTER_DOT, "last_reply": REPLY, "claimed_by": "mail-1:77", "attempts": 1}
    since = Now() - timedelta(minutes=minutes)
    return shipped(number, state=EmailState.UNKNOWN, claim_token=uuid4(), sending_since=since, **{**known, **fields})


def failed(number: str) -> Email:
    return shipped(number, state=EmailState.FAILED, phase=Phase.NOT_BEGUN, last_reply="550 There is no such recipient")


def told(*arguments: object) -> str:
    """Return what the command prints."""
    output = StringIO()
    call_command("emails", *map(str, arguments), stdout=output)
    return output.getvalue()


def refused(*arguments: object) -> str:
    """Return the sentence in which the command refuses."""
    with pytest.raises(CommandError) as refusal:
        told(*arguments)
    return str(refusal.value)


# --- the list -----------------------------------------------------------------------------------------


COUNTED = [state.value for state in EmailState if state != EmailState.SENT]


SENT = {(number, "sent", "in", "the", "last", period) for number, period in (("1", "hour"), ("2", "day"))}


def test_every_state_is_counted_and_what_was_sent_lately() -> None:
    """The reader need not know which states there are; all that were ever sent are too many to count."""
    assert [line.split()[0] for line in told().splitlines()] == ["0"] * (len(COUNTED) + 2)
    shipped("A-1")
    shipped("A-2")
    failed("A-3")
    for number, hours in enumerate((0, 2, 25)):
        ended = Now() - timedelta(hours=hours)
        shipped(f"A-4{number}", state=EmailState.SENT, sent_at=ended, ended_at=ended)
    lines = {tuple(line.split()) for line in told().splitlines()}
    assert lines == {("0", state) for state in COUNTED} - {("0", "pending"), ("0", "failed")} | {
        ("2", "pending"), ("1", "failed"), *SENT,
    }  # fmt: skip


def test_counting_ends_at_ten_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output says so: to people by a plus, to machines by the number where it ended."""
    monkeypatch.setattr(counts, "MOST", 2)
    for number in range(3):
        shipped(f"A-{number}")
    assert "2+ pending" in told()
    found = json.loads(told("list", "--json"))
    assert (found["counts"]["pending"], found["counted_to"]) == (2, 2)


def test_a_relay_that_cannot_be_used_is_named() -> None:
    """With the time since when, and its reply; nothing else is wrong with the e-mails that wait."""
    RelayHold.objects.create(relay="mx.example:25", reason="It refuses us: 550 5.7.1 \x1b[31m")
    listed = told()
    assert "The relay mx.example:25 cannot be used since 20" in listed
    assert "It refuses us: 550 5.7.1" in listed
    assert "\x1b" not in listed
    assert [hold["relay"] for hold in json.loads(told("list", "--json"))["held_relays"]] == ["mx.example:25"]


def test_unknown_ones_are_listed_oldest_first_with_what_is_known() -> None:
    """Each has a line with its kind, key, recipient, phase, last reply, worker, and age."""
    young = unknown("A-1", 5, last_reply="reset", subject="first")
    old = unknown("A-2", 125, phase=Phase.BEGUN, last_reply="silence", claimed_by="mail-2:8", subject="second")
    shipped("A-3")
    *_, header, first, second = told().splitlines()
    assert header.split() == ["id", "kind", "key", "recipient", "subject", "phase", "last", "reply", "worker", "age"]
    assert first.split() == [
        str(old.pk), "order.shipped", old.key, "a-2@example.com", "second", "begun", "silence", "mail-2:8", "2h", "05m",
    ]  # fmt: skip
    assert second.split()[:7] == [
        str(young.pk), "order.shipped", young.key, "a-1@example.com", "first", "after", "dot",
    ]  # fmt: skip
    assert second.split()[-2:] == ["5m", "00s"]


def test_what_a_mail_server_leaves_unknown_is_listed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one accepts the e-mail and cuts the connection: it is listed until a person says that it arrived."""
    monkeypatch.setattr("weir.workers.mail.sending.routes._breakers", {})
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
    order = Order.objects.create(number="A-1", customer_email="cut-accepted.1@example.com")
    shipping.ship(order.pk)
    with mail_server.running(tmp_path) as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = mail_server.HOST, server.port
        assert runner.send_due().unknown == 1
        [email] = json.loads(told("list", "--json"))["emails"]
        assert (email["recipient"], email["phase"]) == ("cut-accepted.1@example.com", "after dot")
        assert [email["message_id"]] == list(server.received())
        told("resolve", email["id"], "--arrived", "--why", "it is in the mail server's log")
        assert [it["id"] for it in json.loads(told("list", "--state", "sent", "--json"))["emails"]] == [email["id"]]
        assert runner.send_due().sent == 0


def test_failed_ones_are_listed_where_they_are_asked_for() -> None:
    """They can be sent again, too; unknown ones are not in that list."""
    email = failed("A-1")
    unknown("A-2")
    assert "There is no such recipient" not in told()
    listed = " ".join(told("list", "--state", "failed").split())
    assert f"{email.pk} order.shipped {email.key} a-1@example.com" in listed
    assert "550 There is" in listed
    assert "a-2@example.com" not in listed


@pytest.mark.parametrize("state", ["pending", "sending", "sent"])
def test_the_e_mails_of_any_state_are_listed(state: str) -> None:
    """The oldest first, sent ones the newest first; e-mails that only wait can be listed, too."""
    fields: dict[str, dict[str, Any]] = {
        "pending": {},
        "sending": {"sending_since": Now(), "claim_token": uuid4()},
        "sent": {"sent_at": Now()},
    }
    first, second = (shipped(number, state=state, **fields[state]) for number in ("A-1", "A-2"))
    failed("A-3")
    found = json.loads(told("list", "--state", state, "--json"))
    in_order = [second.pk, first.pk] if state == "sent" else [first.pk, second.pk]
    assert [email["id"] for email in found["emails"]] == in_order
    assert "a-2@example.com" in told("list", "--state", state)


def test_those_to_an_address_are_listed_in_any_state() -> None:
    """Or to addresses that begin so, in any case, or only of one state or kind; the table has the state of each."""
    first, second, other = failed("Kim-1"), shipped("kim-2"), shipped("Ada-1")

    def found(*arguments: str) -> list[int]:
        return [email["id"] for email in json.loads(told("list", "--json", *arguments))["emails"]]

    assert found("--to", "KIM-1@example.com") == [first.pk]
    assert found("--to", "kim") == [first.pk, second.pk]
    assert found("--to", "kim", "--state", "pending", "--kind", "order.shipped") == [second.pk]
    assert found("--to", "%") == []
    listed = told("list", "--to", "kim")
    assert "failed" in listed.splitlines()[-2] or "failed" in listed.partition("recipient")[2]
    assert other.recipient not in listed


def test_a_kind_that_there_is_not_is_refused_with_what_may_have_been_meant() -> None:
    assert "Did you mean order.shipped?" in refused("list", "--kind", "order.shiped")
    assert json.loads(told("list", "--kind", "order.shipped", "--json"))["emails"] == []
    assert "There is no kind 'old'" in refused("list", "--kind", "old")
    old = shipped("A-1", kind="old")
    assert [it["id"] for it in json.loads(told("list", "--kind", "old", "--state", "pending", "--json"))["emails"]] == [
        old.pk
    ]


def test_one_is_shown_with_all_that_is_known_and_what_was_said() -> None:
    """For people without control characters; for machines with all times."""
    email = unknown("A-1", 10, last_reply="\x1b[31mreset")
    told("resolve", email.pk, "--resend", "--why", "Not in the log", "--who", "Ada")
    text = told("show", email.pk)
    lines = dict(line.strip().split("  ", 1) for line in text.splitlines()[1:])
    assert {name: lines[name].strip() for name in ("state", "key", "recipient", "Message-ID")} == {
        "state": "pending", "key": email.key, "recipient": "a-1@example.com", "Message-ID": email.message_id,
    }  # fmt: skip
    assert "Ada: send it again. Not in the log" in text
    assert "\x1b" not in text
    of = json.loads(told("show", email.pk, "--json"))
    assert (of["state"], of["attempts"], of["sent_at"]) == ("pending", 0, None)
    assert [(said["who"], said["did"], said["was"]) for said in of["resolutions"]] == [("Ada", "resend", "unknown")]
    assert refused("show", email.pk + 1) == f"There is no e-mail {email.pk + 1}."


def test_the_list_for_machines_has_all_fields() -> None:
    """`--json` prints one object: all counts, and of each listed e-mail what the table says and more."""
    email = unknown("A-1", 10, last_reply="word " * 200)
    printed = json.loads(told("list", "--json"))
    age_s = printed["emails"][0].pop("age_s")
    assert 600 <= age_s < 660
    assert printed == {
        "counts": {**dict.fromkeys(COUNTED, 0), "unknown": 1},
        "counted_to": 10_000,
        "sent": {period: {"number": 0, "or_more": False, "by_kind": {}} for period in ("last_hour", "last_day")},
        "held_relays": [],
        "state": "unknown",
        "has_more": False,
        "emails": [
            {
                "id": email.pk,
                "kind": "order.shipped",
                "state": "unknown",
                "key": email.key,
                "recipient": "a-1@example.com",
                "subject": "Your order A-1 is on its way",
                "message_id": email.message_id,
                "attempts": 1,
                "phase": "after dot",
                "last_reply": "word " * 200,
                "worker": "mail-1:77",
            }
        ],
    }


def test_ages_are_counted_by_the_databases_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are right on a host whose clock is an hour wrong."""
    unknown("A-1", 10)
    wrong = timezone.now() + timedelta(hours=1)
    monkeypatch.setattr(timezone, "now", lambda: wrong)
    assert 600 <= json.loads(told("list", "--json"))["emails"][0]["age_s"] < 660


def test_the_oldest_are_kept_and_that_there_are_more_is_said() -> None:
    """0 shows all."""
    emails = [unknown(f"A-{number}", number) for number in range(3)]
    found = json.loads(told("list", "--json", "--limit", 2))
    assert [email["id"] for email in found["emails"]] == [emails[2].pk, emails[1].pk]
    assert found["has_more"]
    assert told("list", "--limit", 2).endswith("More are not shown: --limit 0 shows all.\n")
    assert len(json.loads(told("list", "--json", "--limit", 0))["emails"]) == 3
    assert "not shown" not in told("list", "--limit", 3)


def test_what_others_wrote_cannot_steer_the_terminal_or_hide_a_column() -> None:
    """Control characters are replaced, markup is literal, and long texts are folded or cut, so that all fits."""
    order = Order.objects.create(number="[red]A-1", customer_email=f"{'x' * 60}@example.com")
    shipping.ship(order.pk)
    Email.objects.update(
        state=EmailState.UNKNOWN, claim_token=uuid4(), sending_since=Now() - timedelta(days=2), phase=Phase.AFTER_DOT,
        last_reply="\x1b[31m" + "long " * 200, claimed_by="mail.example:77",
    )  # fmt: skip
    listed = told()
    assert "\x1b" not in listed
    assert "[red]A-1" in "".join(listed.split())
    assert "2d 00h" in listed
    assert max(map(len, listed.splitlines())) <= 120
    assert listed.count("long") < 50


# --- resolve ------------------------------------------------------------------------------------------


def test_what_arrived_is_sent_and_who_said_so_and_why_is_kept() -> None:
    """The row is `sent`; the resolution keeps what was known before."""
    email = unknown("A-1")
    printed = told("resolve", email.pk, "--arrived", "--why", "The customer has it", "--who", "Ada")
    assert printed == f"E-mail {email.pk}: it arrived.\n"
    assert Email.objects.get().state == EmailState.SENT
    resolution = Resolution.objects.get()
    assert (resolution.done, resolution.who, resolution.why) == (Act.ARRIVED, "Ada", "The customer has it")
    assert (resolution.phase, resolution.last_reply) == (Phase.AFTER_DOT, REPLY)


def test_what_is_to_be_sent_again_is_pending_and_a_worker_hears_of_it(messages: list[Message]) -> None:
    """Unknown and failed ones alike; without --who it is the user of the operating system who says so."""
    emails = [unknown("A-1"), failed("A-2")]
    messages.clear()
    printed = told("resolve", *(email.pk for email in emails), "--resend", "--why", "The mail server lost it")
    assert printed.splitlines() == [f"E-mail {email.pk}: it is sent again." for email in emails]
    assert set(Email.objects.values_list("state", "attempts")) == {(EmailState.PENDING, 0)}
    assert set(Resolution.objects.values_list("who", "why")) == {(getpass.getuser(), "The mail server lost it")}
    assert set(messages) == {(task_names.SEND_EMAILS, ())}


def test_each_is_resolved_by_itself_and_what_could_not_be_is_said_at_the_end() -> None:
    """One that cannot be resolved stops no other; an id that is given twice counts once."""
    first, waiting, last = unknown("A-1"), shipped("A-2"), unknown("A-3")
    output = StringIO()
    ids = [str(key) for key in (first.pk, waiting.pk, 2**63 - 1, first.pk, last.pk)]
    with pytest.raises(CommandError) as refusal:
        call_command("emails", "resolve", *ids, "--arrived", "--why", "seen", stdout=output)
    assert refusal.value.returncode == 1
    assert str(refusal.value).splitlines() == [
        f"E-mail {waiting.pk} is pending: only unknown ones can have arrived.",
        f"There is no e-mail {2**63 - 1}.",
    ]
    assert output.getvalue().splitlines() == [f"E-mail {key}: it arrived." for key in (first.pk, last.pk)]
    states = dict(Email.objects.values_list("pk", "state"))
    assert states == {first.pk: EmailState.SENT, waiting.pk: EmailState.PENDING, last.pk: EmailState.SENT}
    assert Resolution.objects.count() == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--arrived", "--why", " "], "--why: it must not be blank"),
        (["--arrived", "--why", "seen", "--who", ""], "--who: it must not be blank"),
        (["--arrived", "--why", "seen", "--who", "x" * 255], "--who: it must have 254 characters at most"),
        (["--arrived"], "--why"),
        (["--why", "seen"], "one of the arguments --arrived --resend --give-up is required"),
        (["--arrived", "--resend", "--why", "seen"], "not allowed with argument"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(arguments: list[str], sentence: str) -> None:
    """A person must say what became of it, and why; nothing is guessed."""
    email = unknown("A-1")
    assert sentence in refused("resolve", email.pk, *arguments)
    assert Email.objects.get().state == EmailState.UNKNOWN
    assert not Resolution.objects.exists()


def test_an_unknown_one_can_be_given_up() -> None:
    """It is not sent again, and is not said to have arrived."""
    email = unknown("A-1")
    assert told("resolve", email.pk, "--give-up", "--why", "The customer was called") == (
        f"E-mail {email.pk}: it stays unsent.\n"
    )
    assert Email.objects.get().state == EmailState.FAILED


def test_what_waits_is_cancelled_and_what_was_sent_is_not() -> None:
    """The row says who did it, and why; those that were sent are named."""
    waiting, sent = shipped("A-1"), shipped("A-2", state=EmailState.SENT, sent_at=Now())
    sentence = f"E-mail {sent.pk} is sent: only pending or claimed ones can be cancelled."
    assert refused("cancel", waiting.pk, sent.pk, "--why", "The order was cancelled", "--who", "Ada") == sentence
    assert Email.objects.get(pk=waiting.pk).state == EmailState.CANCELLED
    said = Resolution.objects.get()
    assert (said.email_id, said.done, said.who) == (waiting.pk, Act.CANCEL, "Ada")


def test_one_that_was_not_accepted_is_rendered_anew_to_another_address() -> None:
    """A bad address changes nothing."""
    email = failed("A-1")
    Order.objects.update(number="B-1")
    assert refused("correct", email.pk, "--to", "no address", "--why", "x") == "'no address' is not an e-mail address."
    assert Email.objects.get().state == EmailState.FAILED
    printed = told("correct", email.pk, "--to", "Kim <kim@example.com>", "--why", "A typing mistake")
    assert printed == f"E-mail {email.pk}: it is rendered anew, and sent.\n"
    assert Email.objects.values_list("state", "recipient", "recipient_name").get() == (
        EmailState.PENDING, "kim@example.com", "Kim",
    )  # fmt: skip
    assert "Your order B-1 is on its way" in told("preview", email.pk)


def test_a_failed_one_cannot_be_said_to_have_arrived() -> None:
    """The mail server refused it."""
    email = failed("A-1")
    sentence = f"E-mail {email.pk} is failed: only unknown ones can have arrived."
    assert refused("resolve", email.pk, "--arrived", "--why", "seen") == sentence


def test_who_has_no_name_in_the_operating_system_must_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container whose user is only a number, --who names the person."""

    def nameless() -> NoReturn:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nameless)
    email = unknown("A-1")
    assert "say it with --who" in refused("resolve", email.pk, "--arrived", "--why", "seen")
    told("resolve", email.pk, "--arrived", "--why", "seen", "--who", "Ada")
    assert Resolution.objects.get().who == "Ada"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["list", "--limit", "-1"], "argument --limit: must be a whole number from 0 up, not '-1'"),
        (["list", "--limit", "all"], "argument --limit: must be a whole number from 0 up, not 'all'"),
        (["resolve", "A-1", "--resend", "--why", "lost"], "argument ID: must be a whole number above 0, not 'A-1'"),
    ],
)
def test_what_is_no_number_is_refused_in_a_sentence(arguments: list[str], sentence: str) -> None:
    """It says what must be there."""
    assert sentence in refused(*arguments)
