"""What tests of the real fetcher need: bookings as dispatch makes them, without a broker."""

import time

from postgres import statements
from workers.fetches.dispatch import TRAVEL
from workers.fetches.fetcher import Fetcher
from workers.fetches.models import Fetch


def reserve_all() -> list[int]:
    """Book everything that is queued; returns the slots, as a message would carry them."""
    rows = statements.run(
        "workers.fetches",
        "dispatch",
        {
            "lookahead": 30.0,
            "refill": 30.0,
            "lanes": 100,
            "longest_run": 100,
            "delivery": 2.0,
            "travel": TRAVEL,
            "apart": 0,
            "phases": 1,
            "after": 0,
            "sites": None,
            "confirmed_for": 0,
        },
    )
    return [slot_id for row in rows for slot_id in row.slot_ids]


def fetched(fetch: Fetch, fetcher: Fetcher) -> Fetch:
    """Dispatch, as beat would, until the fetch has ended."""
    give_up_at = time.monotonic() + 10
    while Fetch.objects.unfinished().filter(pk=fetch.pk).exists():
        assert time.monotonic() < give_up_at, "the fetch did not end"
        if slot_ids := reserve_all():
            fetcher.run_batch(slot_ids)
        time.sleep(0.02)
    return Fetch.objects.get(pk=fetch.pk)
