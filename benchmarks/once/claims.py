"""E-mails that are claimed a second, from a queue of 20,000 that are due: in batches, and one by one."""

from collections.abc import Callable
from functools import partial
from statistics import median
from uuid import uuid4

from benchmarks.figures import Figure
from benchmarks.once import queues
from benchmarks.rounds import rate
from weir.workers.mail.sending import leases
from weir.workers.mail.sending.source import BATCH

ROUNDS = 3
DUE = 20_000
CALLS = 1_000


def measure() -> list[Figure]:
    """Return e-mails a second in batches as `send_due` claims them, until none is left, and claims of one a second."""
    return [
        Figure(name=f"claim_by_{BATCH}", value=_middle(partial(_claim, BATCH, DUE), DUE), unit="e-mails/s"),
        Figure(name="claim_by_1", value=_middle(partial(_claim, 1, CALLS), CALLS), unit="e-mails/s"),
    ]


def _middle(claim: Callable[[], None], claimed: int) -> float:
    rates = []
    for _ in range(ROUNDS):
        queues.fill(DUE)
        rates.append(rate(claimed, claim))
    return median(rates)


def _claim(batch: int, total: int) -> None:
    token, left = uuid4(), total
    while left:
        left -= len(leases.claim(batch, token))
