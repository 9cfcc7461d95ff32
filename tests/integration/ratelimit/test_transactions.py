"""Slots are reserved and changed outside transactions only."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError

from tests.integration.ratelimit.conftest import SITE, site_at
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot

pytestmark = pytest.mark.django_db(transaction=True)

CALLS: dict[str, Callable[[], object]] = {
    "reserve": lambda: slots.reserve(SITE),
    "release": lambda: slots.release(1),
    "finish": lambda: slots.finish(1),
    "estimate": lambda: slots.estimate(SITE),
    "back_off": lambda: site_settings.back_off(SITE, 1),
    "set_rate": lambda: site_settings.set_rate(SITE, "1/s"),
    "pause": lambda: site_settings.pause(SITE),
    "resume": lambda: site_settings.resume(SITE),
    "purge": lambda: slots.purge(timedelta(0)),
}


@pytest.mark.parametrize("name", ["set_rate", "pause_site", "resume_site"])
def test_the_error_names_what_was_called(name: str) -> None:
    """By its public name, not by that of a statement."""
    with pytest.raises(TransactionManagementError, match=f"^{name} must commit by itself"), transaction.atomic():
        CALLS[name.removesuffix("_site")]()


@pytest.mark.parametrize("name", CALLS)
def test_no_call_runs_inside_a_transaction(name: str) -> None:
    """A reservation must be committed: inside a transaction every call raises an error that says so."""
    site = site_at()
    with pytest.raises(TransactionManagementError, match="outside transaction"), transaction.atomic():
        CALLS[name]()
    assert not Slot.objects.exists()
    assert Site.objects.get() == site
