"""The recovery from a PostgreSQL that has forgotten what it granted. Nothing is granted until it has ended.

1. Ids that were given and forgotten are not given again: all sequences go far ahead.
2. Slots that processes hold are void, and each site rests: weir.ratelimit.sites.rest_all.
3. Unread numbers are counted until reconciled: weir.notifications.reconcile.distrust. A copy in another cluster forgets
   ids of transactions, which mean nothing there: weir.notifications.read_marks.adopt.
4. Apps do their part (signals.py): e-mails that may have gone become unknown, links that sign in once are void.
5. What was done is recorded, and the gate opens, in one transaction.

Each step may be done twice. A process that is killed meanwhile leaves the gate closed; the next one begins anew.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from django.apps import apps
from django.db import models, transaction

from weir.logs.loggers import get_logger
from weir.postgres import weir_apps
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate
from weir.postgres.timeline.seen import Seen
from weir.ratelimit import sites
from weir.workers.recovery.models import Recovery
from weir.workers.recovery.signals import postgresql_went_back

log = get_logger(__name__)

OURS: Final = ("weir.notifications.", "weir.ratelimit.", "weir.workers.")  # processes may hold ids of their tables
AHEAD: Final = 10**10  # more ids than can have been given in the time that is lost: three days at 38,000 a second

_NOTIFICATIONS: Final = "weir.notifications"  # a project may do without it, and so without its models


class SkippedTo(NamedTuple):
    """The next id of a table."""

    name: str
    id: int


SKIP_IDS = Statement("skip_ids", row=SkippedTo, commits=True)


def recover(why: str, seen: Seen, who: str) -> Recovery:
    """Recover, and open the gate. The caller has closed it, and has the lease. Raises database errors."""
    first = dict(SKIP_IDS(tables=_numbered(), ahead=AHEAD))
    rested = sites.rest_all()
    if weir_apps.is_installed(_NOTIFICATIONS):
        _count_anew()
    if seen.is_copy:
        _adopt(first)
        gate.renew()
    emails = 0
    for _receiver, unknown in postgresql_went_back.send(sender=None, since=seen.numbered_at):
        emails += int(unknown or 0)
    with transaction.atomic(durable=True):
        done = Recovery.objects.create(since=seen.numbered_at, why=why, who=who, sites=rested, emails=emails)
        generation = gate.open_gate(seen, went_back=True)
    gate.remember(generation)
    gate.exchange()
    log.error("recovered", since=str(seen.numbered_at), sites=rested, emails=emails, reason=why)
    return done


def accept(why: str, seen: Seen, who: str) -> None:
    """Accept PostgreSQL's history: the operator says that nothing is missing. Raises database errors."""
    if seen.is_copy and (table := _table_of_notifications()):
        _adopt(dict(SKIP_IDS(tables=[table], ahead=0)))
    with transaction.atomic(durable=True):
        Recovery.objects.create(since=seen.numbered_at, why=why, who=who, sites=0, emails=0, is_loss=False)
        gate.open_gate(seen, went_back=False)


def _count_anew() -> None:
    from weir.notifications import reconcile  # noqa: PLC0415  only if its app is installed, as below

    reconcile.distrust()


def _adopt(first: Mapping[str, int]) -> None:
    """Adapt read marks to the new rows of notifications; `first` has the id of the first of these."""
    if table := _table_of_notifications():
        from weir.notifications import read_marks  # noqa: PLC0415

        read_marks.adopt(first[table])


def _table_of_notifications() -> str | None:
    if not weir_apps.is_installed(_NOTIFICATIONS):
        return None
    from weir.notifications.models import Notification  # noqa: PLC0415

    return Notification._meta.db_table  # noqa: SLF001  documented


def _numbered() -> list[str]:
    """Return the tables whose ids may be held by processes."""
    of_models = (model._meta for model in apps.get_models() if model.__module__.startswith(OURS))  # noqa: SLF001  documented
    return [options.db_table for options in of_models if isinstance(options.pk, models.BigAutoField)]
