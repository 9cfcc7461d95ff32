"""The recovery after PostgreSQL has forgotten what it granted. Nothing is granted until the recovery has ended.

1. Move all sequences far ahead, so that forgotten ids are not given again.
2. Make the slots that processes hold void, and let each site rest: weir.ratelimit.sites.rest_all.
3. Send the signals of signals.py, after which e-mails that may have been sent become unknown, sign-in links are
   deleted, and unread numbers are counted until they are reconciled. In a copy in another cluster, transaction ids have
   no meaning, so read marks use the ids of rows instead.
4. Record what was done, and open the gate, in one transaction.

Each step may be done twice. A process that is killed meanwhile leaves the gate closed, and the next process begins
anew.
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

OURS: Final = ("weir.notifications.", "weir.ratelimit.", "weir.workers.")  # processes may hold ids of these apps
AHEAD: Final = 10**10  # more ids than can have been given in the lost time: three days at 38,000 a second


class SkippedTo(NamedTuple):
    """A table, and the first id that it gives after the move."""

    name: str
    id: int


SKIP_IDS = Statement("skip_ids", row=SkippedTo, commits=True)


def recover(why: str, seen: Seen, who: str) -> Recovery:
    """Recover, and open the gate. The caller has closed the gate, and holds its lease. Raises database errors."""
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
    """Accept PostgreSQL's history, because the operator says that nothing is missing. Raises database errors."""
    if seen.is_copy:
        cluster_changed.send(sender=None, first_ids=_skip_ids(0))
    with transaction.atomic(durable=True):
        Recovery.objects.create(since=seen.numbered_at, why=why, who=who, sites=0, emails=0, is_loss=False)
        gate.open_gate(seen, went_back=False)


def _skip_ids(ahead: int) -> dict[str, int]:
    """Move the sequences of our tables ahead by `ahead` ids; return the first new id of each table."""
    return dict(SKIP_IDS(tables=_numbered(), ahead=ahead))


def _numbered() -> list[str]:
    """Return the tables whose ids processes may hold."""
    of_models = (model._meta for model in apps.get_models() if model.__module__.startswith(OURS))  # noqa: SLF001  documented
    return [options.db_table for options in of_models if isinstance(options.pk, models.BigAutoField)]
