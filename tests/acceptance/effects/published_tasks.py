"""Refunds by patterns that are published for Celery. A worker is killed after the API has done what it was asked."""

import os

import redis
from celery import shared_task

from tests import payments
from tests.acceptance.processes import die

DYING = "dies"  # the first word of orders whose worker dies, once


def _refund(port: int, order: str) -> None:
    payments.post(port, order)
    if order.startswith(DYING) and payments.refunds(port, order) == 1:
        die()


@shared_task(acks_late=True, reject_on_worker_lost=True, ignore_result=True)
def refund_acknowledged_late(port: int, order: str) -> None:
    """The message comes again if its worker dies: no refund is lost."""
    _refund(port, order)


@shared_task(acks_late=True, reject_on_worker_lost=True, ignore_result=True)
def refund_with_key_in_redis(port: int, order: str) -> None:
    """And what is done is written down in Redis, and not done again."""
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as keys:
        if not keys.get(f"refunded:{order}"):
            _refund(port, order)
            keys.set(f"refunded:{order}", 1)
