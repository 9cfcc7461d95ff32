"""`weir.celery.integrate` in a host's celery.py: composed with what the host has, or refused with a sentence."""

import pytest

from tests.integration.integrate.conftest import AFTERWARDS, Host

BEFORE = """
weir.celery.integrate(app)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
"""
OWN_TASKS_ONLY = """
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["shop"])
app.conf.task_default_queue = "celery"  # reads the configuration
weir.celery.integrate(app)
weir.celery.integrate(app)
"""
THEIRS = """
CELERY_TASK_ROUTES = ({"shop.tasks.*": {"queue": "slow"}}, {"*": {"queue": "others"}})
CELERY_TASK_ANNOTATIONS = {"*": {"rate_limit": "1/h", "ignore_result": False}}
CELERY_RESULT_BACKEND = "cache+memory://"
CELERY_BEAT_SCHEDULE = {"tidy": {"task": "shop.tasks.tidy_up", "schedule": 60.0}}
CELERY_TASK_TIME_LIMIT = 300
"""
SHOW = """
from shop.celery import app
from weir.workers import task_names
app.loader.import_default_modules()
app.finalize()
route = lambda name: app.amqp.router.route({}, name)["queue"].name
print(route("weir.mail.purge"), route("shop.tasks.tidy_up"), route("else"))
print(app.conf.beat_scheduler, app.conf.result_backend, app.conf.task_time_limit)
print(set(task_names.OF_WEIR) <= set(app.tasks), "shop.tasks.tidy_up" in app.tasks)
"""


@pytest.mark.parametrize("lines", [BEFORE, AFTERWARDS, OWN_TASKS_ONLY], ids=["before", "afterwards", "own tasks only"])
def test_it_composes_with_what_the_host_has_in_any_order(lines: str, host: Host) -> None:
    """Weir's messages go to its queues, whatever matches them; the host's own settings hold for its own tasks."""
    host.write("weir.APPS + weir.APPS_API", more=THEIRS, celery=lines)
    routes, others, tasks = host.python(SHOW).splitlines()
    assert routes == "weir.maintenance slow others"
    assert others == "weir.workers.beat.scheduler:LeasedScheduler cache+memory:// 300"
    assert tasks == "True True"


REFUSED = {
    'CELERY_BEAT_SCHEDULER = "redbeat.RedBeatScheduler"': "beat_scheduler is redbeat.RedBeatScheduler: ",
    'CELERY_ACCEPT_CONTENT = ["pickle"]': 'add "json" to it',
    'CELERY_BROKER_URL = "sqs://"': "The broker is spoken to by sqs",
    "CELERY_TASK_CREATE_MISSING_QUEUES = False": "task_queues has no weir.ticks, weir.main",
}
SCHEDULE = 'CELERY_BEAT_SCHEDULE = {{"tidy": {{"task": "shop.tasks.tidy_up", {0}}}}}'
OF_OWN = """
from celery.schedules import crontab, schedule
class Odd(schedule): pass
class Workdays(crontab): pass
"""
REFUSED |= {
    OF_OWN + SCHEDULE.format('"schedule": Odd(60)'): "tidy has a schedule of the class shop.settings.Odd",
    OF_OWN + SCHEDULE.format('"schedule": Workdays()'): "tidy has a schedule of the class shop.settings.Workdays",
    SCHEDULE.format('"schedule": 60, "relative": True'): "tidy is relative",
    SCHEDULE.format('"schedule": 60, "args": [{1, 2}]'): "tidy has arguments that JSON cannot have",
}
EAGER = "CELERY_TASK_ALWAYS_EAGER = True"
ACCEPTED = (
    EAGER,
    'CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"',
    'CELERY_BEAT_SCHEDULER = "celery.beat:PersistentScheduler"',
    "CELERY_BROKER_URL = None",  # Celery's own default
)


def test_what_cannot_work_is_refused_with_a_sentence_and_all_else_is_not(host: Host) -> None:
    """By `check`, and by a worker and a beat, which end; web code goes on."""
    host.write("weir.APPS_THROTTLE")
    told = host.told_with([*REFUSED, *ACCEPTED], CHECK)
    for (setting, sentence), (status, text) in zip(REFUSED.items(), told, strict=False):
        assert (status, sentence in text, "weir.E031" in text) == (1, True, True), (setting, text)
    assert [text for _, text in told[len(REFUSED) :]] == ["System check identified no issues (0 silenced).\n"] * 4
    [*_, (setting, sentence)] = REFUSED.items()
    host.write("weir.APPS_THROTTLE", more=setting)
    for command in ("worker", "beat"):
        ended = host.run("-m", "celery", "-A", "shop", command)
        assert ended.returncode == 1, ended
        assert sentence in ended.stdout + ended.stderr


@pytest.mark.parametrize("words", ["worker --queues celery,weir.fetch", "worker --beat --pool threads", "beat"])
def test_tasks_that_run_where_they_are_called_are_refused_where_weirs_would(words: str, host: Host) -> None:
    """A fetcher would run the task of an `on_done` in the thread that stores results, and beat Weir's own tasks."""
    host.write("weir.APPS_FETCHES", more=EAGER)
    ended = host.run("-m", "celery", "-A", "shop", *words.split(), within_s=30)
    assert ended.returncode == 1, ended
    assert "task_always_eager is on" in ended.stdout + ended.stderr


@pytest.mark.parametrize("words", ["worker --beat --pool threads", "beat"])
def test_another_scheduler_is_refused(words: str, host: Host) -> None:
    """Beat would never send what Weir relies on; or the option would have no effect, and nobody were told."""
    host.write("weir.APPS_THROTTLE")
    ended = host.run("-m", "celery", "-A", "shop", *words.split(), "--scheduler", "celery.beat:Scheduler", within_s=30)
    assert ended.returncode == 1, ended
    assert "leave out -S, --scheduler" in ended.stdout + ended.stderr


def test_beat_in_a_worker_that_forks_is_refused(host: Host) -> None:
    """A child could wait for good for a lock that the thread had when it was forked."""
    host.write("weir.APPS_THROTTLE")
    ended = host.run("-m", "celery", "-A", "shop", "worker", "--beat", within_s=30)
    assert ended.returncode == 1, ended
    assert "take --pool threads" in ended.stdout + ended.stderr


CHECK = "from django.core.management import execute_from_command_line as e; e(['django', 'check'])"


def test_a_broker_that_settings_do_not_name_is_no_redis_of_weirs(host: Host) -> None:
    """Without a word about it, the counters would be looked for where nobody started a Redis."""
    unsaid = (
        "CELERY_BROKER_URL = WEIR_REDIS_URL = REDIS_URL = None\nfrom shop.celery import app\napp.conf.broker_url = "
    )
    host.write("weir.APPS_THROTTLE")
    warned = {
        "redis://a.example:6379/0": True,
        "redis://localhost/3": False,
        "redis://127.0.0.1:6380/0": True,
        "amqp://a.example": False,
        "redis+socket:///run/a.sock?virtual_host=5": True,
        "sentinel://a.example:26379;sentinel://b.example:26379": True,
        "redis://:pass/canary@a.example:6379/0": True,
        "redis://:[canary@a.example:6379/0": True,
    }
    told = host.told_with([f"{unsaid}{broker!r}" for broker in warned], CHECK)
    assert [(status, "weir.W036" in text) for status, text in told] == [(0, is_warned) for is_warned in warned.values()]
    assert "canary" not in str(told)
    assert "Set CELERY_BROKER_URL in Django's settings, instead of Celery(broker=...)" in told[0][1]
    assert "as for a socket: `unix:///PATH?db=0`" in told[4][1]


def test_a_task_that_runs_again_too_late_is_told_of(host: Host) -> None:
    """Its messages would count as new: by Celery's defaults, 4000 s are too short, and it does not matter elsewhere.

    An hour until it is given out again, and four looks, each after 100 s. Three may find the lock that another worker
    left when it was killed, for 300 s. What is no positive number counts as Celery's default.
    """
    within = "EMAIL_BACKEND, WEIR_MAIL_SAME_WITHIN = 'weir.OutboxBackend', "
    looks = (  # each 6 s: in vain at 16 and 22 s, if another worker is killed with the lock just before, so at 28 s
        "CELERY_BROKER_URL = 'redis://localhost'\n"
        "CELERY_BROKER_TRANSPORT_OPTIONS = {'visibility_timeout': 10, 'unacked_mutex_expire': 8, "
        "'unacked_restore_interval': 2, 'unacked_restore_throttle': 3}"
    )
    looks_as_by_default = (
        "CELERY_BROKER_URL = 'redis://localhost'\n"
        "CELERY_BROKER_TRANSPORT_OPTIONS = {'visibility_timeout': None, 'unacked_mutex_expire': None, "
        "'unacked_restore_interval': 0, 'unacked_restore_throttle': '10'}"
    )
    host.write("weir.APPS_MAIL")
    warned = {
        f"{within}4000\nCELERY_BROKER_URL = 'redis://localhost'": True,
        f"{within}4001\nCELERY_BROKER_URL = 'redis://localhost'": False,
        f"{within}7200\nCELERY_BROKER_URL = 'redis://localhost'\n"
        "CELERY_BROKER_TRANSPORT_OPTIONS = {'visibility_timeout': 43200}": True,
        f"{within}28\n{looks}": True,
        f"{within}29\n{looks}": False,
        f"{within}4000\n{looks_as_by_default}": True,
        f"{within}4001\n{looks_as_by_default}": False,
        f"{within}0\nCELERY_BROKER_URL = 'redis://localhost'": False,
        f"{within}60\nCELERY_BROKER_URL = 'amqp://localhost'": False,
        "WEIR_MAIL_SAME_WITHIN = 60\nCELERY_BROKER_URL = 'redis://localhost'": False,
    }
    told = host.told_with([*warned], CHECK)
    assert [(status, "weir.W042" in text) for status, text in told] == [(0, is_warned) for is_warned in warned.values()]
    assert "Set WEIR_MAIL_SAME_WITHIN to more than 4000." in told[0][1]


def test_routes_that_are_set_afterwards_are_refused(host: Host) -> None:
    """They would leave out Weir's."""
    late = f"{AFTERWARDS}\napp.conf.task_routes\napp.conf.task_routes = {{'*': {{'queue': 'others'}}}}\n"
    host.write("weir.APPS_THROTTLE", celery=late)
    assert "call integrate last" in host.run("-c", CHECK).stderr


def test_an_app_that_knows_nothing_of_weir_is_warned_of(host: Host) -> None:
    """Nothing would be done, and no error would say so."""
    host.write("weir.APPS_THROTTLE", celery='app.config_from_object("django.conf:settings", namespace="CELERY")')
    assert "weir.W030" in host.manage("check")


SENT = """
import os, threading
from celery import Celery
{configure}
def send():
    from weir.workers import publish, task_names
    assert publish.publish(task_names.PURGE_SLOTS)
send()
for other in (threading.Thread(target=send), threading.Thread(target=send)):
    other.start()
    other.join()
"""
# A second app of the project's, whose broker nobody reads; and settings that no variable names.
SEVERAL_APPS = """
import django; django.setup()
Celery("billing", broker="memory://")
"""
CONFIGURED = """
import shop.settings
from django.conf import settings
settings.configure(**{name: vars(shop.settings)[name] for name in dir(shop.settings) if name.isupper()})
import shop.celery, django; django.setup()
"""


@pytest.mark.parametrize("configure", [SEVERAL_APPS, CONFIGURED], ids=["several apps", "configured by code"])
def test_messages_of_weirs_go_where_weir_runs(configure: str, host: Host) -> None:
    """In each thread, whichever app is Celery's current one there: in others' queues they would wait for nobody."""
    host.write("weir.APPS_THROTTLE")
    if configure == CONFIGURED:
        celery = host.folder / "shop" / "celery.py"
        celery.write_text("\n".join(line for line in celery.read_text().splitlines() if "environ" not in line))
        (host.folder / "shop" / "__init__.py").write_text("")
    code = SENT.format(configure=configure)
    environment = "" if configure == SEVERAL_APPS else "import os; os.environ.pop('DJANGO_SETTINGS_MODULE')\n"
    sent = host.run("-c", environment + code)
    assert sent.returncode == 0, sent
    assert host.broker.llen("weir.maintenance") == 3


CONSUMED = """
from django.conf import settings
from shop.celery import app
app.amqp.queues.select_add("weir.ticks")  # as Celery up to 5.6 does with each queue that is looked up
app.Worker(pool="solo", queues=settings.QUEUES)
print(*sorted(app.amqp.queues.consume_from))
"""
OWN_QUEUES = 'from kombu import Queue\nCELERY_TASK_QUEUES = [Queue("celery"), Queue("weir.mail")]'
QUEUES = {
    "QUEUES = None": "celery",
    'QUEUES = ["celery", "weir.ticks"]': "celery weir.ticks",
    f"{OWN_QUEUES}\nQUEUES = None": "celery weir.mail",
    f"{EAGER}\nQUEUES = None": "celery",
}


def test_a_worker_of_the_hosts_own_consumes_the_queues_of_weir_that_it_names(host: Host) -> None:
    """By its `--queues` or by `task_queues`, and no others: a fetch in its pool would hold up the host's own tasks."""
    host.write("weir.APPS_THROTTLE")
    told = host.told_with(QUEUES, CONSUMED)
    assert [text.splitlines()[-1] for _, text in told] == [*QUEUES.values()]


OWN = """
from django.contrib import admin
from django.core.management import get_commands
print(admin.site.login_form, admin.site.login_template, get_commands()["migrate"])
"""


def test_the_hosts_admin_and_migrate_stay_its_own(host: Host) -> None:
    """Weir's login form and Weir's `migrate` are of the standalone project."""
    host.write("weir.APPS + weir.APPS_OPS + weir.APPS_API")
    assert host.python(OWN) == "None None django.core"


# As celery.beat does, but for the loop.
BEAT = """
import weir.celery
from celery import beat, signals
from django.db import connection
from shop.celery import app
service = beat.Service(app, scheduler_cls=weir.celery.SCHEDULER)
service.scheduler
signals.beat_init.send(sender=service)
service.scheduler.tick()
with connection.cursor() as cursor:
    cursor.execute("SHOW statement_timeout")
    print(*cursor.fetchone())
service.sync()
"""


def test_beats_session_has_weirs_limits_from_the_first(host: Host) -> None:
    """It is the same session as long as beat runs, and is opened before Celery says that beat begins."""
    host.write("weir.APPS_THROTTLE")
    host.manage("migrate")
    assert host.python(BEAT).splitlines()[-1] == "1min"
