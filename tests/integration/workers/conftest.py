"""What the tests of beat share: a queue of their own."""

from collections.abc import Callable, Iterator

import pytest
import redis
from django.conf import settings

QUEUE = "test-beat"


@pytest.fixture
def sent() -> Iterator[Callable[[], int]]:
    """Return a function that counts the messages which the broker has."""
    with redis.from_url(settings.REDIS_URL) as broker:
        broker.delete(QUEUE)
        yield lambda: int(broker.llen(QUEUE))
        broker.delete(QUEUE)
