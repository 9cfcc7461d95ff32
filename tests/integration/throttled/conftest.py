"""What the tests of throttled tasks share: the broker, and a lane."""

from datetime import timedelta

import kombu
import pytest

from ratelimit import slots
from tests.integration.throttled.one_worker import LANE, Broker, started


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Return the broker, empty; no task has started yet."""
    broker = Broker()
    monkeypatch.setattr(kombu.Producer, "publish", lambda _producer, body, **options: broker.publish(body, **options))
    started.clear()
    return broker


@pytest.fixture(autouse=True)
def lane(transactional_db: None) -> None:  # noqa: ARG001  asked for its effect
    """Have a lane whose grace is longer than the pauses of a busy test machine."""
    slots.set_rate(LANE, "10/s", grace=timedelta(milliseconds=200))
