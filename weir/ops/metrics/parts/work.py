"""Fetches, sites, watches, webhooks, postponed tasks and e-mails: how many there are, and how old the oldest are."""

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from weir.ops.metrics.families import BOUNDED, counter, gauge, gauges
from weir.postgres.statements import Statement
from weir.ratelimit.models import StartTotal
from weir.workers.overview.overview import MOST, Numbers, count


class WatchesNow(NamedTuple):
    """The state of all watches, and of the OAuth clients."""

    failing: int
    paused: int
    due_s: float
    without_token: int


class WebhooksNow(NamedTuple):
    """The state of all endpoints."""

    failing: int
    paused: int


POSTPONED_TASKS = Statement("postponed_tasks", returns=int, commits=False)
UNREACHABLE_ROBOTS = Statement("unreachable_robots", returns=int, commits=False)
WATCHES_NOW = Statement("watches_now", row=WatchesNow, commits=False)
WEBHOOKS_NOW = Statement("webhooks_now", row=WebhooksNow, commits=False)


def families() -> Iterator[Metric]:
    """Yield these metrics; one statement counts most of them."""
    numbers = count()
    yield from _of_fetches(numbers)
    [unreachable] = UNREACHABLE_ROBOTS(most=MOST)
    yield gauge(
        "weir_robots_unreachable",
        "robots.txt files that could not be had, among the 10,000 that expire next: nothing is fetched there.",
        unreachable,
    )
    [waiting] = POSTPONED_TASKS(most=MOST)
    out_of_time = sum(StartTotal.objects.values_list("out_of_time", flat=True))  # the table has one row, or none yet
    yield counter("weir_starts_out_of_time", "Requests written after their run or confirmation had ended.", out_of_time)
    yield gauge("weir_tasks_postponed", f"Throttled tasks that wait in PostgreSQL. {BOUNDED}", waiting)
    yield from _of_watches()
    [webhooks] = WEBHOOKS_NOW()
    meaning = "Endpoints of webhooks whose last attempt failed, and paused ones."
    yield gauges("weir_webhook_endpoints", meaning, "state", webhooks._asdict())
    yield from _of_emails(numbers)
    yield from _of_effects(numbers)


def _of_watches() -> Iterator[Metric]:
    [now] = WATCHES_NOW(most=MOST)
    meaning = f"Watches whose last fetch brought no page, and paused ones. {BOUNDED}"
    yield gauges("weir_watches", meaning, "state", {"failing": now.failing, "paused": now.paused})
    yield gauge("weir_watches_oldest_due_seconds", "Since the oldest due watch became due; 0: none is.", now.due_s)
    yield gauge(
        "weir_oauth_clients_without_token",
        "OAuth clients whose last request brought no access token, and that have none: fetches that need one fail.",
        now.without_token,
    )


def _of_fetches(numbers: Numbers) -> Iterator[Metric]:
    fetches = {"queued": numbers.queued, "reserved": numbers.reserved, "running": numbers.running}
    yield gauges("weir_fetches", f"Fetches that have not ended. {BOUNDED}", "state", fetches)
    yield gauge(
        "weir_fetches_oldest_due_seconds",
        "Since the oldest due fetch became due; 0: none is.",
        numbers.oldest_due_s or 0,
    )
    sites = {
        name: getattr(numbers, name) for name in ("paused", "backed_off", "resting", "unreachable", "stalled", "halted")
    }
    yield gauges(
        "weir_sites",
        "Sites with fetches to come that are held: paused; backed_off; resting: a quota is used up; unreachable; "
        "stalled: due fetches do not start, though nothing is known to be in their way; halted: paused until somebody "
        f"resumes them. {BOUNDED}",
        "state",
        sites,
    )


def _of_effects(numbers: Numbers) -> Iterator[Metric]:
    effects = {"pending": numbers.pending_effects, "unknown": numbers.unknown_effects}
    yield gauges(
        "weir_effects", f"Effects that have not ended; unknown: may have happened. {BOUNDED}", "state", effects
    )
    oldest_s = {
        "pending": max(0.0, numbers.oldest_pending_effect_s or 0.0),
        "unknown": max(0.0, numbers.oldest_unknown_effect_s or 0.0),
    }
    yield gauges(
        "weir_effects_oldest_seconds",
        "Since the oldest pending effect became due, and since the oldest unknown one began; 0: there is none.",
        "state",
        oldest_s,
    )


def _of_emails(numbers: Numbers) -> Iterator[Metric]:
    emails = {"pending": numbers.pending, "sending": numbers.sending, "unknown": numbers.unknown}
    yield gauges("weir_emails", f"E-mails that have not ended; unknown: may have arrived. {BOUNDED}", "state", emails)
    oldest_s = {
        "pending": max(0.0, numbers.oldest_pending_s or 0.0),
        "unknown": max(0.0, numbers.oldest_unknown_s or 0.0),
    }
    yield gauges(
        "weir_emails_oldest_seconds",
        "Since the oldest pending e-mail became due, and since the oldest unknown one was sent; 0: there is none.",
        "state",
        oldest_s,
    )
