"""What processes do that queue effects and perform them, to be killed.

`die_at` names a step at which a process kills itself, with SIGKILL.
"""

import os
import random
import time
from pathlib import Path

from tests.acceptance.processes import die_around, goes_on  # isort: skip  first, as it sets Django up

from django.db import close_old_connections, connection

from tests import payments, refunds
from weir.workers.effects import queueing
from weir.workers.effects.performing import runner
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.effects.performing.threads import THREADS

# Where a process can be killed.
STEPS = (
    "after claim",
    "before begin",
    "after begin",
    "after post",
    "before record",
    "after record",
    "before probe",
    "after probe",
)
WORDS = (*["plain"] * 8, *payments.WORDS)
AT_LENGTH = "WEIR_FAULTS" in os.environ
REST_S = 0.05
QUEUE_EVERY_S = 0.06  # of a clerk
MOST = 1_000_000  # effects of a clerk


def queue_refunds(clerk: int, ports: dict[str, int], stop: Path) -> None:
    """Queue refunds of all kinds, one after the other, until `stop` exists."""
    connection.settings_dict["CONN_MAX_AGE"] = None
    chance = random.Random(clerk)  # noqa: S311  not for secrets
    for number in range(MOST):
        if not goes_on(stop):
            return
        order = f"{chance.choice(WORDS)}.{clerk}-{number}"
        kind = chance.choice(refunds.KINDS)
        queueing.once(kind, order, context={"port": ports[kind], "order": order})
        time.sleep(QUEUE_EVERY_S)


def keep_performing(stop: Path, die_at: str = "") -> None:
    """Give what is due to threads again and again, as the task does, until `stop` exists."""
    connection.settings_dict["CONN_MAX_AGE"] = None
    if die_at:
        _die_at(*die_at.split(" "))
    while goes_on(stop):
        runner.take_up()
        close_old_connections()
        time.sleep(REST_S)
    THREADS.close()


def _die_at(when: str, step: str) -> None:
    if step == "claim":
        die_around(LEDGER, "claim", when, lambda _, claimed: claimed)
    elif step == "post":
        die_around(payments, "post", when)
    elif step == "probe":
        die_around(payments, "refunds", when)
    else:
        die_around(LEDGER, step, when)
