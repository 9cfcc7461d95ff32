"""Tells operators by e-mail what has begun to need somebody.

1. Each run stores which problems there are, with when each was seen first.
2. It locks the rows of those that have lasted for LASTS_S and were not told.
3. In the same transaction it marks them as told, and queues one e-mail for each operator. So of two runs at the same
   time one tells, and a run that is killed has told nobody.

A problem that has been gone for FORGOTTEN_AFTER_S is forgotten, and told again if it comes back. One that comes and
goes is told once.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models.functions import Now

from weir.conf import settings
from weir.postgres import weir_apps
from weir.workers.cli.terminal import printable
from weir.workers.overview.models import OpenProblem
from weir.workers.overview.overview import overview
from weir.workers.overview.problems import PersonNeeded, problems

KIND: Final = "weir.needs_somebody"
MAIL: Final = "weir.workers.mail"
LASTS_S: Final = 50.0  # less than the time between two runs
FORGOTTEN_AFTER_S: Final = 600.0


def tell() -> int:
    """Look at everything, and queue e-mails about what has begun to need somebody; return the number of problems."""
    if not settings.WEIR_OPERATORS or not weir_apps.is_installed(MAIL):
        return 0
    found = {key(problem): problem for problem in problems(overview())}
    with transaction.atomic():
        _note(found)
        lasts = OpenProblem.objects.filter(told_at=None, since__lte=Now() - timedelta(seconds=LASTS_S), key__in=found)
        news = list(lasts.select_for_update().order_by("since", "key"))
        if news:
            OpenProblem.objects.filter(pk__in=[each.key for each in news]).update(told_at=Now())
            _send(news, found)
    return len(news)


def key(problem: PersonNeeded) -> str:
    """Return what stays the same of a problem while its numbers and its worst sites change."""
    return f"{problem.runbook.heading} {problem.about}".rstrip()[:200].replace("\0", "")


def _note(keys: Iterable[str]) -> None:
    """Store which problems there are, and forget those that have been gone for long."""
    OpenProblem.objects.filter(seen_at__lt=Now() - timedelta(seconds=FORGOTTEN_AFTER_S)).exclude(key__in=keys).delete()
    rows = [OpenProblem(key=each, seen_at=Now()) for each in sorted(keys)]
    OpenProblem.objects.bulk_create(rows, update_conflicts=True, unique_fields=["key"], update_fields=["seen_at"])


def _send(news: list[OpenProblem], found: Mapping[str, PersonNeeded]) -> None:
    from weir.workers.mail.outbox import send_once  # noqa: PLC0415  only a project with e-mails has its models

    context = {"problems": [_told(found[each.key], each.since) for each in news]}
    for operator in settings.WEIR_OPERATORS:
        occurrence = "\n".join([operator, *(f"{each.key} {each.since.isoformat()}" for each in news)])
        unique = hashlib.sha256(occurrence.encode()).hexdigest()
        send_once(KIND, unique, to=operator, context=context, language="en", raises=False)


def _told(problem: PersonNeeded, since: datetime) -> dict[str, str]:
    """Return what the templates of the e-mail say of a problem. It may be read hours later: mailers may be down."""
    at = f"{since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    text, next_step = printable(problem.text), printable(problem.next_step)  # a mail server writes parts of them
    return {"text": text, "next_step": next_step, "runbook": problem.runbook.place, "since": at}
