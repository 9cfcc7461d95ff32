"""An endpoint whose times are later than PostgreSQL's clock, which was set back."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from weir.workers.recovery.signals import postgresql_clock_stepped
from weir.workers.webhooks.models import Endpoint

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def test_no_time_of_an_endpoint_is_in_the_future_after_the_clock_was_set_back() -> None:
    Endpoint.objects.create(name="later", url="https://a.example/", resumed_at=Now() + HOUR, woken_at=Now() + HOUR)
    past = Endpoint.objects.create(name="past", url="https://a.example/", resumed_at=Now() - HOUR)
    past.refresh_from_db()
    postgresql_clock_stepped.send(None, step=-HOUR)
    assert Endpoint.objects.filter(resumed_at__lte=Now(), woken_at__lte=Now()).count() == 2
    assert Endpoint.objects.get(pk=past.pk).resumed_at == past.resumed_at
