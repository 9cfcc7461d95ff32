"""Corrects the times of endpoints after PostgreSQL's clock was set back."""

from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Least, Now

from weir.workers.webhooks.models import Endpoint


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Move no time of an endpoint into the future, in the caller's transaction.

    Until then, no answer 410 would pause the endpoint, and none of its webhooks would be sent at once.
    """
    if step < timedelta(0):
        Endpoint.objects.update(resumed_at=Least(F("resumed_at"), Now()), woken_at=Least(F("woken_at"), Now()))
