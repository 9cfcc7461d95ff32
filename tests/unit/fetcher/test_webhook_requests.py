"""Webhooks are signed right before they are written, as the package of Standard Webhooks checks it."""

import base64
import time
from dataclasses import replace

import pytest
from pytest_django import Settings
from standardwebhooks import Webhook, WebhookVerificationError

from tests.unit.fetcher.test_attempt import job
from weir.signatures import webhooks
from weir.workers.fetches.fetcher.http import heads
from weir.workers.fetches.fetcher.wire.requests import UnsendableRequest
from weir.workers.fetches.jobs import HeldBody, Job
from weir.workers.fetches.targets import parts_of

OLD, NEW = (f"whsec_{base64.b64encode(bytes([place]) * 32).decode()}" for place in range(2))
BODY = '{"type":"fetch.done","data":{"reference":"ключ"}}'.encode()


@pytest.fixture(autouse=True)
def _secrets(settings: Settings) -> None:
    settings.WEIR_SECRETS = {"HOOK": NEW, "BOTH": f"{NEW}\n{OLD} "}


def webhook(secret: str, message_id: str = "fetch-7") -> Job:
    headers = {"Content-Type": "application/json", webhooks.ID: message_id}
    return replace(
        job(ended_s_ago=0),
        method="POST",
        body=HeldBody(BODY),
        endpoint_id=1,
        request_headers={**headers, webhooks.SIGNATURE: webhooks.to_be_signed(secret)},
    )


def sent(one: heads.Request) -> tuple[dict[str, str], bytes]:
    head, body = one.ready().split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")[1:]
    assert len({line.partition(":")[0].lower() for line in lines}) == len(lines)
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}, body


def made(one: Job) -> heads.Request:
    return heads.request(one, parts_of(one.url), is_last=False)


def test_each_key_of_the_secret_signs() -> None:
    """A receiver with the old key, or with the new one, accepts it; one with another key does not."""
    headers, body = sent(made(webhook("BOTH")))
    assert headers["webhook-id"] == "fetch-7"
    for key in (NEW, OLD):
        assert Webhook(key).verify(body, headers)["type"] == "fetch.done"
    headers, body = sent(made(webhook("HOOK")))
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(body, headers)
    for changed in ({**headers, "webhook-id": "fetch-8"}, {**headers, "webhook-timestamp": "1"}):
        with pytest.raises(WebhookVerificationError):
            Webhook(NEW).verify(body, changed)


def test_the_time_is_that_of_the_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers refuse what is older than five minutes; a request may wait longer for its slot."""
    request = made(webhook("HOOK"))
    later = int(time.time()) + 1_000
    monkeypatch.setattr(time, "time", lambda: later)
    headers, _ = sent(request)
    assert headers["webhook-timestamp"] == str(later)


def test_no_key_is_sent_and_each_is_masked() -> None:
    """What the site repeats of them is masked in its answer."""
    request = made(webhook("BOTH"))
    written = request.ready()
    for key in (NEW, OLD):
        text = key.removeprefix("whsec_")
        assert text.encode() not in written
        assert text in request.secrets.values()
    assert OLD not in repr(request)


def test_a_webhook_without_a_usable_key_waits(settings: Settings) -> None:
    """The error says what to do, and quotes nothing of the secret."""
    short = f"whsec_{base64.b64encode(b'x' * 20).decode()}"
    settings.WEIR_SECRETS |= {"SHORT": short, "TEXT": "canary-17", "MIXED": f"{NEW} canary-17", "MANY": f"{NEW} " * 9}
    for name in ("NONE", "SHORT", "TEXT", "MIXED", "MANY"):
        with pytest.raises(UnsendableRequest) as found:
            made(webhook(name))
        assert not found.value.is_permanent, name
        assert f"the secret {name} " in str(found.value)
        assert "canary" not in str(found.value)
        assert short not in str(found.value)
