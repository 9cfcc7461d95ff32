"""What the tests of throttled tasks share: the broker, and a site."""

from datetime import timedelta

import kombu
import pytest

from tests.integration.throttled.one_worker import SITE, Broker, started
from weir.ratelimit import site_settings


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Return the broker, empty; no task has started yet."""
    broker = Broker()
    monkeypatch.setattr(kombu.Producer, "publish", lambda _producer, body, **options: broker.publish(body, **options))
    started.clear()
    return broker


@pytest.fixture(autouse=True)
def site(transactional_db: None) -> None:  # noqa: ARG001  asked for its effect
    """Create a site whose grace is longer than the pauses of a busy test machine."""
    site_settings.set_rate(SITE, "10/s", grace=timedelta(milliseconds=200))
