"""Messages where CELERY_TASK_ALWAYS_EAGER is set: a user's task is run, and a tick is not sent."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import shared_task
from celery.exceptions import NotRegistered

from project.celery import app
from weir.workers import broker_link, publish, task_names

ran: list[int] = []


@shared_task(name="tests.noted")
def noted(number: int) -> None:
    """Note the number; there is none below 0."""
    if number < 0:
        raise ValueError(number)
    ran.append(number)


@pytest.fixture(autouse=True)
def _is_eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run tasks at once, and ask no broker."""
    ran.clear()

    def refuse(*_arguments: Any) -> None:
        raise AssertionError("The broker is asked.")

    monkeypatch.setattr(broker_link, "producer", refuse)
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = app.conf.task_eager_propagates = False


def test_a_task_of_a_users_is_run() -> None:
    assert publish.call("tests.noted", 7)
    assert ran == [7]


def test_its_error_is_its_own() -> None:
    """But where Celery is told to raise it."""
    assert publish.call("tests.noted", -1)


def test_its_error_is_raised_where_celery_raises_it() -> None:
    app.conf.task_eager_propagates = True
    with pytest.raises(ValueError, match="-1"):
        publish.call("tests.noted", -1)


def test_a_task_that_is_not_there() -> None:
    with pytest.raises(NotRegistered):
        publish.call("tests.misspelt", 1)


def test_a_tick_is_not_sent() -> None:
    assert publish.publish(task_names.DISPATCH, [1])


def test_what_is_taken_comes_as_it_was_sent() -> None:
    """In the tests of a project there is no broker: the last one that takes messages gets all of them."""
    taken: list[object] = []
    with publish.taken_by(lambda *_message: None), publish.taken_by(lambda *message: taken.append(message)):
        assert publish.publish(task_names.SEND_EMAILS, unless=lambda: True)
        assert publish.call("tests.noted", 1)
        assert publish.publish_signature({"task": "tests.noted", "args": [2], "kwargs": {"a": 3}, "options": {}})
        assert publish.waiting(task_names.SEND_EMAILS) == 0
    assert taken == [(task_names.SEND_EMAILS, (), {}), ("tests.noted", (1,), {}), ("tests.noted", [2], {"a": 3})]
    assert ran == []


def test_a_message_is_not_sent_where_another_does_its_work() -> None:
    app.conf.task_always_eager = False
    assert publish.publish(task_names.SEND_EMAILS, unless=lambda: True)
