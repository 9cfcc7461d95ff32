"""The queues of messages: whether workers take their messages, and whether the tasks that beat sends are run."""

import traceback
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from project.celery import app
from project.doctor.findings import Check, Verdict, good, warning, wrong
from project.doctor.themes.postgresql import SERVER, TABLES
from project.doctor.themes.processes import WORKERS
from project.doctor.themes.redis_server import BROKER
from weir.conf.texts.suggestions import did_you_mean
from weir.workers import broker_link, consumers, heartbeats, schedule, ticks
from weir.workers.fetches.models import Fetch
from weir.workers.processes import kinds

NEWEST = 10_000  # how many fetches have their on_done checked
CONSUMERS_WITHIN_S = 8.0  # the workers are asked twice, for three seconds each time
# For each queue: if more messages wait than this, its workers are away, or too few.
MOST = {"default": 1_000, schedule.FETCH: schedule.MOST_UNTAKEN, **dict.fromkeys(ticks.QUEUES, ticks.MOST_WAITING - 1)}


def consumed(unserved: Sequence[str]) -> Sequence[Verdict]:
    """Judge whether a worker consumes each queue."""
    found = [
        wrong(f"No worker consumes the queue {queue}: start one with `celery -A project worker --queues {queue}`.")
        for queue in unserved
    ]
    return found or [good(f"Workers consume {', '.join(schedule.queues())}.")]


def lengths(waiting: Mapping[str, int]) -> Sequence[Verdict]:
    """Judge how many messages wait."""
    found = [
        warning(f"{number:,} messages wait in the queue {queue}: its workers are away, or too few, so start more.")
        for queue, number in waiting.items()
        if number > MOST[queue]
    ]
    return found or [
        good(f"Waiting messages: {', '.join(f'{number:,} in {name}' for name, number in waiting.items())}.")
    ]


def beats(silent: Collection[str]) -> Sequence[Verdict]:
    """Judge the queues whose latest heartbeat is too old."""
    minutes = heartbeats.FRESH.total_seconds() / 60
    found = [
        wrong(f"No heartbeat of the queue {queue} for {minutes:.0f} minutes: restart its {kinds.of_queue(queue)}.")
        for queue in silent
    ]
    return found or [good(f"No queue has been without a heartbeat for {minutes:.0f} minutes.")]


def not_imported(error: Exception) -> Verdict:
    """Judge code that cannot be imported, with which no worker can start."""
    places = traceback.extract_tb(error.__traceback__)
    place = f"{places[-1].filename}, line {places[-1].lineno}" if places else "an app"
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    return wrong(f"The tasks cannot be imported ({type(error).__name__}: {error}): mend {place}.")


def tasks(named: Mapping[str, int], known: Collection[str]) -> Sequence[Verdict]:
    """Judge the tasks that fetches name as their `on_done`: a worker drops the message of a task that it does not know.

    `named` has the number of fetches for each task's name.
    """
    found = [
        warning(f"{number:,} of the newest fetches name a task {name!r}, which no app has.{did_you_mean(name, known)}")
        for name, number in named.items()
        if name not in known
    ]
    return found or [good("The apps have each task that a fetch names.")]


def _tasks() -> Sequence[Verdict]:
    try:
        app.loader.import_default_modules()
    except Exception as error:  # noqa: BLE001  an app's code may raise anything when it is imported
        return [not_imported(error)]
    newest = Fetch.objects.order_by("-pk").values_list("on_done", flat=True)[:NEWEST]
    return tasks(Counter(filter(None, newest)), app.tasks)


def _lengths() -> Sequence[Verdict]:
    return lengths({queue: broker_link.waiting_in(queue) for queue in schedule.queues()})


def checks() -> list[Check]:
    """Return the checks of this theme."""
    return [
        Check(
            name="consumers",
            ask=lambda: consumed(consumers.unserved_queues(*schedule.queues())),
            needs=(BROKER, SERVER, WORKERS),
            within_s=CONSUMERS_WITHIN_S,
        ),
        Check(name="lengths", ask=_lengths, needs=(BROKER,), within_s=5),
        Check(
            name="heartbeats",
            ask=lambda: beats(heartbeats.silent_queues()),
            needs=(SERVER, TABLES, WORKERS),
        ),
        Check(name="tasks", ask=_tasks, needs=(SERVER, TABLES), within_s=5),
    ]
