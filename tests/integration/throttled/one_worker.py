"""A worker that handles one message when it is told to, and a broker that is a list. All in between is Celery's own."""

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from celery import Task, shared_task
from celery.app.trace import build_tracer
from django.db.models import F
from kombu.exceptions import OperationalError
from kombu.utils import json

from project.celery import app
from weir.ratelimit import site_settings
from weir.workers.throttled.decorator import throttled_task
from weir.workers.throttled.models import PostponedTask

SITE = "site.example"
MAX_WAIT = 10.0  # seconds: a busy machine waits no longer for a slot that is near


@dataclass(kw_only=True)
class Message:
    """What a broker gets: headers, body (arguments, keyword arguments, links), and where it goes."""

    headers: dict[str, Any]
    body: Any
    routing_key: str
    priority: int | None

    @property
    def about(self) -> tuple[str, Any]:
        """Return the task's name and its arguments."""
        return self.headers["task"], self.body[0]


@dataclass(kw_only=True)
class Broker:
    """Keeps the messages, as JSON would; takes none, or only so many more, when a test says so."""

    messages: list[Message] = field(default_factory=list)
    takes: int | None = None

    def publish(self, body: Any, *, headers: Any, routing_key: str, priority: Any = None, **_options: Any) -> None:
        """Stand in for kombu's producer."""
        if self.takes is not None:
            if self.takes == 0:
                raise OperationalError("The broker is down.")
            self.takes -= 1
        headers, body = json.loads(json.dumps([headers, body]))
        self.messages.append(Message(headers=headers, body=body, routing_key=routing_key, priority=priority))

    def next(self) -> Message:
        """Take the oldest message out."""
        return self.messages.pop(0)


def work(message: Message, *, redelivered: bool = False) -> str:
    """Run the task of a message as a worker does; returns the state in which it ended."""
    args, kwargs, links = message.body
    task = app.tasks[message.headers["task"]]
    delivery = {
        "exchange": "",
        "routing_key": message.routing_key,
        "priority": message.priority,
        "redelivered": redelivered,
    }
    request = {**message.headers, **links, "delivery_info": delivery, "args": args, "kwargs": kwargs, "is_eager": False}
    done = build_tracer(task.name, task, app=app)(message.headers["id"], args, kwargs, request)
    return done.info.state if done.info else "SUCCESS"


@dataclass(kw_only=True)
class Start:
    """One start of a task: when, of which task, with which arguments."""

    at: float
    task: str
    arguments: tuple[Any, ...]


started: list[Start] = []


def note(task: str, *arguments: Any) -> None:
    """Note a start, first thing."""
    started.append(Start(at=time.monotonic(), task=task, arguments=arguments))


def arguments() -> list[Any]:
    """Return the first argument of each start."""
    return [start.arguments[0] for start in started]


def close_site(seconds: float) -> None:
    """Let nothing start at the site for so long."""
    site_settings.back_off(SITE, seconds)


def open_site() -> None:
    """End what `close_site` began."""
    site_settings.resume(SITE)


def postponed(broker: Broker, *numbers: int, task: Any = None) -> list[int]:
    """Put these tasks back; returns their rows."""
    close_site(60)
    for number in numbers:
        (task or plain).delay(number)
    assert [work(broker.next()) for _ in numbers] == ["IGNORED"] * len(numbers)
    open_site()
    return list(PostponedTask.objects.order_by("pk").values_list("pk", flat=True))


def expire_leases() -> None:
    """Make every message and every holder count as lost."""
    PostponedTask.objects.filter(lease_until__isnull=False).update(lease_until=F("lease_until") - timedelta(hours=1))


class Planned(Exception):
    """What goes wrong in a task, on purpose."""


@throttled_task(site=SITE, max_wait=MAX_WAIT)
@shared_task(name="tests.plain")
def plain(number: int = 0) -> int:
    """Start, and return the argument."""
    note("plain", number)
    return number


@throttled_task(site=SITE, max_wait=MAX_WAIT)
@shared_task(name="tests.bound", bind=True)
def bound(self: "Task[Any, Any]", number: int = 0) -> None:
    """Start, with the task's id as second argument."""
    note("bound", number, self.request.id)


@throttled_task(site=SITE, max_wait=MAX_WAIT)
@app.task(name="tests.of_the_app")
def of_the_app(number: int = 0) -> None:
    """Start."""
    note("of_the_app", number)


class ByClass(Task):  # type: ignore[type-arg]  # has no parameters when it runs
    """A task that is a class."""

    name = "tests.by_class"

    def run(self, number: int = 0) -> None:
        """Start."""
        note("by_class", number)


by_class = throttled_task(site=SITE, max_wait=MAX_WAIT)(app.register_task(ByClass()))


@throttled_task(site=SITE, max_wait=MAX_WAIT)
@shared_task(name="tests.late", acks_late=True)
def late(number: int = 0) -> None:
    """Start; its message is acknowledged at the end."""
    note("late", number)


@throttled_task(site=SITE, max_wait=MAX_WAIT)
@shared_task(name="tests.retrying", bind=True, max_retries=3)
def retrying(self: "Task[Any, Any]", number: int = 0) -> None:
    """Start, and want to be run again, once."""
    note("retrying", number, self.request.retries)
    if self.request.retries == 0:
        raise self.retry(countdown=0)


@throttled_task(site=SITE, max_wait=MAX_WAIT)
@shared_task(name="tests.autoretrying", autoretry_for=(Exception,), retry_backoff=False, default_retry_delay=0)
def autoretrying(number: int = 0) -> None:
    """Start."""
    note("autoretrying", number)


@throttled_task(site=lambda host, **_options: host, max_wait=MAX_WAIT)
@shared_task(name="tests.by_argument", bind=True)
def by_argument(self: "Task[Any, Any]", host: Any, *, page: int = 0) -> None:
    """Start at the site that the argument names."""
    note("by_argument", host, page, self.request.id)


@throttled_task(site=SITE, max_wait=MAX_WAIT)
@shared_task(name="tests.note_anything")
def note_anything(thing: object) -> None:
    """Start."""
    note("note_anything", thing)
