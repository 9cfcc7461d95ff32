"""A broker whose URL lacks what Kombu needs is unreachable: a sentence, and no error of Kombu's."""

from collections.abc import Iterator

import pytest
from celery import Celery

from project.doctor.findings import Level
from project.doctor.themes import redis_server
from workers import broker_link


@pytest.fixture
def _nameless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a Redis Sentinel for a broker, and no name of the group that it watches."""
    monkeypatch.setattr(broker_link, "_app", lambda: Celery(broker="sentinel://", set_as_current=False))
    broker_link.forget_outage()
    broker_link._connection.cache_clear()
    yield
    broker_link._connection.cache_clear()


@pytest.mark.usefixtures("_nameless")
def test_a_sentinel_without_the_name_of_its_group_is_unreachable() -> None:
    """The sentence says where to write it; `doctor` has it, too."""
    with pytest.raises(broker_link.Unreachable, match=r"CELERY_BROKER_TRANSPORT_OPTIONS\['master_name'\]"):
        broker_link.waiting_in("default")
    level, sentence, _ = redis_server._send()
    assert (level, sentence) == (Level.WRONG, f"{broker_link.NAMELESS}.")
