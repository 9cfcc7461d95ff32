"""A broker that is away costs the publisher neither an exception nor time: it is logged, and told by the answer."""

import json
import socket
from typing import Any

import pytest
import redis
from django.conf import settings

from tests.integration.conftest import StartPython
from tests.integration.ports import closed_port, opened_port
from weir.workers import task_names
from weir.workers.publish import publish, waiting
from weir.workers.ticks import MOST_WAKING

PUBLISH = """
import json, time
from structlog.testing import capture_logs
from weir.workers import task_names
from weir.workers.publish import publish, waiting
answers = []
with capture_logs() as logs:
    for _ in range(int(sys.argv[1])):
        began_at = time.monotonic()
        answer = [publish(task_names.FETCH_BATCH, [1, 2]), waiting(task_names.FETCH_BATCH)]
        answers.append([answer, time.monotonic() - began_at])
print(json.dumps({"answers": answers, "logs": logs}), flush=True)
"""


def published(start_python: StartPython, broker: str, times: int = 1) -> dict[str, Any]:
    """Publish in a process whose broker is that one."""
    process = start_python(PUBLISH, times, environment={"CELERY_BROKER_URL": broker})
    output, _ = process.communicate(timeout=60)
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("broker", ["redis://127.0.0.1:{port}/0", "redis+socket:///nowhere/valkey.sock"])
def test_a_broker_that_is_down_is_logged_and_told_at_once(broker: str, start_python: StartPython) -> None:
    """It cannot be told how many messages wait either; within a second, each time. The log names task and reason."""
    said = published(start_python, broker.format(port=closed_port()), times=3)
    assert [answer for answer, _ in said["answers"]] == [[False, None]] * 3
    assert max(took_s for _, took_s in said["answers"]) < 1
    assert {(log["event"], log["log_level"], log["task"]) for log in said["logs"]} == {
        ("broker_unreachable", "warning", task_names.FETCH_BATCH)
    }
    assert all(log["error"] for log in said["logs"])


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_hangs_is_waited_for_once(start_python: StartPython) -> None:
    """It takes connections and never answers: the first call gives up within 1.5 s, and for a while no other tries."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = published(start_python, f"redis://127.0.0.1:{silent.getsockname()[1]}/0", times=3)
    assert [answer for answer, _ in said["answers"]] == [[False, None]] * 3
    first, *others = [took_s for _, took_s in said["answers"]]
    assert first < 1.5
    assert max(others) < 0.1


@pytest.mark.django_db(transaction=True)
def test_the_next_of_several_brokers_is_tried(start_python: StartPython, own_broker: Any) -> None:
    """As workers do: where the first is down, messages go to the second."""
    port = opened_port(own_broker)
    said = published(start_python, f"redis://127.0.0.1:{closed_port()}/0;redis://127.0.0.1:{port}/0")
    assert said["answers"][0][0] == [True, 1]


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_refuses_raises_nothing(start_python: StartPython, own_broker: Any) -> None:
    """One that is read-only after a fail-over is logged and told like one that is down."""
    own_broker.replicaof("127.0.0.1", 1)
    path = own_broker.connection_pool.connection_kwargs["path"]
    said = published(start_python, f"redis+socket://{path}")
    assert said["answers"][0][0][0] is False
    assert "read only" in said["logs"][0]["error"]


@pytest.mark.usefixtures("embedded_servers")
@pytest.mark.parametrize(
    ("task", "queue"), [(task_names.DISPATCH, "weir.ticks"), (task_names.SEND_EMAILS, "weir.mail")]
)
def test_a_tick_is_not_sent_where_many_wait(task: str, queue: str) -> None:
    """Each does all that is due: while the workers of a queue are away, its backlog stays short."""
    broker = redis.from_url(settings.REDIS_URL)
    broker.delete(queue)
    try:
        assert [publish(task, [number]) for number in range(MOST_WAKING + 5)] == [True] * (MOST_WAKING + 5)
        assert broker.llen(queue) == MOST_WAKING
        broker.rpop(queue)
        assert publish(task)
        assert broker.llen(queue) == MOST_WAKING
    finally:
        broker.delete(queue)
        broker.close()


@pytest.mark.usefixtures("embedded_servers")
def test_a_message_reaches_its_queue() -> None:
    """With a broker the answer is True, the message is in the queue of its task, with its arguments, and is counted."""
    broker = redis.from_url(settings.REDIS_URL)
    broker.delete("weir.fetch")
    try:
        assert waiting(task_names.FETCH_BATCH) == 0
        assert publish(task_names.FETCH_BATCH, [1, 2]) is True
        assert waiting(task_names.FETCH_BATCH) == 1
        assert broker.llen("weir.fetch") == 1
        body = json.loads(broker.lindex("weir.fetch", 0) or "")
        assert body["headers"]["task"] == task_names.FETCH_BATCH
        assert body["headers"]["argsrepr"] == "([1, 2],)"
    finally:
        broker.delete("weir.fetch")
        broker.close()


@pytest.mark.usefixtures("embedded_servers")
@pytest.mark.parametrize(("task", "ignores"), [(task_names.HEARTBEAT, True), ("shop.tasks.price_came", False)])
def test_a_task_of_a_users_has_its_result_kept_as_its_project_says(task: str, ignores: bool) -> None:
    """Weir's own results would fill the project's backend: 350,000 keys a day."""
    queue = settings.CELERY_TASK_DEFAULT_QUEUE
    broker = redis.from_url(settings.REDIS_URL)
    broker.delete(queue)
    try:
        assert publish(task, 7)
        body = json.loads(broker.lindex(queue, 0) or "")
        assert bool(body["headers"]["ignore_result"]) is ignores
    finally:
        broker.delete(queue)
        broker.close()
