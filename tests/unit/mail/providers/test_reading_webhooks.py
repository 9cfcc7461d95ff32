"""What a provider's request says, and that another program reads the same in it."""

import json
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.test import RequestFactory
from pytest_django import Settings

from tests import provider_requests
from tests.cases import case, for_each
from tests.provider_requests import ProviderRequest
from weir.conf.secrets import SecretUnusable
from weir.workers.mail.bounces.reports import BounceReport, ReportAction
from weir.workers.mail.providers import received
from weir.workers.mail.providers.known import PROVIDERS
from weir.workers.mail.providers.received import ProviderEvents, Received, Unreadable, Unsigned

AT = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)
NAME, KIM = "<order.shipped-17-0123456789ab@shop.example>", "kim@customers.example"
# The words of django-anymail for the same.
ANYMAIL = {
    "accepted": {"sent", "queued"},
    "delivered": {"delivered"},
    "delayed": {"deferred"},
    "failed": {"bounced"},
    "complained": {"complained"},
}
LACKS = {("postmark", "accepted")}  # events that a provider does not report


@pytest.fixture(autouse=True)
def _secrets(settings: Settings) -> None:
    settings.WEIR_SECRETS = provider_requests.secrets()


def read(provider: str, request: ProviderRequest, now: datetime = AT) -> ProviderEvents:
    """Read a request as the view does."""
    known = PROVIDERS[provider]
    found = RequestFactory().post("/", request.body, content_type="application/json", headers=dict(request.headers))
    return known.read(known.keys(known.secret), Received(found.headers, request.body, now))


def by_anymail(provider: str, body: bytes) -> Any:
    """Return the last event that anymail finds in a body."""
    title = {"sendgrid": "SendGrid"}.get(provider, provider.capitalize())
    view = getattr(import_module(f"anymail.webhooks.{provider}"), f"{title}TrackingWebhookView")
    request = RequestFactory().post("/", body, content_type="application/json")
    return view.parse_events(view.__new__(view), request)[-1]


@for_each("provider", PROVIDERS)
def test_an_event_is_read_as_another_program_reads_it(provider: str) -> None:
    """What happened, to which e-mail, to whom, and when."""
    for what, words in ANYMAIL.items():
        with case(what):
            request = provider_requests.event(provider, what, name=NAME, to=KIM, at=AT)
            found = read(provider, request)
            if (provider, what) in LACKS:
                assert found == ProviderEvents([], ignored=1)
                continue
            report, other = found.reports[-1], by_anymail(provider, request.body)
            assert report.action is ReportAction(what)
            assert other.event_type in words
            assert report.names == (other.message_id.strip("<>"),)
            assert report.addresses == {other.recipient}
            assert abs((report.arrived_by or AT - timedelta(days=1)) - other.timestamp) < timedelta(seconds=1)
            if what == "failed":
                assert (report.status, "No such user" in report.diagnostic) == ("5.1.1", True)


def test_what_says_nothing_of_an_emails_way_is_counted() -> None:
    """Opens, clicks, and what a provider will report in some years."""
    for provider in PROVIDERS:
        with case(provider):
            assert read(provider, provider_requests.event(provider, "opened", name=NAME, to=KIM, at=AT)).ignored >= 1


def test_resend_says_that_an_address_does_not_exist_and_repeats_headers() -> None:
    """Then the Message-ID is a name, too: of an e-mail whose id Weir never got."""
    body = json.loads(provider_requests.event("resend", "failed", name="id-1", to=f"Kim <{KIM}>", at=AT).body)
    body["data"]["bounce"] = {"type": "Permanent", "subType": "NoEmail", "diagnosticCode": ["smtp; 550 gone"]}
    body["data"]["headers"] = [{"name": "Message-Id", "value": NAME}, {"name": "X"}, 7]
    (report,) = read("resend", provider_requests.signed("resend", json.dumps(body).encode(), AT)).reports
    assert (report.status, report.diagnostic, *report.addresses) == ("5.1.1", "550 gone", KIM)
    assert report.names == ("id-1", NAME.strip("<>"))


def hostile(provider: str) -> dict[str, ProviderRequest]:
    """Return requests that do not count."""
    request = provider_requests.event(provider, "failed", name=NAME, to=KIM, at=AT)
    others = {name: value[:-3] + "AA=" for name, value in request.headers.items()}
    found = {
        "without a signature": ProviderRequest(request.body.replace(b'"signature"', b'"sign"'), {}),
        "another's signature": ProviderRequest(request.body.replace(b'"signature": "', b'"signature": "0'), others),
        "half of a pair": ProviderRequest(
            json.dumps({"signature": dict.fromkeys(("timestamp", "token", "signature"), "\ud800")}).encode(), {}
        ),
        "letters that are no signature": ProviderRequest(b"{}", dict.fromkeys(request.headers, "Basic \xe4 v1,\xff,")),
        "of yesterday": provider_requests.event(
            provider, "failed", name=NAME, to=KIM, at=AT, signed_at=AT - timedelta(hours=26)
        ),
        "of tomorrow": provider_requests.event(
            provider, "failed", name=NAME, to=KIM, at=AT, signed_at=AT + timedelta(hours=1)
        ),
    }
    if provider != "mailgun":  # whose signature does not cover the event
        found["another body"] = ProviderRequest(request.body + b" ", request.headers)
    if provider == "postmark":  # a password has no time, and covers nothing
        found = {name: found[name] for name in list(found)[:4]}
    return found


@for_each("provider", PROVIDERS)
def test_what_the_provider_has_not_signed_now_does_not_count(provider: str) -> None:
    """Whatever it says."""
    for name, request in hostile(provider).items():
        with case(name), pytest.raises(Unsigned):
            read(provider, request)


@for_each("provider", PROVIDERS)
def test_a_body_of_any_form_is_read_or_refused(provider: str) -> None:
    """No error but the two, and no name that a database does not take."""
    deep, odd = b"[" * 100_000, "a\ud800\0" * 100
    bodies = [b"", b"\xff", b"{", deep, b"null", b"7", b"[]", b"{}", b'[[], 7, {"event": []}]', b'{"type": {"a": 1}}']
    whole = provider_requests.BODIES[provider]("failed", odd, odd, AT, odd)
    bodies += [json.dumps(whole).encode(), json.dumps(_with_numbers(whole)).encode()]
    for given in bodies:
        body = given
        with case(repr(body[:60])):
            try:
                if provider == "mailgun" and body.startswith(b"{") and len(body) > 2:
                    body = json.dumps(
                        json.loads(body) | {"signature": provider_requests.mailgun_signature(AT)}
                    ).encode()
                found = read(provider, provider_requests.signed(provider, body, AT))
            except (Unsigned, Unreadable):
                continue
            assert all(name.isprintable() for report in found.reports for name in report.names)


def _with_numbers(value: Any) -> Any:
    """Return the same JSON with a number in place of each text."""
    if isinstance(value, dict):
        return {name: _with_numbers(each) if name not in {"type", "event"} else each for name, each in value.items()}
    return [_with_numbers(each) for each in value] if isinstance(value, list) else 10**400


@for_each("provider", PROVIDERS)
def test_a_secret_without_keys_is_named_and_not_quoted(provider: str, settings: Settings) -> None:
    """It may be the secret of something else."""
    known = PROVIDERS[provider]
    for text in ("canary", "whsec_canary", "a:canary"):
        settings.WEIR_SECRETS = {known.secret: text}
        with case(text), pytest.raises(SecretUnusable, match=known.secret) as raised:
            known.keys(known.secret)
        assert "canary" not in str(raised.value)


NO_TIMES: list[object] = [None, True, "", "soon", [], 10**400, float("nan"), "9" * 5_000]
TIMES: list[tuple[object, datetime]] = [
    (1764525600, AT.replace(year=2025)),
    ("1764525600.0", AT.replace(year=2025)),
    ("2026-11-30T18:00:00", AT),
    ("2026-11-30T13:00:00.0000000-05:00", AT),
]


@for_each(("value", "expected"), [*TIMES, *((value, None) for value in NO_TIMES)])
def test_a_time_is_read_in_the_forms_that_providers_write(value: object, expected: datetime | None) -> None:
    """Whatever else stands there is no time."""
    assert received.moment(value) == expected


def test_a_report_names_nobody_where_the_provider_does_not() -> None:
    """Then it can be about the e-mail's recipient alone."""
    made: BounceReport = received.report(ReportAction.DELIVERED, ("x" * 501, " <a@b> ", ""), "", None)
    assert (made.names, made.addresses, made.arrived_by) == (("a@b",), frozenset(), None)
