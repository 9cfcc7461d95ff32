"""throttled_task refuses nonsense where it is written, with a sentence that says what is meant."""

from itertools import count
from typing import Any

import pytest
from celery import Task, shared_task

from project.celery import app
from tests.cases import for_each
from weir.ratelimit.site_names import InvalidSiteName
from weir.workers.throttled.decorator import throttled_task

numbers = count()


def task(**options: Any) -> Any:
    """Return a new task, which is no other's."""

    def body() -> None:
        raise NotImplementedError

    make: Any = shared_task
    return make(name=f"tests.throttled.{next(numbers)}", **options)(body)


@for_each("max_wait", [-1, -0.001, float("nan"), float("inf"), 1e300])
def test_a_max_wait_that_is_no_time_is_refused(max_wait: float) -> None:
    """No worker can wait for that long."""
    with pytest.raises(ValueError, match="max_wait must be a number of seconds"):
        throttled_task(site="api.example.com", max_wait=max_wait)


@for_each("site", [None, 7, b"api.example.com", ["api.example.com"]])
def test_a_site_that_is_neither_text_nor_function_is_refused(site: Any) -> None:
    """It names no site and cannot be asked for one."""
    with pytest.raises(TypeError, match="site must be a host"):
        throttled_task(site=site)


@for_each("site", ["", "https://api.example.com/orders", "two words"])
def test_a_text_that_names_no_site_is_refused(site: str) -> None:
    """At once, not when the first task runs."""
    with pytest.raises(InvalidSiteName, match="write its host"):
        throttled_task(site=site)


class Unregistered(Task):  # type: ignore[type-arg]  # has no parameters when it runs
    """A task class that no app has."""


@for_each("thing", [lambda: None, None, "shop.tasks.update_stock", Unregistered])
def test_what_is_no_celery_task_is_refused(thing: Any) -> None:
    """Such as a function, where the decorators stand in the wrong order."""
    with pytest.raises(TypeError, match="goes above @shared_task or"):
        throttled_task(site="api.example.com")(thing)


@for_each("options", [{}, {"autoretry_for": (OSError,)}])
def test_a_task_is_throttled_once(options: dict[str, Any]) -> None:
    """Twice would be two slots for one start."""
    once = throttled_task(site="api.example.com")(task(**options))
    with pytest.raises(TypeError, match="throttled already"):
        throttled_task(site="other.example.com")(once)


@for_each("limit", ["time_limit", "soft_time_limit"])
def test_a_time_limit_that_would_end_the_wait_is_refused(limit: str) -> None:
    """Time limits count from when the worker takes the task, so they include the waiting."""
    with pytest.raises(ValueError, match="time limits include the waiting"):
        throttled_task(site="api.example.com", max_wait=30)(task(**{limit: 30}))
    throttled_task(site="api.example.com", max_wait=30)(task(**{limit: 31}))


def test_what_comes_back_is_the_task() -> None:
    """It has its name, its signature and its ways to be sent."""

    @shared_task(name="tests.throttled.update_stock", bind=True)
    def update_stock(self: Any, sku: str, *, count: int = 1) -> None:
        """Say how many there are."""
        raise NotImplementedError((self, sku, count))

    throttled = throttled_task(site="api.example.com")(update_stock)
    assert throttled is update_stock
    assert app.tasks["tests.throttled.update_stock"].run.__name__ == "update_stock"
    with pytest.raises(TypeError, match="sku"):
        throttled.apply_async(())
