"""Sweep and purge, the list of sites and an estimate, with all sites and fetches in the tables."""

from datetime import timedelta
from pathlib import Path

from django.db import connection

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.scale import tables
from benchmarks.scale.explained import call_takes, recorded, statement_takes
from weir.conf import settings
from weir.ratelimit import slots
from weir.workers.fetches import backlog
from weir.workers.fetches.maintenance import purge
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import HELD, Fetch
from weir.workers.fetches.reports.site_list import SiteFilters, all_sites, backlogs, site_list

LOST = int(10_000 * tables.SHARE)


def measure(plans: Path) -> list[Figure]:
    """Return the times; two fetches of every site are held (ticks.py)."""
    database.run_at_length(
        "UPDATE weir_fetches_fetch SET lease_until = now() + interval '1 hour' WHERE state = 'reserved'"
    )
    tables.vacuum()
    return [*_reading(plans), *_sweeping(plans), *_purging(plans)]


def _reading(plans: Path) -> list[Figure]:
    with recorded():
        slots.estimate("site-77.bench")
        counted = backlogs()
    busiest = SiteFilters(sort="backlog")
    return [
        statement_takes(plans, "estimate", "weir.ratelimit", "estimate"),
        statement_takes(plans, "sites", "weir.workers.fetches", "backlogs"),
        call_takes("sites_call", lambda: site_list(busiest, counted=backlogs())),
        call_takes("sites_page", lambda: site_list(busiest, counted=counted)),
        call_takes("sites_call_all", lambda: all_sites(busiest, None, counted=backlogs())),
    ]


def _sweeping(plans: Path) -> list[Figure]:
    held = Fetch.objects.filter(state__in=HELD).count()
    with recorded():
        figures = [call_takes("sweep", sweep)]
    idle = {"sites": None, "after": tables.SITES, "most": backlog.SITES_A_LOOK}
    figures += [
        statement_takes(plans, "lost", "weir.workers.fetches", "lost"),
        statement_takes(plans, "overlooked_sites_on", "weir.workers.fetches", "activate", {**idle, "after": 0}),
        statement_takes(plans, "overlooked_sites_off", "weir.workers.fetches", "activate", idle),
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE weir_fetches_fetch SET lease_until = now() WHERE id IN"
            f" (SELECT id FROM weir_fetches_fetch WHERE state = 'reserved' LIMIT {LOST})"
        )
    return [
        Figure(name="scale_held", value=held, unit="fetches"),
        *figures,
        call_takes(f"sweep_of_{LOST}_lost", sweep),
    ]


def _purging(plans: Path) -> list[Figure]:
    kept = timedelta(seconds=settings.WEIR_SLOT_RETENTION)
    begin: dict[str, object] = {"older_than": kept.total_seconds(), "batch": slots.PURGE_BATCH, "after": 0}
    ended = {"older_than": settings.WEIR_FETCH_RETENTION, "batch": purge.BATCH}
    gone: list[int] = []
    figures = [
        statement_takes(plans, "purge_slots_batch", "weir.ratelimit", "purge_slots", begin),
        slots_purged := call_takes("purge_slots", lambda: gone.append(slots.purge(kept))),
        call_takes("purge_slots_again", lambda: slots.purge(kept)),
        statement_takes(plans, "purge_fetches_batch", "weir.workers.fetches", "purge_fetches", ended),
        fetches_purged := call_takes("purge_fetches", lambda: gone.append(purge.purge())),
        call_takes("purge_again", purge.purge),
    ]
    for what, took, count in zip(("slots", "fetches"), (slots_purged, fetches_purged), gone, strict=True):
        figures.append(Figure(name=f"scale_purged_{what}", value=count, unit="rows"))
        figures.append(Figure(name=f"scale_purge_{what}_rate", value=count / took.value * 1000, unit="rows/s"))
    return figures
