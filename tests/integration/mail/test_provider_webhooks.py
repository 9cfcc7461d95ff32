"""What providers report by webhooks ends where delivery reports end; what nobody has signed changes nothing."""

import json
import random
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings
from structlog.testing import capture_logs

from tests import provider_requests
from tests.cases import case, for_each
from tests.integration.mail import shipments
from weir.workers.mail import resolving, suppression
from weir.workers.mail.checks import provider_webhooks_can_be_received
from weir.workers.mail.maintenance import operators
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.providers.known import PROVIDERS
from weir.workers.mail.sending import leases, outcomes
from weir.workers.mail.signals import email_bounced
from weir.workers.mail.transports.base import Accepted
from weir.workers.mail.web import webhooks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("messages")]

ID = "9f0c1d2e-3b4a-4c5d-8e6f-0123456789ab"  # as Resend and Postmark name an e-mail


@pytest.fixture(autouse=True)
def _secrets(settings: Settings) -> None:
    settings.WEIR_SECRETS = provider_requests.secrets()


def came_to(state: EmailState, **fields: Any) -> Email:
    """Return an e-mail in this state, of which the provider has told its id."""
    email, now = shipments.ship(), timezone.now() - timedelta(minutes=1)
    held = {"claim_token": uuid4(), "sending_since": now}
    of_state: dict[EmailState, dict[str, Any]] = {
        EmailState.SENT: {"sent_at": now, "provider_id": ID},
        EmailState.UNKNOWN: held | {"phase": Phase.BEGUN, "last_reply": "died", "provider_id": ID},
        EmailState.SENDING: held,
    }
    Email.objects.filter(pk=email.pk).update(state=state, relay="r", **(of_state[state] | fields))
    email.refresh_from_db()
    return email


def name_of(provider: str, email: Email) -> str:
    return ID if provider in {"resend", "postmark"} else email.message_id


def post(provider: str, request: provider_requests.ProviderRequest) -> Any:
    path = f"/mail/webhooks/{provider}/"
    headers: Any = dict(request.headers)
    return Client(enforce_csrf_checks=True).post(path, request.body, content_type="application/json", headers=headers)


def told(provider: str, what: str, email: Email, *, ago: timedelta = timedelta(0), **said: Any) -> int:
    """Let the provider say this of the e-mail; return the status of the answer."""
    given: dict[str, Any] = {"name": name_of(provider, email), "to": email.recipient, "at": timezone.now() - ago} | said
    status: int = post(provider, provider_requests.event(provider, what, **given)).status_code
    return status


def end_of(email: Email) -> tuple[str, bool, bool, bool]:
    email.refresh_from_db()
    listed = bool(suppression.reasons([email.recipient]))
    return email.state, listed, email.delivered_at is not None, email.complained_at is not None


@for_each("provider", PROVIDERS)
def test_what_came_back_is_bounced_by_the_rule_of_delivery_reports(provider: str) -> None:
    """And only an address that does not exist is suppressed."""
    for said, is_listed in ((provider_requests.NO_SUCH_USER, True), ("452 4.2.2 The mailbox is full", False)):
        email = came_to(EmailState.SENT)
        if provider == "sendgrid" and not is_listed:
            continue  # its status is beside the words
        assert told(provider, "failed", email, said=said) == 200
        assert end_of(email) == (EmailState.BOUNCED, is_listed, False, False)
        resolution = Resolution.objects.get(email=email)
        assert (resolution.act, resolution.who) == (Act.BOUNCED, f"{PROVIDERS[provider].title}'s webhook")
        assert email.recipient not in f"{email.last_reply}{resolution.why}"
        Email.objects.filter(pk=email.pk).update(provider_id="")


@for_each("provider", PROVIDERS)
def test_an_unknown_email_is_settled_by_what_proves_that_the_provider_has_it(provider: str) -> None:
    """Postmark does not say that it accepted one."""
    for what in ("accepted", "delivered", "delayed", "complained"):
        with case(what):
            email = came_to(EmailState.UNKNOWN)
            assert told(provider, what, email) == 200
            settled = (provider, what) != ("postmark", "accepted")
            assert end_of(email)[0] == (EmailState.SENT if settled else EmailState.UNKNOWN)
            acts = [(said.act, said.who) for said in Resolution.objects.filter(email=email)]
            assert acts == ([(Act.ARRIVED, f"{PROVIDERS[provider].title}'s webhook")] if settled else [])
            Email.objects.filter(pk=email.pk).update(provider_id="")


def test_any_order_and_repetition_of_events_leads_to_the_same_end() -> None:
    """Of an e-mail that was sent, and of one that is unknown."""
    every, chance = ("accepted", "delivered", "delayed", "failed", "complained"), random.Random(17)  # noqa: S311
    sets = [chosen for size in range(1, 6) for chosen in combinations(every, size)]
    for chosen in chance.sample(sets, 12):
        said = [*chosen, *chance.choices(chosen, k=2)]
        chance.shuffle(said)
        start = chance.choice([EmailState.SENT, EmailState.UNKNOWN])
        with case(f"{start}: {said}"):
            email = came_to(start)
            assert {told("resend", what, email) for what in said} == {200}
            state = EmailState.BOUNCED if "failed" in chosen else EmailState.SENT
            listed = bool({"failed", "complained"} & {*chosen})
            assert end_of(email) == (state, listed, "delivered" in chosen, "complained" in chosen)
            Email.objects.filter(pk=email.pk).update(provider_id="")


def test_what_comes_before_the_mailer_has_recorded_the_id_comes_again() -> None:
    """A mailer that is stopped between the provider's answer and the commit."""
    email = came_to(EmailState.SENDING)
    stranger = shipments.ship()
    assert told("resend", "delivered", email) == 503
    assert told("resend", "delivered", stranger) == 200  # of another program with the same account
    leases.record(email, outcomes.accepted(Accepted("200", ID)))
    assert told("resend", "delivered", email) == 200
    assert end_of(email)[:3] == (EmailState.SENT, False, True)


@for_each("what", ["accepted", "delivered", "complained"])
def test_what_is_named_by_its_message_id_while_it_is_sent_is_sent_even_if_the_mailer_dies(what: str) -> None:
    """Mailgun does not repeat that it delivered."""
    email = came_to(EmailState.SENDING)
    assert told("mailgun", what, email) == 200
    assert end_of(email)[0] == EmailState.SENDING  # the mailer has it
    Email.objects.filter(pk=email.pk).update(sending_since=Now() - timedelta(days=1))
    assert leases.end_silent() == 0
    assert end_of(email)[0] == EmailState.SENT
    assert email.last_reply.startswith("Mailgun's webhook: It is ")


def test_a_failure_of_an_email_that_is_being_sent_comes_again() -> None:
    """Until the mailer has said what it knows."""
    email = came_to(EmailState.SENDING)
    assert told("mailgun", "failed", email) == 503
    leases.record(email, outcomes.accepted(Accepted("250 ok")))
    assert told("mailgun", "failed", email) == 200
    assert end_of(email)[0] == EmailState.BOUNCED


def test_an_email_about_which_the_provider_would_be_asked_again_is_sent_without_the_question() -> None:
    """The event answers it."""
    email = came_to(EmailState.UNKNOWN)
    asked = {"state": EmailState.PENDING, "claim_token": None, "sending_since": None}
    Email.objects.filter(pk=email.pk).update(**asked, ask_until=Now() + timedelta(hours=1), message_id=email.message_id)
    assert told("resend", "delivered", email) == 200
    assert end_of(email)[:3] == (EmailState.SENT, False, True)
    assert email.ask_until is None


def test_a_complaint_that_comes_again_does_not_undo_what_an_operator_released() -> None:
    """A provider repeats what was not answered in time, and so may whoever has seen it. A new complaint counts."""
    email, at = came_to(EmailState.SENT), timezone.now()
    request = provider_requests.event("resend", "complained", name=ID, to=email.recipient, at=at)
    assert post("resend", request).status_code == 200
    assert operators.release(email.recipient, "Ada", "She asked for it")
    assert post("resend", request).status_code == 200
    assert end_of(email) == (EmailState.SENT, False, False, True)


def test_what_is_about_a_transmission_before_an_operator_sent_it_again_changes_nothing() -> None:
    """Also if it was delivered then."""
    email = came_to(EmailState.UNKNOWN)
    resolving.resolve(email.pk, Act.RESEND, "Ada", "Nobody knows")
    for what in ("failed", "delivered"):
        assert told("mailgun", what, email, ago=timedelta(minutes=30)) == 200
    assert end_of(email) == (EmailState.PENDING, False, False, False)


def test_what_a_receiver_could_not_handle_comes_again() -> None:
    """Nothing is changed before."""
    email = came_to(EmailState.SENT)

    def fail(**_arguments: Any) -> None:
        raise RuntimeError("a receiver's mistake")

    email_bounced.connect(fail)
    try:
        with pytest.raises(RuntimeError):  # Django answers 500
            told("resend", "failed", email)
    finally:
        email_bounced.disconnect(fail)
    assert end_of(email)[:2] == (EmailState.SENT, False)
    assert told("resend", "failed", email) == 200
    assert end_of(email)[:2] == (EmailState.BOUNCED, True)


def test_one_event_that_a_receiver_cannot_handle_stops_no_other_of_its_request() -> None:
    """SendGrid sends them again together, for a day."""
    first, second = came_to(EmailState.SENT, provider_id=""), came_to(EmailState.SENT)

    def fail(email: Email, **_arguments: Any) -> None:
        if email == first:
            raise RuntimeError("a receiver's mistake")

    now, events = timezone.now(), []
    for email in (first, second):
        of_one = provider_requests.event("sendgrid", "failed", name=email.message_id, to=email.recipient, at=now)
        events += json.loads(of_one.body)
    email_bounced.connect(fail)
    try:
        with pytest.raises(RuntimeError):  # Django answers 500
            post("sendgrid", provider_requests.signed("sendgrid", json.dumps(events).encode(), now))
    finally:
        email_bounced.disconnect(fail)
    assert (end_of(first)[0], end_of(second)[0]) == (EmailState.SENT, EmailState.BOUNCED)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What is logged of refused requests, in a minute."""
    monkeypatch.setattr(webhooks, "refusals", webhooks.Refusals())
    with capture_logs() as logs:
        yield logs


def test_a_request_that_proves_nothing_changes_nothing_and_does_not_fill_the_log(refused: list[Any]) -> None:
    """Nor does it ask the database anything."""
    email, now = came_to(EmailState.SENT), timezone.now()
    good = provider_requests.event("resend", "failed", name=ID, to=email.recipient, at=now)
    large = provider_requests.signed("resend", b" " * (webhooks.MOST_BYTES + 1), now)
    with CaptureQueriesContext(connection) as asked:
        for name, request, status in (
            ("another body", good._replace(body=good.body + b" "), 401),
            ("no signature", good._replace(headers={}), 401),
            ("too large", large, 413),
            ("not JSON", provider_requests.signed("resend", b"{", now), 400),
            ("of nothing", provider_requests.signed("resend", b"{}", now), 200),
        ):
            with case(name):
                assert post("resend", request).status_code == status
        assert Client().get("/mail/webhooks/resend/").status_code == 405
        assert post("elsewhere", good).status_code == 404
    assert end_of(email) == (EmailState.SENT, False, False, False)
    assert [query for query in asked.captured_queries if "weir_mail" in query["sql"]] == []
    assert [(log["event"], log.get("refused")) for log in refused if log["event"].startswith("provider_")] == [
        ("provider_webhooks_refused", 1),
        ("provider_webhook_unreadable", None),
    ]


def test_a_provider_without_a_secret_has_no_url_and_one_without_keys_sends_again(settings: Settings) -> None:
    """The check names both mistakes before a provider finds them."""
    email, now = came_to(EmailState.SENT), timezone.now()
    request = provider_requests.event("mailgun", "failed", name=email.message_id, to=email.recipient, at=now)
    settings.WEIR_SECRETS = {"MAILGUN_WEBHOOK": "short", "RESEND_WEBHOOK": provider_requests.WHSEC}
    assert (post("postmark", request).status_code, post("mailgun", request).status_code) == (404, 503)
    assert _checked() == [("weir.E041", "Mailgun's webhooks cannot be received")]
    settings.ROOT_URLCONF = "weir.signatures.urls"
    settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN = "https://shop.example"
    named = "WEIR_MAIL_UNSUBSCRIBE_ORIGIN and the secret RESEND_WEBHOOK and the secret MAILGUN_WEBHOOK"
    assert _checked()[1:] == [("weir.W043", named)]


def test_only_users_of_sendgrid_need_the_package(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that has not installed it, and no secret of SendGrid's, is told nothing."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ec", None)
    assert _checked() == [("weir.E041", "SendGrid's webhooks cannot be received")]
    settings.WEIR_SECRETS = {}
    assert _checked() == []


def _checked() -> list[tuple[str | None, str]]:
    return [(each.id, each.msg.split(":")[0]) for each in provider_webhooks_can_be_received()]


def test_a_delivered_email_costs_few_statements_and_is_written_once() -> None:
    """Providers report each of them, some several times; what came later counts, in whatever order it comes."""
    email, at = came_to(EmailState.SENT), timezone.now()
    rows = []
    for ago in (timedelta(hours=1), timedelta(0), timedelta(0), timedelta(hours=2)):
        request = provider_requests.event("resend", "delivered", name=ID, to=email.recipient, at=at - ago, signed_at=at)
        with CaptureQueriesContext(connection) as asked:
            assert post("resend", request).json() == {"delivered": 1}
        assert len(asked) <= 5, asked.captured_queries
        rows.append(Email.objects.filter(pk=email.pk).annotate(place=RawSQL("ctid::text", [])).values_list("place")[0])
    assert (rows[1] != rows[0], rows[1:]) == (True, rows[1:2] * 3)
    email.refresh_from_db()
    assert email.delivered_at == at


def _many(*said: tuple[str, Email]) -> provider_requests.ProviderRequest:
    """Return one request of SendGrid's that says all of this."""
    now, events = timezone.now(), []
    for what, email in said:
        one = provider_requests.event("sendgrid", what, name=email.message_id, to=email.recipient, at=now)
        events += json.loads(one.body)[1:]
    return provider_requests.signed("sendgrid", json.dumps(events).encode(), now)


def test_a_request_with_more_events_than_there_is_time_for_gets_further_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was handled before takes no time, whatever it was; nor does what is about other programs' e-mails."""
    monkeypatch.setattr(webhooks, "WITHIN_S", 0.0)
    said = [(what, came_to(EmailState.SENT, provider_id="")) for what in ("delivered", "failed", "complained")]
    said += [
        ("delivered", came_to(EmailState.UNKNOWN, provider_id="")),
        ("accepted", came_to(EmailState.UNKNOWN, provider_id="")),
        ("delayed", said[0][1]),
    ]
    others = [("delivered", Email(message_id=f"<{uuid4()}@other.example>", recipient=f"{n}@b.example")) for n in "ab"]
    request, ends = _many(*said, *others), [end_of(email) for _, email in said]
    answers = [post("sendgrid", request) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [503, 503, 503, 200]  # sent e-mails are delivered together
    assert answers[0].json() == {"error": "There was no time for all events: send them again."}
    counted = answers[-1].json()
    assert counted.pop("failed", 0) + counted.pop("bounced", 0) == 1  # "bounced" in the request that handles it
    assert counted == {"others": 2, "delivered": 2, "complained": 1, "accepted": 1, "delayed": 1}
    assert len({*ends}) == 2
    assert [end_of(email) for _, email in said] == [
        (EmailState.SENT, False, True, False),
        (EmailState.BOUNCED, True, False, False),
        (EmailState.SENT, True, False, True),
        (EmailState.SENT, False, True, False),
        (EmailState.SENT, False, False, False),
        (EmailState.SENT, False, True, False),
    ]


def test_a_request_that_comes_again_takes_a_few_statements_for_all_its_events() -> None:
    """Also if an operator has sent an e-mail again meanwhile, so that the event is not about what is sent now."""
    again, *others = [came_to(EmailState.SENT, provider_id="") for _ in range(20)]
    request = _many(("failed", again), *(("delivered", email) for email in others))
    assert post("sendgrid", request).json() == {"bounced": 1, "delivered": 19}
    resolving.resolve(again.pk, Act.RESEND, "Ada", "Once more")
    Email.objects.filter(pk=again.pk).update(state=EmailState.SENT, sent_at=Now())
    Resolution.objects.filter(act=Act.RESEND).update(resolved_at=Now() + timedelta(hours=1))
    with CaptureQueriesContext(connection) as asked:
        assert post("sendgrid", request).json() == {"failed": 1, "delivered": 19}
    assert len(asked) <= 5, asked.captured_queries


def test_deliveries_of_many_emails_are_noted_together_by_the_rules_for_one() -> None:
    """The last one of each counts, none is in the future, and one from before an operator sent it again counts not."""
    now = timezone.now().replace(microsecond=0)
    first, again, ahead = (came_to(EmailState.SENT, provider_id="") for _ in range(3))
    Email.objects.filter(pk=again.pk).update(state=EmailState.FAILED, sent_at=None, last_reply="no")
    resolving.resolve(again.pk, Act.RESEND, "Ada", "Once more")
    Email.objects.filter(pk=again.pk).update(state=EmailState.SENT, sent_at=Now())
    said = [(first, -60), (first, 0), (first, -120), (again, -3600), (ahead, 3600)]
    events = []
    for email, seconds in said:
        at = now + timedelta(seconds=seconds)
        one = provider_requests.event("sendgrid", "delivered", name=email.message_id, to=email.recipient, at=at)
        events += json.loads(one.body)[1:]
    request = provider_requests.signed("sendgrid", json.dumps(events).encode(), now)
    with CaptureQueriesContext(connection) as asked:
        assert post("sendgrid", request).json() == {"delivered": 5}
    for email in (first, again, ahead):
        email.refresh_from_db()
    assert (first.delivered_at, again.delivered_at) == (now, None)
    assert ahead.delivered_at is not None
    assert ahead.delivered_at < timezone.now()
    assert sum(query["sql"].startswith("UPDATE") for query in asked.captured_queries) == 1  # of the one in the future


def test_an_event_that_may_change_something_is_not_taken_for_one_that_was_handled() -> None:
    """In a request with many, whatever the e-mail's state is."""
    failed, late = came_to(EmailState.SENT, provider_id=""), came_to(EmailState.SENT, provider_id="")
    sending = came_to(EmailState.SENDING)
    assert told("sendgrid", "delivered", late, ago=timedelta(hours=1)) == 200
    assert post("sendgrid", _many(("failed", failed), ("delivered", late), ("complained", late))).status_code == 200
    assert (end_of(failed)[0], end_of(late)[3]) == (EmailState.BOUNCED, True)
    assert late.delivered_at is not None
    assert late.delivered_at > timezone.now() - timedelta(minutes=30)
    stranger = Email(message_id=f"<{uuid4()}@unknown.example>", recipient=sending.recipient)
    assert post("sendgrid", _many(("delivered", stranger), ("failed", failed))).status_code == 503  # its name may come


def test_a_body_in_chunks_that_django_has_dropped_is_refused_with_the_reason(refused: list[Any]) -> None:
    """As under WSGI, where Django reads no body without its length."""
    email, now = came_to(EmailState.SENT), timezone.now()
    request = provider_requests.event("resend", "failed", name=ID, to=email.recipient, at=now)
    headers: Any = {**request.headers, "Transfer-Encoding": "chunked"}
    answer = Client().post("/mail/webhooks/resend/", b"", content_type="application/json", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (411, webhooks.UNREAD)
    assert [log["status"] for log in refused if log["event"] == "provider_webhooks_refused"] == [411]
    answer = Client().post("/mail/webhooks/resend/", b"", content_type="application/json")
    assert answer.status_code == 401
