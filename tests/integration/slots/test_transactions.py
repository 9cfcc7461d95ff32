"""Slots are reserved and changed outside transactions only."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError

from ratelimit import slots
from ratelimit.models import Site, Slot
from tests.integration.slots.conftest import LANE, lane

pytestmark = pytest.mark.django_db(transaction=True)

CALLS: dict[str, Callable[[], object]] = {
    "reserve": lambda: slots.reserve(LANE),
    "release": lambda: slots.release(1),
    "finish": lambda: slots.finish(1),
    "estimate": lambda: slots.estimate(LANE),
    "back_off": lambda: slots.back_off(LANE, 1),
    "set_rate": lambda: slots.set_rate(LANE, "1/s"),
    "pause": lambda: slots.pause(LANE),
    "resume": lambda: slots.resume(LANE),
    "purge": lambda: slots.purge(timedelta(0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_call_runs_inside_a_transaction(name: str) -> None:
    """What is reserved must be committed: inside a transaction every call is a loud error that says so."""
    site = lane()
    with pytest.raises(TransactionManagementError, match="outside transaction"), transaction.atomic():
        CALLS[name]()
    assert not Slot.objects.exists()
    assert Site.objects.get() == site
