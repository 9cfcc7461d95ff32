"""A task of a user that takes a second."""

import time

from celery import shared_task


@shared_task(name="tests.takes_a_second")
def takes_a_second() -> None:
    """Keep a worker busy."""
    time.sleep(1)
