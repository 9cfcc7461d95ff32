"""Operations on slots: see those of a site, and take some: a program makes its own requests in them, in any language.

The id of a slot is signed, so that no program uses, or gives back, a slot that it was not given.
"""

import math
from collections.abc import Iterable
from typing import Final

from django.core.signing import BadSignature, Signer
from django.http import HttpRequest
from ninja import Router, Status

from weir.api.http.problems import BUSY, INVALID, NOT_FOUND, NOT_PERMITTED, SLOT_TOO_FAR, Problem
from weir.api.operations.looking import finite, looked
from weir.api.operations.operation import operation
from weir.api.schemas import slots as schemas
from weir.api.schemas.sites import NextStart, SiteSlots, Slot
from weir.api.schemas.values import Host
from weir.api.tokens import scopes
from weir.api.tokens.models import SITE_PREFIX
from weir.ratelimit import site_names, site_settings, slots
from weir.ratelimit.held import elsewhere
from weir.ratelimit.slots import SlotTooFar
from weir.workers.fetches.reports.site_status import site_now
from weir.workers.fetches.reports.timeline import timeline

router = Router(tags=["sites"])
LONGEST_RETRY_S: Final = 3_600
PATIENCE_S: Final = 2.0


@operation(router, "GET", "/sites/{host}/slots", scope=scopes.SEE_SITES, answers={200: SiteSlots}, refusals=[NOT_FOUND])
def get_slots(request: HttpRequest, host: Host) -> SiteSlots:
    """Return the slots of a site from a minute ago to the look-ahead, with their fates, and what starts next."""
    found = looked(lambda: timeline(site_now(host).site.pk))
    starts = [NextStart(**{**start._asdict(), "start_in_s": finite(start.start_in_s)}) for start in found.next_starts]
    return SiteSlots(
        slots=[Slot(**slot._asdict()) for slot in found.slots],
        has_more=found.has_more,
        past_s=found.past_s,
        ahead_s=found.ahead_s,
        next_starts=starts,
    )


@operation(
    router,
    "POST",
    "/sites/{host}/slots",
    scope=scopes.TAKE_SLOTS,
    answers={201: schemas.TakenSlots},
    refusals=[SLOT_TOO_FAR, BUSY],
)
def take_slots(request: HttpRequest, host: Host, wanted: schemas.WantedSlots) -> Status[schemas.TakenSlots]:
    """Take the next starts of a site, for requests that the program makes itself.

    However many programs and processes of Weir ask, the site's rate holds. A site that is missing is created at the
    default rate. If the answer is lost, so are its slots: the same request again takes others.
    """
    signer = signer_at(host)
    try:
        run = elsewhere.take(host, wanted.count, max_wait=wanted.max_wait_s, late_s=wanted.late_s)
    except SlotTooFar as error:
        wait_s = LONGEST_RETRY_S if error.retry_after == math.inf else min(LONGEST_RETRY_S, error.retry_after)
        raise Problem(SLOT_TOO_FAR, str(error), {"Retry-After": str(max(1, math.ceil(wait_s)))}) from error
    taken = [
        schemas.TakenSlot(id=signer.sign(str(slot)), start_in_s=wait_s) for slot, wait_s in run.starts_in_s.items()
    ]
    return Status(
        201,
        schemas.TakenSlots(
            site=run.site,
            slots=taken,
            start_within_s=run.within_s,
            ask_after_s=elsewhere.CONFIRMED_S,
            interval_s=run.interval_s,
        ),
    )


@operation(router, "POST", "/sites/{host}/slots/used", scope=scopes.TAKE_SLOTS, answers={200: schemas.UsableSlots})
def use_slots(request: HttpRequest, host: Host, wanted: schemas.UsedSlots) -> schemas.UsableSlots:
    """Say that starts are made now, and learn which may be. May be repeated.

    A start that was made without asking, right after its slot was taken, is told afterwards: it counts as used then.
    """
    signer = signer_at(host)
    usable = elsewhere.use(_slots(signer, wanted.ids))
    return schemas.UsableSlots(
        usable=[schemas.UsableSlot(id=signer.sign(str(slot.id)), start_within_s=slot.within_s) for slot in usable]
    )


@operation(router, "POST", "/sites/{host}/slots/released", scope=scopes.TAKE_SLOTS, answers={200: schemas.Released})
def release_slots(request: HttpRequest, host: Host, wanted: schemas.ReleasedSlots) -> schemas.Released:
    """Give slots back in which nothing was started, and nothing will be. May be repeated."""
    ids = _slots(signer_at(host), wanted.ids)
    released = slots.release(*ids)
    slots.unreserve(ids)
    return schemas.Released(released=released)


@operation(
    router,
    "POST",
    "/sites/{host}/refusals",
    scope=scopes.TAKE_SLOTS,
    answers={200: schemas.BackedOff},
    refusals=[NOT_FOUND, BUSY],
)
def report_refusal(request: HttpRequest, host: Host, wanted: schemas.Refusal) -> schemas.BackedOff:
    """Say that the site refused a start, as with 429: nothing starts there for a time, in any process or program.

    Refusals of starts whose slots were reserved before count once.
    """
    [slot] = _slots(signer_at(host), [wanted.id])
    seconds = None if wanted.retry_after_s is None else float(wanted.retry_after_s)
    for_s = site_settings.back_off(host, seconds, slot=slot, reason=wanted.reason, patience_s=PATIENCE_S)
    return schemas.BackedOff(backed_off_for_s=for_s)


def signer_at(host: str) -> Signer:
    """Return what signs the ids of slots that are taken at this host. Raises Problem for the site of a token."""
    name = site_names.canonical(host)
    if name.startswith(SITE_PREFIX):
        raise Problem(NOT_PERMITTED, "The starts of a token's site are the token's requests.")
    return Signer(salt=f"weir.api.slots {name}")


def _slots(signer: Signer, ids: Iterable[str]) -> list[int]:
    try:
        return [int(signer.unsign(text)) for text in ids]
    except BadSignature as error:
        raise Problem(INVALID, "Name slots as `POST /sites/{host}/slots` gave them for this host.") from error
