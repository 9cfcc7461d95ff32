"""What the tests of beat share: a queue of their own."""

from collections.abc import Callable, Iterator

import pytest
import redis
from django.conf import settings

from weir.workers.beat import scheduler

QUEUE = "test-beat"


@pytest.fixture(autouse=True)
def _renewed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each tick of a beat renew its lease, and so learn at once what has changed."""
    monkeypatch.setattr(scheduler, "RENEWED_EVERY_S", 0.0)


@pytest.fixture
def sent() -> Iterator[Callable[[], int]]:
    """Return a function that counts the messages which the broker has."""
    with redis.from_url(settings.REDIS_URL) as broker:
        broker.delete(QUEUE)
        yield lambda: int(broker.llen(QUEUE))
        broker.delete(QUEUE)
