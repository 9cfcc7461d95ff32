"""Publishing: sends a new message for a postponed task when its turn at its site comes.

1. Let tasks wait again whose message or worker was lost, and move tasks to the sites that their hosts have now.
2. Mark the next tasks of all sites that can start soon, in one statement for some hundred sites (sql/publish.sql).
3. Send their messages. A task whose message the broker does not accept waits again. If this process dies in between,
   the leases of the marked tasks run out.

Tasks are published LOOKAHEAD seconds before they could start, not as early as `max_wait` would allow: while a task
waits in a worker, it occupies a process or thread of the pool.

Fetches and postponed tasks may wait at the same site. Dispatch reserves slots for fetches whenever one of its ticks
finds the site reserved for less than REFILL seconds ahead. A publisher that looked less far ahead would never find room
at such a site. A publisher that looked a tick farther ahead would always be first, and leave no room for fetches. So
each tick of the publisher chooses at random: it looks farther ahead than dispatch, or so much less far that dispatch
comes first. Both make progress at any rate, however their ticks lie in time, but their shares are not defined.
"""

from collections import Counter
from datetime import timedelta
from itertools import takewhile
from random import random
from typing import NamedTuple

from django.db.models import F
from django.db.models.functions import Now
from kombu.utils import json

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.ratelimit import round_trips
from weir.ratelimit.models import Site
from weir.ratelimit.sites import KnownSite, create_sites, known_sites
from weir.ratelimit.slots import OWN_ROUND_TRIPS
from weir.workers import task_names
from weir.workers.processes.status import longest_round_trip_s
from weir.workers.publish import publish_signature
from weir.workers.schedule import REFILL, TRAVEL, tick_of
from weir.workers.throttled.models import PostponedTask
from weir.workers.throttled.postponing import HEADER

log = get_logger(__name__)

TICK = tick_of(task_names.PUBLISH_POSTPONED)  # seconds; also the time between two ticks of dispatch
# Seconds. A tick that looks this far ahead publishes a task early enough to reserve before dispatch refills the site.
LOOKAHEAD = REFILL + TICK + TRAVEL
ROUND_TRIPS_TO_RESERVE = 3  # of a worker that has received its message
FETCHES_FIRST = 0.5  # the share of the ticks that let dispatch come first at sites where fetches wait
# Seconds after which a message counts as lost. If the message arrives later, and its task has started, it is ignored.
DELIVERY = 30.0
PAUSE, LONGEST_PAUSE = 60.0, 3600.0  # seconds before the third publication, and the most before a later one
MOST_OF_A_SITE = 200
BATCH = 500
SITES_A_STATEMENT = 500  # in a tick, each site is looked at once, or twice if a batch ends at it
SPLIT_LATELY = timedelta(minutes=1)  # how long after a split tasks are moved to the new sites of their hosts


class WaitingSite(NamedTuple):
    """A site at which tasks wait."""

    name: str
    is_missing: bool  # the site was deleted


class PublishedTask(NamedTuple):
    """A task that is marked as published, whose message must be sent now."""

    id: int
    signature: str
    site: str
    is_expired: bool


class LostTask(NamedTuple):
    """A task that waits again, because its message or its worker was lost."""

    task: str
    publications: int
    was_held: bool


PUBLISH = Statement("publish", row=PublishedTask, commits=True)
TAKE_BACK = Statement("take_back", row=LostTask, commits=True)
WAITING_SITES = Statement("waiting_sites", row=WaitingSite, commits=True)


def publish_due() -> int:
    """Publish the postponed tasks whose turn has come; return how many messages were sent.

    Safe to run on any host, any number of times concurrently: a publisher skips sites at which another one works.
    """
    _take_back_lost()
    _follow_hosts()
    round_trip_s = longest_round_trip_s()
    lookahead = LOOKAHEAD + ROUND_TRIPS_TO_RESERVE * round_trip_s
    behind_dispatch = max(0.0, min(REFILL, settings.WEIR_LOOKAHEAD) - TICK)
    parameters = {
        "lookahead": lookahead,
        "beside_fetches": behind_dispatch if random() < FETCHES_FIRST else lookahead,  # noqa: S311  no secret
        "added_grace": OWN_ROUND_TRIPS * round_trips.added_grace_s(round_trip_s),
        "delivery": DELIVERY,
        "most": MOST_OF_A_SITE,
        "batch": BATCH,
    }
    sent = 0
    first: str | None = ""
    while first is not None:
        waiting = WAITING_SITES(first=first, most=SITES_A_STATEMENT + 1)
        sites, rest = waiting[:SITES_A_STATEMENT], waiting[SITES_A_STATEMENT:]
        rows = PUBLISH(**parameters, sites=[site.name for site in sites])
        taken = list(takewhile(lambda row: _send(row.id, row.signature), rows))
        _wait_again([row.id for row in rows[len(taken) :]])
        # A worker discards the message of an expired task, and reports that: no slot and no second message is needed.
        PostponedTask.objects.filter(pk__in=[row.id for row in taken if row.is_expired]).delete()
        sent += len(taken)
        _leave([site.name for site in sites if site.is_missing])
        if len(taken) < len(rows):  # the broker is away
            break
        first = rows[-1].site if len(rows) == BATCH else rest[0].name if rest else None
    return sent


def _follow_hosts() -> None:
    """Move waiting tasks to the new sites of their hosts, if a site was split lately (ratelimit/sites.py).

    A task that is postponed later, or missed here, also starts at the right site: its worker looks up the host's site.
    """
    split = Site.objects.filter(split_until__isnull=False, recalled_at__gt=Now() - SPLIT_LATELY)
    strays = PostponedTask.objects.waiting().filter(site__in=list(split.values_list("name", flat=True)))
    if hosts := set(strays.exclude(host="").values_list("host", flat=True).distinct()):
        for host, site in _sites(hosts).items():
            strays.filter(host=host).exclude(site=site.name).update(site=site.name)


def _leave(names: list[str]) -> None:
    """Move the tasks that wait at these deleted sites to the present sites of their hosts."""
    lost = PostponedTask.objects.waiting().filter(site__in=names)
    tasks = {(row.host, row.site) for row in lost.distinct("host", "site").only("host", "site")} if names else set()
    sites = _sites({host or site for host, site in tasks})
    for host, name in tasks:
        if (now := sites.get(host or name)) and now.name != name:  # its own site may exist again
            lost.filter(host=host, site=name).update(site=now.name)


def _sites(hosts: set[str]) -> dict[str, KnownSite]:
    known = known_sites(hosts)
    if missing := hosts - known.keys():
        known |= create_sites(missing)
    return known


def _take_back_lost() -> None:
    more = True
    while more:
        rows = TAKE_BACK(batch=BATCH, pause=PAUSE, longest=LONGEST_PAUSE)
        if rows:
            log.warning(
                "postponed_tasks_published_again",
                tasks=dict(Counter(row.task for row in rows)),
                workers_lost=sum(row.was_held for row in rows),
                most_publications=max(row.publications for row in rows),
            )
        more = len(rows) == BATCH


def _send(row: int, signature_text: str) -> bool:
    """Send a task's message; return False if the broker cannot be reached. Any other error is logged."""
    try:
        signature = json.loads(signature_text)
        options = signature["options"]
        options["headers"] = {**(options["headers"] or {}), HEADER: [row, options["retries"]]}
        # As for a retry in Celery, the publishing task must not become the parent of this one.
        options["parent_id"] = options.get("parent_id") or options["task_id"]
        return publish_signature(signature)
    except Exception:
        log.exception("postponed_task_not_published", row=row)
        return True  # go on with the others; this task is tried again when its lease is over


def _wait_again(rows: list[int]) -> None:
    """Put tasks back that were marked as published but not sent, unless a worker has received the message after all."""
    if rows:
        PostponedTask.objects.filter(pk__in=rows, held_by=None, publications__gt=0).update(
            published_at=None, lease_until=None, publications=F("publications") - 1
        )
