"""A broker whose URL lacks what Kombu needs is unreachable: a sentence, and no error of Kombu's."""

import pytest
import redis.exceptions
from celery import Celery
from kombu.exceptions import OperationalError

from project.doctor.findings import Level
from project.doctor.themes import redis_server
from project.errors import explain
from tests.cases import for_each
from weir.workers import broker_link


@pytest.fixture
def _nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a Redis Sentinel as the broker, without the name of the group that it watches."""
    nameless = Celery(broker="sentinel://", set_as_current=False)
    monkeypatch.setattr(broker_link, "app", lambda: nameless)
    broker_link.forget_outage()


@pytest.mark.usefixtures("_nameless")
def test_a_sentinel_without_the_name_of_its_group_is_unreachable() -> None:
    """The sentence says where to write it; `doctor` has it, too."""
    with pytest.raises(broker_link.BrokerUnreachable, match=r"CELERY_BROKER_TRANSPORT_OPTIONS\['master_name'\]"):
        broker_link.waiting_in("default")
    level, sentence, _ = redis_server._send()
    assert (level, sentence) == (Level.WRONG, f"{broker_link.NAMELESS}.")


@for_each(
    ("reply", "words"),
    [
        (
            redis.exceptions.ResponseError("MISCONF Errors writing to the AOF file: No space left"),
            "make room on its disk",
        ),
        (
            redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
            "raise its maxmemory",
        ),
        (redis.exceptions.ReadOnlyError("You can't write against a read only replica."), "to the primary"),
        (redis.exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), "mend what it names"),
        (redis.exceptions.NoPermissionError("this user has no permissions"), "Rights in Redis"),
        (redis.exceptions.AuthenticationError("WRONGPASS"), "correct the user and the password"),
        (redis.exceptions.BusyLoadingError("Valkey is loading the dataset in memory"), "wait: "),
        (redis.exceptions.ConnectionError("Connection refused"), None),
        (redis.exceptions.TimeoutError("Timeout reading from socket"), None),
        (OSError("No route to host"), None),
    ],
)
@for_each("is_wrapped", [False, True])
def test_who_answers_and_refuses_is_not_to_be_started(reply: Exception, words: str | None, is_wrapped: bool) -> None:
    """What was away is started or looked for; what refuses says what is to be mended. All senders are told the same."""
    error: Exception = reply
    if is_wrapped:
        error = OperationalError(str(reply))
        error.__cause__ = reply
    broker_link.forget_outage()
    for _ in range(2):  # the second time it is left alone
        with pytest.raises(broker_link.BrokerUnreachable) as refused, broker_link._noting_outages():
            raise error
        assert words in refused.value.remedy if words else not refused.value.remedy
    if words:
        told = explain(error)
        assert told
        assert "answers, and refuses what it is told" in told
        assert words in told
    broker_link.forget_outage()
