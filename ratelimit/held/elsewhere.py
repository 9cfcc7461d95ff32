"""Slots whose holder is a program elsewhere, which asks over HTTP, and whose clock is not that of a process of Weir.

Such a program gets durations, as a process gets them from PostgreSQL ("safe duration" in docs/explanation/sql.md). The
time until a start counts from the arrival of the answer, the time until a deadline from the sending of the request.
The program does what HeldRun does in a process:

1. It starts nothing before the time of the slot, and delays what follows a late start by as much.
2. Unless it has sent the request for the slots less than CONFIRMED_S ago, it asks right before a start whether the slot
   still stands (`use`): a slot may have been recalled.
3. It starts nothing after the end of the run. What it cannot use, it gives back (slots.release), or loses.

If the program is killed, or an answer is lost, the site is free again when the run is over.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from weir.conf import settings
from weir.conf.texts.rates import parse_rate
from weir.postgres.statements import Statement
from weir.ratelimit import clock, site_names, slots
from weir.ratelimit.models import Site
from weir.ratelimit.pacing import CONFIRMED_FOR_S, HAND_OVER_MARGIN_S
from weir.ratelimit.sites import known_sites

CONFIRMED_S: Final = CONFIRMED_FOR_S - HAND_OVER_MARGIN_S
LONGEST_RUN_S: Final = 5.0  # other holders wait for the end of a run


class UsableSlot(NamedTuple):
    """A slot that may be used within so many seconds after the question was sent."""

    id: int
    within_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenRun:
    """The slots of a run, and when each starts, in seconds after the arrival of the answer."""

    site: str
    starts_in_s: dict[int, float]
    within_s: float  # the end of the run, in seconds after the request was sent
    interval_s: float


USE = Statement("use", row=UsableSlot, commits=True)


def take(host: str, most: int, *, max_wait: float, late_s: float) -> TakenRun:
    """Reserve up to `most` slots: fewer if they would take longer than LONGEST_RUN_S, but one at least.

    The holder may be `late_s` seconds late, beside the site's grace. Raises what slots.reserve raises.
    """
    host = site_names.canonical(host)
    count = max(1, min(most, math.floor(LONGEST_RUN_S / _interval_s(host))))
    reservation = slots.reserve(host, count, max_wait, late_s=late_s)
    run = reservation.run
    answer_at = min(clock.now(), reservation.slots[0].start_at)  # a late first start delays those that follow
    return TakenRun(
        site=reservation.site,
        starts_in_s={slot.id: slot.start_at - answer_at for slot in reservation.slots},
        within_s=run.start_until - run.confirmation.asked_at - HAND_OVER_MARGIN_S,
        interval_s=run.interval_s,
    )


def use(slot_ids: Sequence[int]) -> list[UsableSlot]:
    """Record that the starts in these slots are made now; returns the slots that may be used. May be called twice.

    A recall that is committed later may be followed by a start for CONFIRMED_FOR_S at most, as of any holder.
    """
    return USE(slots=list(slot_ids), confirmed_for=CONFIRMED_S, margin=HAND_OVER_MARGIN_S)


def _interval_s(host: str) -> float:
    if known := known_sites({host}):
        intervals = Site.objects.filter(pk=known[host].id).values_list("effective_interval", flat=True)
        if interval := intervals.first():
            return float(interval.total_seconds())
    return parse_rate(settings.WEIR_DEFAULT_RATE).total_seconds()
