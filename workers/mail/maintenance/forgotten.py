"""E-mails of which PostgreSQL has forgotten whether they were sent."""

from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from django.db.models.functions import Now

from postgres import statements
from postgres.timeline import gate
from workers.mail.models import Email

BATCH: Final = 1_000

_query = partial(statements.run, "workers.mail.maintenance")


class Batch(NamedTuple):
    """How many e-mails became unknown."""

    unknown: int


def make_unknown(*, since: datetime, **_signal: object) -> int:
    """Make all e-mails unknown that may have been sent `since` then.

    Those are due, claimed or being sent, or unknown already, as one may have been sent again. Returns how many. What a
    living mailer has in hand it still settles, when it learns that the e-mail was accepted.
    """
    now = Email.objects.values_list(Now(), flat=True).first()  # None without any e-mail
    reply = f"PostgreSQL has forgotten what happened since {since:%Y-%m-%d %H:%M:%S} UTC: this may have been sent."
    made, last = 0, BATCH
    while now and last == BATCH and gate.renew():  # what is sent since another process has ended it is not forgotten
        [(last,)] = _query("make_unknown", {"until": now, "reply": reply, "batch": BATCH}, row=Batch)
        made += last
    return made
