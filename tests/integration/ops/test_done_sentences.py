"""What the page after an act says about it: one sentence for each deed."""

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import NamedTuple
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from tests import refunds
from tests.integration.ops.test_acting import HOST, fail, opened, signed_in
from weir.notifications.inbox.writing import notify
from weir.notifications.models import UnreadCount
from weir.ops.actions import DEEDS
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.effects import queueing
from weir.workers.effects.models import Effect, PausedEffectKind
from weir.workers.events.models import EventLog
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch, RobotsFile
from weir.workers.mail import suppression
from weir.workers.mail.models import Email, PausedKind
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
from weir.workers.watches.models import Watch
from weir.workers.watches.watching import watch
from weir.workers.webhooks import endpoints
from weir.workers.webhooks.models import Endpoint

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]
MOMENT = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC")
KIM = "kim@example.com"
HASHES = tuple(map(suppression.address_hash, (KIM, "robin@example.com")))


def a_site() -> str:
    site_settings.set_rate(HOST, "3/s")
    return HOST


def a_paused_site() -> str:
    site_settings.pause(a_site())
    return HOST


def a_site_with_robots() -> str:
    host = a_site()
    site = Site.objects.get(name=host)
    times = dict.fromkeys(("fetched_at", "refresh_at", "expires_at"), Now())
    RobotsFile.objects.create(origin=f"https://{host}", site=site, state="rules", **times)
    return host


def a_fetch() -> str:
    return str(request_fetch(f"https://{HOST}/").pk)


def a_failed_fetch() -> str:
    fail("/1")
    return str(Fetch.objects.get().pk)


def an_email(**values: object) -> str:
    shipping.ship(Order.objects.create(number="1", customer_email=KIM).pk)
    Email.objects.update(**values)
    return str(Email.objects.get().pk)


def an_unknown_email() -> str:
    return an_email(
        state="unknown",
        phase="after dot",
        last_reply="lost",
        claim_token=uuid4(),
        sending_since=Now(),
        ended_at=Now(),
    )


def a_listed_recipient() -> str:
    suppression.suppress(KIM, "It came back.")
    return an_email()


def a_paused_kind() -> str:
    PausedKind.objects.create(kind="order.shipped", who="eve", why="It is wrong.")
    return "order.shipped"


def an_effect(**values: object) -> str:
    effect = queueing.once(refunds.PROBED, "17")
    Effect.objects.update(**values)
    return str(effect.pk)


def an_unknown_effect() -> str:
    lost = {"state": "unknown", "phase": "begun", "last_reply": "lost", "ended_at": Now()}
    return an_effect(**lost, claim_token=uuid4(), begun_at=Now())


def a_paused_kind_of_effect() -> str:
    PausedEffectKind.objects.create(kind=refunds.BLIND, who="eve", why="It is wrong.")
    return refunds.BLIND


def a_wrong_number() -> str:
    notify(17, "news", "Something is new.")
    call_command("flush_unread", verbosity=0)
    UnreadCount.objects.update(unread_count=6)
    return "17"


def a_batch() -> str:
    return str(request_fetch(f"https://{HOST}/", batch="import-7", more_to_come=True).batch_id)


def a_failed_batch() -> str:
    found = a_batch()
    Fetch.objects.update(state="failed", error="lost", finished_at=Now())
    return found


def a_watch() -> str:
    return str(watch(f"https://{HOST}/", every=timedelta(hours=1)).pk)


def a_paused_watch() -> str:
    found = a_watch()
    Watch.objects.update(next_at=None)
    return found


def an_event_log() -> str:
    """Let events be kept; returns the id of the next endpoint."""
    EventLog.objects.get_or_create(defaults={"key": uuid4()})
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value + is_called::int FROM weir_webhooks_endpoint_id_seq")
        return str(cursor.fetchone()[0])


def an_endpoint() -> str:
    an_event_log()
    return str(endpoints.store("orders", f"https://{HOST}/hook", secret="HOOK").pk)  # noqa: S106  its name


def a_paused_endpoint() -> str:
    found = an_endpoint()
    Endpoint.objects.update(paused_at=Now())
    return found


NEW_ENDPOINT = {"name": "orders", "url": f"https://{HOST}/hook", "secret": "HOOK"}


class Case(NamedTuple):
    """A deed, what is there before, what is typed into the form, and the sentence; {} is what it was done to."""

    path: str
    there: Callable[[], str]
    values: dict[str, str]
    says: str


SETTINGS = {
    "rate": "9/s",
    "grace": "50ms",
    "obeys_robots": "true",
    "refusing": "403 999",
    "covers_subdomains": "on",
    "headers": "Accept: text/csv\r\nX-A: 1",
}
CASES = (
    Case(
        "/sites/{}/set/",
        a_site,
        SETTINGS,
        "change settings, {} (rate: 3/s → 9/s; grace: none → 50ms; headers: none → X-A: 1, Accept: text/csv; "
        "refusing: none → 403, 429, 503, 999; obeys robots: none → yes; covers subdomains: no → yes)",
    ),
    Case("/sites/{}/pause/", a_site, {}, "pause, {} (paused until: none → an operator resumes it)"),
    Case("/sites/{}/pause/", a_site, {"duration": "1h"}, "pause, {} (paused until: none → TIME)"),
    Case("/sites/{}/resume/", a_paused_site, {}, "resume, {} (paused until: an operator resumes it → none)"),
    Case("/sites/{}/ask-robots/", a_site_with_robots, {}, "ask for robots.txt again, https://{} (asked: 1)"),
    Case("/fetches/{}/cancel/", a_fetch, {}, "cancel, fetch {} (state: cancelled)"),
    Case("/fetches/{}/retry/", a_failed_fetch, {}, "retry, fetch {} (queued: 1)"),
    Case("/fetches/retry/?state=failed", a_failed_fetch, {}, "retry, fetches state failed (queued: 1)"),
    Case("/emails/{}/arrived/", an_unknown_email, {}, "it arrived, e-mail {} (state: unknown → sent)"),
    Case(
        "/emails/{}/resend/",
        an_unknown_email,
        {},
        "send it again, e-mail {} (state: unknown → pending)",
    ),
    Case("/emails/{}/give-up/", an_unknown_email, {}, "leave it unsent, e-mail {} (state: unknown → failed)"),
    Case("/emails/{}/cancel/", an_email, {}, "cancel, e-mail {} (state: pending → cancelled)"),
    Case("/emails/{}/correct/", an_email, {}, "render it anew, e-mail {}"),
    Case(
        "/emails/{}/redirect/",
        an_email,
        {"to": "robin@example.com"},
        f"send it to another address, e-mail {{}} (recipient: {HASHES[0]} → {HASHES[1]})",
    ),
    Case("/emails/{}/suppress/", an_email, {}, f"suppress the recipient, {HASHES[0]} (suppressed: no → yes)"),
    Case("/emails/{}/release/", a_listed_recipient, {}, f"release the recipient, {HASHES[0]} (suppressed: yes → no)"),
    Case("/emails/kinds/{}/pause/", lambda: "order.shipped", {}, "pause, {} (who: ada; why: <b> & co.)"),
    Case("/emails/kinds/{}/resume/", a_paused_kind, {}, "resume, {}"),
    Case("/effects/{}/done/", an_unknown_effect, {}, "it happened, effect {} (state: unknown → done)"),
    Case("/effects/{}/again/", an_unknown_effect, {}, "do it again, effect {} (state: unknown → pending)"),
    Case("/effects/{}/ask/", an_unknown_effect, {}, "ask the probe again, effect {} (state: unknown → pending)"),
    Case("/effects/{}/give-up/", an_unknown_effect, {}, "leave it undone, effect {} (state: unknown → failed)"),
    Case("/effects/{}/cancel/", an_effect, {}, "cancel, effect {} (state: pending → cancelled)"),
    Case("/effects/kinds/{}/pause/", lambda: refunds.BLIND, {}, "pause, {} (who: ada; why: <b> & co.)"),
    Case("/effects/kinds/{}/resume/", a_paused_kind_of_effect, {}, "resume, {}"),
    Case("/batches/{}/cancel/", a_batch, {}, "cancel, batch {} (cancelled: 1)"),
    Case("/batches/{}/retry/", a_failed_batch, {}, "retry what failed, batch {} (queued: 1)"),
    Case("/batches/{}/close/", a_batch, {}, "close, batch {} (open: yes → no)"),
    Case("/watches/{}/pause/", a_watch, {}, "pause, watch {} (paused: no → yes)"),
    Case("/watches/{}/resume/", a_paused_watch, {}, "resume, watch {} (paused: yes → no)"),
    Case("/watches/{}/remove/", a_watch, {}, "remove, watch {}"),
    Case(
        "/webhooks/add/",
        an_event_log,
        NEW_ENDPOINT,
        f"add an endpoint, endpoint {{}} (url: https://{HOST}/hook; name: orders; types: all; secret: HOOK)",
    ),
    Case("/webhooks/{}/pause/", an_endpoint, {}, "pause, endpoint {} (paused: no → yes)"),
    Case("/webhooks/{}/resume/", a_paused_endpoint, {}, "resume, endpoint {} (paused: yes → no)"),
    Case("/webhooks/{}/test/", an_endpoint, {}, "send a test, endpoint {}"),
    Case("/webhooks/{}/remove/", an_endpoint, {}, "remove, endpoint {}"),
    Case("/unread/reconcile/", a_wrong_number, {"user": "17"}, "reconcile, user {} (repaired: 1; changed by: 17: -5)"),
)


@pytest.fixture
def browser() -> Client:
    return signed_in(*{deed.action.permission for deed in DEEDS})


@pytest.mark.parametrize("case", CASES, ids=[case.says.partition(" (")[0] for case in CASES])
def test_each_deed_has_its_sentence(browser: Client, case: Case) -> None:
    """And the audit trail has the same changes."""
    name = case.there()
    path = case.path.format(name)
    answer = browser.post(path, {**opened(browser, path), "why": "<b> & co.", **case.values})
    assert answer.status_code == 302, answer.text
    page = MOMENT.sub("TIME", browser.get(answer.headers["Location"]).text)
    [said] = re.findall(r"Done:</b> (.*)\. <a [^>]*>Recorded</a>", page)
    assert unescape(said) == case.says.format(name)
    assert "<b> &" not in said
    changes = unescape(said).partition(" (")[2].removesuffix(")").replace("; ", "<br>")
    assert changes in unescape(MOMENT.sub("TIME", browser.get("/audit/").text))


def test_no_deed_is_missing() -> None:
    assert len({case.path for case in CASES}) == len(DEEDS)
