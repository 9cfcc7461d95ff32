"""The recovery from a PostgreSQL that has forgotten what it granted. Nothing is granted until it has ended.

1. Ids that were given and forgotten are not given again: all sequences go far ahead.
2. Slots that processes hold are void, and each site rests: weir.ratelimit.sites.rest_all.
3. Apps do their part (signals.py): e-mails that may have gone become unknown, links that sign in once are void, unread
   numbers are counted until reconciled. In a copy in another cluster ids of transactions mean nothing: read marks go
   by the ids of rows.
4. What was done is recorded, and the gate opens, in one transaction.

Each step may be done twice. A process that is killed meanwhile leaves the gate closed; the next one begins anew.
"""

from typing import Final, NamedTuple

from django.apps import apps
from django.db import models, transaction

from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate
from weir.postgres.timeline.seen import Seen
from weir.ratelimit import sites
from weir.workers.recovery.models import Recovery
from weir.workers.recovery.signals import cluster_changed, postgresql_went_back

log = get_logger(__name__)

OURS: Final = ("weir.notifications.", "weir.ratelimit.", "weir.workers.")  # processes may hold ids of their tables
AHEAD: Final = 10**10  # more ids than can have been given in the time that is lost: three days at 38,000 a second


class SkippedTo(NamedTuple):
    """The next id of a table."""

    name: str
    id: int


SKIP_IDS = Statement("skip_ids", row=SkippedTo, commits=True)


def recover(why: str, seen: Seen, who: str) -> Recovery:
    """Recover, and open the gate. The caller has closed it, and has the lease. Raises database errors."""
    first_ids = _skip_ids(AHEAD)
    rested = sites.rest_all()
    emails = 0
    for _receiver, unknown in postgresql_went_back.send(sender=None, since=seen.numbered_at):
        emails += int(unknown or 0)
    if seen.is_copy:
        cluster_changed.send(sender=None, first_ids=first_ids)
        gate.renew()
    with transaction.atomic(durable=True):
        done = Recovery.objects.create(since=seen.numbered_at, why=why, who=who, sites=rested, emails=emails)
        generation = gate.open_gate(seen, went_back=True)
    gate.remember(generation)
    gate.exchange()
    log.error("recovered", since=str(seen.numbered_at), sites=rested, emails=emails, reason=why)
    return done


def accept(why: str, seen: Seen, who: str) -> None:
    """Accept PostgreSQL's history: the operator says that nothing is missing. Raises database errors."""
    if seen.is_copy:
        cluster_changed.send(sender=None, first_ids=_skip_ids(0))
    with transaction.atomic(durable=True):
        Recovery.objects.create(since=seen.numbered_at, why=why, who=who, sites=0, emails=0, is_loss=False)
        gate.open_gate(seen, went_back=False)


def _skip_ids(ahead: int) -> dict[str, int]:
    """Have the ids of our tables go on so much further; returns the first of the new ones, by table."""
    return dict(SKIP_IDS(tables=_numbered(), ahead=ahead))


def _numbered() -> list[str]:
    """Return the tables whose ids may be held by processes."""
    of_models = (model._meta for model in apps.get_models() if model.__module__.startswith(OURS))  # noqa: SLF001  documented
    return [options.db_table for options in of_models if isinstance(options.pk, models.BigAutoField)]
