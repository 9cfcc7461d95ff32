"""Weir in a Celery app: its queues, its scheduler, the heartbeat of each worker, and the headers of Weir's messages.

    app = Celery("shop")
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.autodiscover_tasks()
    weir.celery.integrate(app)

The app's own configuration stays: its routes, annotations, result backend and queues apply to its own tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final
from urllib.parse import urlsplit

from celery import Celery
from celery.concurrency import get_implementation
from celery.signals import beat_init, celeryd_init, worker_process_shutdown
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  Django's name

from weir.conf import live, settings
from weir.conf.declared import LOCAL_REDIS
from weir.postgres import weir_apps
from weir.workers import limits, own_sessions, schedule, task_names
from weir.workers.beat import declared
from weir.workers.beat.signals import beat_begins
from weir.workers.broker_link import integrated
from weir.workers.mail.transports import mail_server
from weir.workers.pools import kept_sessions
from weir.workers.processes.checks import STEP
from weir.workers.tracing import spans
from weir.workers.tracing.messages import carry_correlation_ids

SCHEDULER: Final = "weir.workers.beat.scheduler:LeasedScheduler"
_ANOTHER_SCHEDULER: Final = (
    f"beat was told to use another scheduler than Weir's, {SCHEDULER}: leave out -S, --scheduler."
)
# The schedulers that Weir's scheduler replaces, because it does their work, too: Celery's default, and that of
# django-celery-beat, on which Weir's is built.
_CELERYS: Final = "celery.beat:PersistentScheduler"
_REPLACED: Final = {
    _CELERYS,
    "django",
    "django_celery_beat.schedulers:DatabaseScheduler",
    "django_celery_beat.schedulers.DatabaseScheduler",
}
_BROKERS: Final = {"redis", "rediss", "redis+socket", "sentinel", "amqp", "amqps", "pyamqp", "memory"}
_REDIS: Final = _BROKERS & {"redis", "rediss", "redis+socket", "sentinel"}
_LOCAL: Final = {(host, urlsplit(LOCAL_REDIS).port) for host in ("127.0.0.1", "localhost")}
# Of Celery's transport for Redis, if the app sets none. Who looks for tasks to give out again takes a lock first, which
# it leaves locked if it is killed, until the lock expires. It looks after each `interval` times `throttle`.
_GIVES_OUT_AGAIN: Final = {
    "visibility_timeout": 3_600,
    "unacked_mutex_expire": 300,
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 10,
}
_JSON: Final = {"json", "application/json"}
# A heartbeat task has no route here: its sender names the queue.
_ROUTES: Final = {name: {"queue": queue} for name in task_names.OF_WEIR if (queue := schedule.queue_of(name))}


class CannotIntegrate(Exception):
    """Weir cannot work with the configuration of a Celery app; the message says what to do."""


def integrate(app: Celery, *, configure_sessions: bool = True) -> None:
    """Add Weir's tasks and its schedule to this Celery app. Call it where the app is created; further calls do nothing.

    The app's configuration may be read before or afterwards. Weir's routes come before the app's own, and apply to
    Weir's tasks only. The app's scheduler becomes Weir's: django-celery-beat's scheduler behind a lease, which also
    runs `beat_schedule`. In workers that serve Weir's queues, and in beat, sessions with PostgreSQL have Weir's time
    limits while they do Weir's work (`weir.workers.own_sessions`). A project that configures all its sessions itself
    passes `configure_sessions=False`.

    Raises CannotIntegrate if the configuration has been read already, and Weir cannot work with it. If it is read
    later, `manage.py check` reports the fault, and a worker or a beat ends with the same sentence when it starts.
    """
    if app in integrated:
        return
    integrated.append(app)
    app.steps["worker"].add(STEP)
    app.autodiscover_tasks(_packages)
    limits.bring_own_limits()
    limits.finish_own_tasks()
    kept_sessions.keep_sessions_of_ticks()
    carry_correlation_ids()
    if configure_sessions:
        own_sessions.configure_own_sessions()
        beat_begins.connect(own_sessions.begin)  # Celery sends `beat_init` only when beat has read the schedule
    worker_process_shutdown.connect(spans.stop)
    celeryd_init.connect(_begin_worker)
    beat_begins.connect(_refuse_to_begin)
    beat_init.connect(_refuse_to_beat)
    register(_check)
    app.on_after_configure.connect(_configure)
    if getattr(app, "configured", False):
        _configure(app)
        for sentence in faults(app):
            raise CannotIntegrate(sentence)


def faults(app: Celery) -> Iterator[str]:
    """Yield a sentence about each setting of the app that Weir cannot work with; the sentence says what to do."""
    conf = app.conf
    if conf.beat_scheduler != SCHEDULER:
        yield (
            f"beat_scheduler is {conf.beat_scheduler}: take that setting out. Weir's own scheduler, which is "
            "django-celery-beat's, runs your beat_schedule, too; or beat would never send what Weir relies on."
        )
    yield from declared.faults(app)
    if not _JSON & set(conf.accept_content or ()):
        yield 'accept_content has no json, in which Weir\'s messages are: add "json" to it.'
    if (name := _transport(app)) not in _BROKERS:
        yield (
            f"The broker is spoken to by {name}, by which Weir cannot see how many messages wait: it needs Redis, "
            "Valkey or RabbitMQ. Set broker_url to one of these."
        )
        return  # the checks below ask the transport
    if missing := [queue for queue in schedule.QUEUES if queue not in app.amqp.queues and not _creates(app)]:
        yield (
            f"task_create_missing_queues is off, and task_queues has no {', '.join(missing)}: take that setting "
            "out, or add these queues."
        )
    elif app.amqp.router.route({}, task_names.DISPATCH)["queue"].name != _ROUTES[task_names.DISPATCH]["queue"]:
        yield "task_routes was set after weir.celery.integrate(app): call integrate last."


def _configure(sender: Celery, **_signal: object) -> None:
    """Add Weir's routes and scheduler to a configuration that Celery has just read."""
    conf = sender.conf
    routes = conf.task_routes or []
    if not (isinstance(routes, list) and _ROUTES in routes):
        _set(conf, "task_routes", [_ROUTES, *(routes if isinstance(routes, list | tuple) else [routes])])
    if conf.beat_scheduler == _CELERYS and sender not in declared.of_celerys:
        declared.of_celerys.append(sender)
    if conf.beat_scheduler in _REPLACED:
        _set(conf, "beat_scheduler", SCHEDULER)


def _set(conf: Any, name: str, value: object) -> None:  # noqa: ANN401  Celery's configuration
    """Set `name` to `value`, whatever the project's settings say about it.

    Up to Celery 5.6, a setting that was read with a namespace, such as CELERY_TASK_ROUTES, wins over one without it.
    """
    conf[name] = value
    if conf[name] is not value:
        with_namespace = f"{conf.prefix}{name}"
        conf[with_namespace.upper() if conf.prefix.isupper() else with_namespace.lower()] = value


def _packages() -> list[str]:
    return [app.name for app in weir_apps.installed()]


def _transport(app: Celery) -> str:
    """Return the scheme of the broker's URL, without importing its transport."""
    scheme, separator, _ = _broker_url(app).partition("://")
    return scheme if separator else "amqp"


def _broker_url(app: Celery) -> str:
    """Return the URL of the broker; of several, the first."""
    named = app.conf.broker_write_url or app.conf.broker_url or ""
    return str(named if isinstance(named, str) else named[0])


def _creates(app: Celery) -> bool:
    return bool(app.conf.task_create_missing_queues)


def _check(**_kwargs: Any) -> Sequence[CheckMessage]:
    """weir.E031: Weir cannot work with the configuration of a Celery app. weir.W036: Weir was not told of its Redis.

    weir.W042: tasks run again when their messages count as new.
    """
    wrong: list[CheckMessage] = [
        Error(f"Celery: {sentence}", id="weir.E031") for app in integrated for sentence in faults(app)
    ]
    if any(_has_another_redis(app) for app in integrated):
        message = f"Weir looks for Redis at {LOCAL_REDIS}, but the broker of the Celery app is another Redis."
        hint = (
            "Set CELERY_BROKER_URL in Django's settings, instead of Celery(broker=...), or set WEIR_REDIS_URL, as for "
            "a socket: `unix:///PATH?db=0`."
        )
        wrong.append(Warning(message, hint=hint, id="weir.W036"))
    return [*wrong, *(warning for app in integrated for warning in _messages_sent_twice(app))]


def _messages_sent_twice(app: Celery) -> Iterator[CheckMessage]:
    """Yield weir.W042 if a task that Redis gives out again comes later than its messages are known to be the same."""
    within = settings.WEIR_MAIL_SAME_WITHIN
    if _transport(app) not in _REDIS or not mail_server.names_outbox() or not within:
        return
    again = _runs_again_within_s(app.conf.broker_transport_options or {})
    if again >= within:
        yield Warning(
            f"If a worker is killed, its task may run again {again:g} s later: after the broker's visibility_timeout, "
            "and the time that Celery takes to look for such tasks. By then WEIR_MAIL_SAME_WITHIN, "
            f"{within:g} s, is over: a message that the task had sent is sent twice.",
            hint=f"Set WEIR_MAIL_SAME_WITHIN to more than {again:g}.",
            id="weir.W042",
        )


def _runs_again_within_s(options: Mapping[str, Any]) -> float:
    """Return within how many seconds Redis gives out again the task of a killed worker, to a worker that is idle.

    An option that is no positive number counts as Celery's default.
    """
    given = {name: value for name, value in options.items() if isinstance(value, int | float) and value > 0}
    visible_s, locked_s, interval_s, throttle = ((_GIVES_OUT_AGAIN | given)[name] for name in _GIVES_OUT_AGAIN)
    look_s = interval_s * throttle
    return visible_s + look_s * (1 + ceil(locked_s / look_s))  # looks while it is locked are in vain


def _has_another_redis(app: Celery) -> bool:
    """Return whether the app's broker is a Redis that is not Weir's, because Django's settings name none."""
    if live.is_given("WEIR_REDIS_URL") or _transport(app) not in _REDIS:
        return False
    try:  # of several, Celery takes the first
        parts = urlsplit(_broker_url(app).partition(";")[0])
        place = parts.hostname, parts.port or urlsplit(LOCAL_REDIS).port
    except ValueError:  # whose text has a part of the URL
        return True
    return place not in _LOCAL


def _begin_worker(instance: Any, options: Mapping[str, Any], **_signal: object) -> None:  # noqa: ANN401  Celery's worker
    """Refuse to start if Weir cannot work with the app. Otherwise make `--beat` a thread, and choose the queues.

    The worker consumes one of Weir's queues only if `--queues` or `task_queues` names it. Up to Celery 5.6, a worker
    without `--queues` would also consume every queue that was looked up before the worker starts.
    """
    app = instance.app
    _refuse(app)
    if app in integrated:
        from weir.workers.beat import embedded  # noqa: PLC0415  for workers only

        if options.get("beat"):
            _refuse_beat_in(instance, options)
        embedded.have_beat_in_a_thread(instance.hostname)
        own = {queue if isinstance(queue, str) else queue.name for queue in app.conf.task_queues or ()}
        app.amqp.queues.deselect([queue for queue in schedule.QUEUES if queue not in own])
        named = options.get("queues") or ()
        served = own.union(named.split(",") if isinstance(named, str) else named)
        if options.get("beat") or not served.isdisjoint(schedule.QUEUES):
            _refuse_eager(app)


def _refuse_beat_in(worker: Any, options: Mapping[str, Any]) -> None:  # noqa: ANN401  Celery's
    """Refuse `--beat` if beat would run another scheduler, or would be a thread in a process that forks.

    If beat's thread holds a lock at the moment of a fork, the lock stays locked in the child.
    """
    if options.get("scheduler") not in {None, SCHEDULER}:
        raise SystemExit(_ANOTHER_SCHEDULER)
    pool = get_implementation(options.get("pool") or worker.app.conf.worker_pool)
    if pool.__module__ == "celery.concurrency.prefork":
        raise SystemExit(
            "--beat has a thread of the worker tick, whose locks a pool of processes would copy: take --pool threads, "
            "or leave --beat out and run `celery beat` beside this worker."
        )


def _refuse_to_begin(app: Celery, **_signal: object) -> None:
    _refuse(app)
    if app in integrated:
        _refuse_eager(app)


def _refuse_to_beat(sender: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's beat
    _refuse(sender.app)
    from weir.workers.beat.scheduler import LeasedScheduler  # noqa: PLC0415  for beat's process only

    if sender.app in integrated and not isinstance(sender.scheduler, LeasedScheduler):
        raise SystemExit(_ANOTHER_SCHEDULER)


def _refuse(app: Celery) -> None:
    """End this process if Weir cannot work with the app: by SystemExit, because Celery only logs other errors."""
    for sentence in faults(app) if app in integrated else ():
        raise SystemExit(f"Weir cannot work with this Celery app. {sentence}")


def _refuse_eager(app: Celery) -> None:
    """End this process if tasks run eagerly.

    Users' tasks would run in the middle of Weir's work, and Weir's tasks would run in beat.
    """
    if app.conf.task_always_eager:
        raise SystemExit(
            "Weir cannot work with this Celery app. task_always_eager is on: each task would run in the process that "
            "calls it, and no worker would get one. Set it only where there are no workers, as in tests."
        )
