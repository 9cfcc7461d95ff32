"""throttled_task: a Celery task that starts only in a slot of its site, counted over all workers.

    @throttled_task(site="api.example.com", max_wait=30)
    @shared_task
    def update_stock(sku): ...

Celery's own `rate_limit` applies to each worker separately.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from celery import Task

from weir.ratelimit import site_names
from weir.ratelimit.slots import check_max_wait
from weir.ratelimit.throttle import throttle
from weir.workers.throttled import waiting

AnyTask = TypeVar("AnyTask")
THROTTLED = "_is_throttled"  # an attribute of the task


def throttled_task(*, site: str | Callable[..., str], max_wait: float = 15.0) -> Callable[[AnyTask], AnyTask]:
    """Start a Celery task only in its site's slots. Write this decorator above `@shared_task` or `@app.task`.

    `site` is a host, or a function that gets the task's arguments (without a bound `self`) and returns a host.
    The task waits for its slot in the worker, at most `max_wait` seconds. If the slot is farther away, the worker
    writes the task into PostgreSQL, and a publisher sends its message again when its turn comes
    (`weir.workers.throttled.publishing`). If code calls the task directly, or with `apply`, the task waits, too, but
    raises slots.SlotTooFar if the slot is farther away, because there is no message to publish again.

    Raises TypeError for an object that is not a Celery task, for a task that is throttled already, and for a `site`
    that is neither a text nor callable. Raises ValueError for a `max_wait` outside 0 to 100 years, or not shorter than
    the task's time limits, which include the wait. Raises InvalidSiteName (a ValueError) for a `site` that is not the
    name of a site.
    """
    check_max_wait(max_wait)
    site_of = _site_of(site)

    def decorate(task: AnyTask) -> AnyTask:
        _throttle(_checked(task, max_wait), site_of, max_wait)
        return task

    return decorate


def _site_of(site: str | Callable[..., str]) -> Callable[..., str]:
    """Return a function that returns the name of a task's site, given the task's arguments."""
    if isinstance(site, str):
        fixed = site_names.canonical(site)
        return lambda *_args, **_kwargs: fixed
    if not callable(site):
        raise TypeError(f"site must be a host, such as api.example.com, or a function that returns one, not {site!r}.")

    def called(*args: Any, **kwargs: Any) -> str:
        named: object = site(*args, **kwargs)
        if not isinstance(named, str):
            raise site_names.InvalidSiteName(
                f"The function `site` of a throttled task must return a host, not {named!r}."
            )
        return site_names.canonical(named)

    return called


def _checked(task: object, max_wait: float) -> "Task[Any, Any]":
    """Return the task behind the proxy that Celery's decorators return; raise the errors of `throttled_task`."""
    if not isinstance(task, Task):
        raise TypeError(f"throttled_task goes above @shared_task or @app.task: {task!r} is not a Celery task.")
    itself: Task[Any, Any] = task.app.tasks[task.name]
    if hasattr(itself, THROTTLED):
        raise TypeError(f"The task {task.name} is throttled already: one throttled_task is enough.")
    for limit in (itself.soft_time_limit, itself.time_limit):
        if limit is not None and limit <= max_wait:
            raise ValueError(
                f"max_wait ({max_wait} s) must be shorter than the time limit of {task.name} ({limit} s): "
                "time limits include the waiting."
            )
    return itself


def _throttle(task: "Task[Any, Any]", site_of: Callable[..., str], max_wait: float) -> None:
    """Make the task wait for the slot before it runs its function, in workers, in `apply` and in direct calls.

    The wait is inside Celery's `autoretry_for`, which therefore also covers errors of the wait, such as database
    errors.
    """
    name = "_orig_run" if hasattr(task, "_orig_run") else "run"
    run = getattr(task, name)

    @wraps(run)
    def run_in_slot(*args: Any, **kwargs: Any) -> object:
        if waiting.is_for_a_message(task.request):
            with waiting.slot_for_message(task, lambda: site_of(*args, **kwargs), max_wait):
                return run(*args, **kwargs)
        with throttle(site_of(*args, **kwargs), max_wait):
            return run(*args, **kwargs)

    setattr(task, name, run_in_slot)
    setattr(task, THROTTLED, True)
