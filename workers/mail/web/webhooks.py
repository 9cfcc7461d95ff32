"""Receives providers' webhooks: what became of e-mails that a provider has accepted.

1. The body is read, up to MOST_BYTES. 2. The signature is checked, by the keys in the provider's secret; without one
that counts, the answer is 401, and nothing was written. 3. Deliveries of sent e-mails are noted together. Each other
event goes the way of a delivery report (`bounces.handling`), in a transaction of its own; none begins after WITHIN_S.
4. The answer is 200 with the numbers of events; 503 if one came too soon, or there was no time for one, or 500 if a
receiver has raised an error, after the others were handled: the provider sends the whole request again. Events that
were handled before change nothing then, and take a few statements together, so each repetition gets further.

A process that is killed anywhere gives no answer, and the provider sends the request again, too.
"""

import random
import time
from collections import Counter
from threading import Lock
from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from weir.conf.secrets import SecretUnknown, SecretUnusable
from weir.logs.loggers import get_logger
from weir.workers.mail.bounces import handling
from weir.workers.mail.bounces.handling import Handled, TooSoon
from weir.workers.mail.bounces.reports import BounceReport
from weir.workers.mail.providers.known import PROVIDERS, Provider
from weir.workers.mail.providers.received import ProviderEvents, Received, Unreadable, Unsigned

MOST_BYTES: Final = 1 << 20  # of a body: SendGrid's batches are the largest, below 768 KiB
AGAIN_S: Final = 60
LOG_EVERY_S: Final = 60.0
TOO_SOON: Final = "too soon"
NO_TIME: Final = "no time"
WITHIN_S: Final = 2.0  # SendGrid sends a thousand events at once, and each may take some milliseconds
UNREAD: Final = (
    "The body came in chunks, and Django reads none of them under WSGI: have the proxy in front collect the body, and "
    "send its Content-Length."
)

log = get_logger(__name__)


class Refusals:
    """Logs refused requests, with their number, once in LOG_EVERY_S at most: anybody can send them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._number = 0
        self._log_at = 0.0

    def note(self, provider: str, status: int, error: str = "") -> None:
        with self._lock:
            self._number += 1
            if time.monotonic() < self._log_at:
                return
            number, self._number = self._number, 0
            self._log_at = time.monotonic() + LOG_EVERY_S
        because = {"error": error} if error else {}
        log.warning("provider_webhooks_refused", provider=provider, status=status, refused=number, **because)


refusals = Refusals()


@login_not_required
@csrf_exempt
@require_POST
def receive(request: HttpRequest, name: str) -> HttpResponse:
    """Answer 200 with the numbers of events; 400, 401, 411 or 413 to a refused request; 503 if it is to come again.

    404 if there is no such provider, or no secret of its webhooks.
    """
    provider = PROVIDERS.get(name)
    if provider is None:
        raise Http404
    try:
        keys = provider.keys(provider.secret)
    except SecretUnknown:
        raise Http404 from None
    except SecretUnusable as error:
        refusals.note(name, 503, str(error))
        return _answer(503, error="The secret cannot be used; the log says why.")
    if len(body := request.read(MOST_BYTES + 1)) > MOST_BYTES:
        refusals.note(name, 413)
        return _answer(413, error=f"The body has more than {MOST_BYTES:,} bytes.")
    if not body and "Transfer-Encoding" in request.headers:
        refusals.note(name, 411, UNREAD)
        return _answer(411, error=UNREAD)
    try:
        events = provider.read(keys, Received(request.headers, body, timezone.now()))
    except Unsigned:
        refusals.note(name, 401)
        return _answer(401, error="The signature or password is wrong, or too old.")
    except Unreadable as error:
        log.warning("provider_webhook_unreadable", provider=name, error=str(error))
        return _answer(400, error=f"It cannot be read: {error}.")
    return _handled(provider, events)


def _handled(provider: Provider, events: ProviderEvents) -> HttpResponse:
    counted, errors = _each_handled(provider, events)
    if counted["bounced"] or counted["complained"]:
        log.info("provider_webhook", provider=provider.title, **counted)
    if errors:
        raise errors[0]
    if counted[TOO_SOON]:
        return _answer(503, error="An e-mail is still being sent: send it again.")
    if counted[NO_TIME]:
        return _answer(503, error="There was no time for all events: send them again.")
    return _answer(200, **{said: number for said, number in counted.items() if number})


def _each_handled(provider: Provider, events: ProviderEvents) -> tuple[Counter[str], list[Exception]]:
    """Handle all events for which there is time, even if one raises an error.

    Their order is random: or else those behind some that fail each time, and slowly, would never be handled.
    """
    until = time.monotonic() + WITHIN_S
    counted, errors = Counter({"ignored": events.ignored}), list[Exception]()
    new = _new(events.reports, counted)
    for number, report in enumerate(random.sample(new, len(new))):
        if number and time.monotonic() >= until:
            counted[NO_TIME] = len(new) - number
            break
        try:
            counted[_handle(provider, report)] += 1
        except (OperationalError, InterfaceError):  # PostgreSQL is away, for the other events as well
            raise
        except Exception as error:
            log.warning("provider_event_not_handled", provider=provider.title, exc_info=error)
            errors.append(error)
    return counted, errors


def _new(reports: list[BounceReport], counted: Counter[str]) -> list[BounceReport]:
    """Handle the deliveries together. Return the events that may change something, and count the others.

    A single event is handled anyway.
    """
    if len(reports) < 2:  # noqa: PLR2004  one
        return reports
    handling.note_deliveries(reports)
    before = handling.handled_before(reports)
    new = []
    for report, handled in zip(reports, before, strict=True):
        if handled:
            counted[_word(report, handled)] += 1
        else:
            new.append(report)
    return new


def _handle(provider: Provider, report: BounceReport) -> str:
    """Handle an event; return what became of it: TOO_SOON, or a word for the answer."""
    try:
        return _word(report, handling.handle(report, f"{provider.title}'s webhook", from_provider=True))
    except TooSoon:
        return TOO_SOON


def _word(report: BounceReport, handled: Handled) -> str:
    if not handled.believed:
        return "others"  # e-mails of another program with the same account
    return "bounced" if handled.bounced else report.action.value


def _answer(status: int, **said: object) -> HttpResponse:
    headers = {"Cache-Control": "no-store", **({"Retry-After": str(AGAIN_S)} if status == 503 else {})}  # noqa: PLR2004
    return JsonResponse(said, status=status, headers=headers)
