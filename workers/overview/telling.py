"""Tells operators by e-mail when something begins to need somebody: once for each problem, from when it has lasted.

A problem is told of when it is seen for LASTS_S seconds or longer. One that is gone for FORGOTTEN_AFTER_S is forgotten,
and told of again if it comes back; one that comes and goes is told of once. Who is told of several gets one e-mail.

The rows of the problems are locked while they are told of, and the e-mails are queued in the same transaction. So two
runs at the same time, or one that is killed anywhere, tell each operator once.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models.functions import Now

from weir.conf import settings
from weir.postgres import weir_apps
from weir.workers.overview.models import OpenProblem
from weir.workers.overview.overview import overview
from weir.workers.overview.problems import PersonNeeded, problems

KIND: Final = "weir.needs_somebody"
MAIL: Final = "weir.workers.mail"
LASTS_S: Final = 50.0  # less than the time between two runs
FORGOTTEN_AFTER_S: Final = 600.0


def tell() -> int:
    """Look at everything, and queue e-mails about what began to need somebody; return of how many problems."""
    if not settings.WEIR_OPERATORS or not weir_apps.is_installed(MAIL):
        return 0
    found = {key(problem): problem for problem in reversed(list(problems(overview())))}  # the first one with its key
    with transaction.atomic():
        _note(found)
        lasts = OpenProblem.objects.filter(told_at=None, since__lte=Now() - timedelta(seconds=LASTS_S), key__in=found)
        news = list(lasts.select_for_update().order_by("since", "key"))
        if news:
            OpenProblem.objects.filter(pk__in=[each.key for each in news]).update(told_at=Now())
            _send(news, found)
    return len(news)


def key(problem: PersonNeeded) -> str:
    """Return what is the same of a problem while its numbers change: its alarm, and what it is about."""
    about = [part for target in problem.targets[:1] for part in (target.kind.value, target.value, target.of) if part]
    return " ".join([problem.runbook.heading, *about])[:200].replace("\0", "")


def _note(keys: Iterable[str]) -> None:
    """Store which problems there are, and forget those that have been gone for long."""
    OpenProblem.objects.filter(seen_at__lt=Now() - timedelta(seconds=FORGOTTEN_AFTER_S)).exclude(key__in=keys).delete()
    rows = [OpenProblem(key=each, seen_at=Now()) for each in sorted(keys)]
    OpenProblem.objects.bulk_create(rows, update_conflicts=True, unique_fields=["key"], update_fields=["seen_at"])


def _send(news: list[OpenProblem], found: Mapping[str, PersonNeeded]) -> None:
    from weir.workers.mail.outbox import send_once  # noqa: PLC0415  only a project with e-mails has its models

    told = [[found[each.key].text, found[each.key].next_step, found[each.key].runbook.page] for each in news]
    for operator in settings.WEIR_OPERATORS:
        occurrence = "\n".join([operator, *(f"{each.key} {each.since.isoformat()}" for each in news)])
        unique = hashlib.sha256(occurrence.encode()).hexdigest()
        send_once(KIND, unique, to=operator, context={"problems": told}, language="en", raises=False)
