"""Dispatch moves a site's clock even if another transaction replaced the row after the statement began."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connections

from tests.integration.conftest import Eventually, WaitersOf
from tests.integration.fetching import SITE, queue_pages, reserve_all
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_row_that_was_replaced_meanwhile_has_its_clock_moved(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """The statement waits at the gate while a reservation is committed: its starts come behind that reservation."""
    site_settings.set_rate(SITE, "1/s")
    assert reserve_all() == []  # afterwards it knows PostgreSQL's clock
    queue_pages(3)
    reserved_until = other_connection.execute(
        "UPDATE weir_ratelimit_site SET next_start = clock_timestamp() + interval '5 s' RETURNING next_start"
    ).fetchone()
    other_connection.execute("LOCK TABLE weir_timeline_knowntimeline IN ACCESS EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as pool:
        reserving = pool.submit(_reserve_all)
        eventually(lambda: waiters(other_connection) == 1, "dispatch to wait at the gate")
        other_connection.commit()
        assert len(reserving.result(30)) == 3
    site, slots = Site.objects.get(name=SITE), Slot.objects.order_by("pk")
    assert reserved_until is not None
    assert slots[0].start_time >= reserved_until[0]
    assert site.next_start == slots[0].use_until + site.effective_interval


def _reserve_all() -> list[int]:
    try:
        return reserve_all()
    finally:
        connections.close_all()
