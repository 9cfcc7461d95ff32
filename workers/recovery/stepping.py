"""Corrects all stored times after PostgreSQL's clock was stepped. Nothing is granted meanwhile.

1. Wait for half a second after the gate was closed: then no holder has a confirmation any more, and nothing starts.
2. In one transaction, recall slots, move the clocks of the sites and all other times (sites.step_all, signals.py), and
   open the gate. A process that is killed before leaves the gate closed, and another process begins anew.
"""

import time
from datetime import timedelta

from django.db import transaction

from weir.logs.loggers import get_logger
from weir.postgres.timeline import gate
from weir.ratelimit import sites
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.workers.recovery.signals import postgresql_clock_stepped

log = get_logger(__name__)


def settle() -> None:
    """Correct all times, and open the gate. The caller has closed it, and holds its lease. Raises database errors."""
    time.sleep(CONFIRMED_FOR_S)
    with transaction.atomic(durable=True):
        if (step_s := gate.settle_step()) is None:
            return
        step = timedelta(seconds=step_s)
        stepped = sites.step_all(step)
        postgresql_clock_stepped.send(sender=None, step=step)
    log.warning("clock_step_settled", step_s=round(step_s, 1), sites=stepped)
    gate.look()
