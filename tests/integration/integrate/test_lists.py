"""Each list of apps works alone in a project that has nothing else of Weir: its processes do its job."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from demo.fakes import mail_server, sites
from demo.fakes.mail_server import MailServer
from demo.fakes.sites import Sites
from tests.integration.integrate.conftest import AFTERWARDS, Host
from tests.servers import database_url
from tests.waiting import LONG_S, comes_true

SETTINGS = """
ROOT_URLCONF = "shop.urls"
STATIC_URL = "static/"
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
WEIR_FETCH_ALLOW_NETS = ["127.1.0.0/16"]
EMAIL_HOST, EMAIL_PORT = "127.0.0.1", {mail.port}
SITE = {site!r}
"""
TASKS = """
import weir
from celery import shared_task
from django.contrib.auth.models import User
"""
CELERY = f"""{AFTERWARDS}
from celery.signals import task_success
@task_success.connect
def note(sender, **_kwargs):
    with open("succeeded", "a") as names:
        names.write(f"{{sender.name}}\\n")
"""
URLS = "from django.urls import include, path\nurlpatterns = [{}]\n"
# The queue `celery` is the project's own.
OWN_WORKER = "celery -A shop worker --pool solo --hostname own@%h"
SET_UP = """
import json
from io import StringIO
from django.core.management import call_command
from django_celery_beat.models import PeriodicTask
from weir.workers import schedule
call_command("check", fail_level="DEBUG")
call_command("migrate", verbosity=0)
call_command("makemigrations", check=True, verbosity=0)
rows = {row.task: row.queue for row in PeriodicTask.objects.all()}
assert set(rows) == {entry.task for entry in schedule.entries()}, rows
from shop.celery import app
app.loader.import_default_modules()
app.finalize()
assert set(rows) <= set(app.tasks), set(rows) - set(app.tasks)
from weir.postgres.timeline import gate
from weir.workers.recovery import witness
number = gate.look().generation  # a higher one would have Redis testify that PostgreSQL has forgotten something
assert witness.exchange(number) == number > 0  # also where notifications, whose link to Redis it is, are not installed
call_command("weir_processes", small=True, stdout=(lines := StringIO()))
print(json.dumps([rows, lines.getvalue().splitlines()]))
"""
# Each tick is sent as beat sends it, also those of which the first is due in an hour.
BEGIN = """
import json
import weir
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from shop.celery import app
from shop import tasks
from weir.workers import schedule
ada = User.objects.create_superuser("ada")
for entry in schedule.entries():
    app.send_task(entry.task, entry.arguments, queue=entry.queue, ignore_result=True)
"""
# As of a task that no app here has, a model without its app, or a server that is asked in vain.
WRONG = re.compile(r"unregistered|ERROR|CRITICAL|Traceback|unreachable")


class Job(NamedTuple):
    """What a project has for a job of Weir's: what it asks for, SQL that sees the end, and code in its modules."""

    ask: str
    is_done: str
    tasks: str = ""
    emails: str = ""
    effects: str = ""
    urls: str = ""


THROTTLE = Job(
    tasks="""
@weir.throttled_task(site="a.example", max_wait=0)
@shared_task
def throttled(number):
    User.objects.create(username=f"throttled {number}")
""",
    ask="""
for number in range(3):  # at one a second, and no task waits in the worker
    tasks.throttled.delay(number)
""",
    is_done="SELECT count(*) = 3 FROM auth_user WHERE username LIKE 'throttled %'",
)
NOTIFICATIONS = Job(
    ask="""
first, second = (weir.notify(ada.pk, kind="shop.hello", title="Hello") for _ in range(2))
weir.mark_read(ada.pk, [first.pk])
assert weir.unread_count(ada.pk) == 1
""",
    is_done="""
SELECT unread_count = (SELECT count(*) FROM weir_notifications_notification WHERE read_at IS NULL)
FROM weir_notifications_unreadcount
""",
)
MAIL = Job(
    emails="""
@weir.email_kind("shop.hello")
def hello():
    return weir.EmailContent(subject="Hello", text="Hello.")
""",
    ask="""
for _ in range(2):
    weir.send_once("shop.hello", "1", to="ada@example.com")
""",
    is_done="SELECT count(*) = 1 AND every(state = 'sent') FROM weir_mail_email",
)
EFFECTS = Job(
    effects="""
@weir.effect_kind("shop.hello")
def hello(attempt):
    attempt.begin()
""",
    ask="""
for _ in range(2):
    weir.once("shop.hello", "1")
""",
    is_done="SELECT count(*) = 1 AND every(state = 'done') FROM weir_effects_effect",
)
FETCHES = Job(
    tasks="""
@shared_task
def fetched(fetch_id):
    User.objects.get_or_create(username=f"fetched {weir.Fetch.objects.get(pk=fetch_id).status_code}")
""",
    ask='weir.request_fetch(settings.SITE, on_done="shop.tasks.fetched")',
    is_done="SELECT count(*) = 1 FROM auth_user WHERE username = 'fetched 200'",
)
OPS = Job(
    urls='path("weir/", include("weir.ops.urls"))',
    ask="""
browser = Client()
browser.force_login(ada)
for page in ("", "fetches/", "unread/", "emails/", "audit/"):
    assert browser.get(f"/weir/{page}").status_code == 200, page
""",
    is_done="SELECT true",
)
API = Job(
    urls='path("api/", include("weir.api.urls"))',
    ask="""
from io import StringIO
from django.core.management import call_command
words = ["create", "shop", "--scope", "weir_fetches.add_fetch", "--expires", "30d", "--who", "pat", "--json"]
call_command("tokens", *words, stdout=(told := StringIO()))
answer = Client().post(
    "/api/v1/fetches",
    {"urls": [settings.SITE]},
    content_type="application/json",
    headers={"Authorization": f"Bearer {json.loads(told.getvalue())['token']}"},
)
assert answer.status_code == 202, answer.content
""",
    is_done="SELECT count(*) = 1 FROM weir_fetches_fetch WHERE state = 'done' AND on_done = ''",
)
ALL = (THROTTLE, NOTIFICATIONS, MAIL, EFFECTS, FETCHES)
LISTS: dict[str, tuple[tuple[Job, ...], str, str]] = {
    "APPS_THROTTLE": ((THROTTLE,), "throttled.publish_postponed", "weir.ticks"),
    "APPS_NOTIFICATIONS": ((NOTIFICATIONS,), "unread.flush", "weir.ticks"),
    "APPS_MAIL": ((MAIL,), "mail.send_emails", "weir.mail"),
    "APPS_EFFECTS": ((EFFECTS,), "effects.perform", "weir.mail"),
    "APPS_FETCHES": ((FETCHES,), "fetches.dispatch", "weir.ticks"),
    "APPS + weir.APPS_OPS": ((*ALL, OPS), "history.rollup", "weir.maintenance"),
    "APPS + weir.APPS_API": ((API,), "api.purge", "weir.maintenance"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """A site that answers."""
    with sites.running(1, tmp_path_factory.mktemp("sites")) as running:
        yield running


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailServer]:
    """A mail server."""
    with mail_server.running(tmp_path_factory.mktemp("mail")) as running:
        yield running


@pytest.mark.parametrize("apps", LISTS)
def test_a_list_alone(apps: str, host: Host, site: Sites, mail: MailServer) -> None:
    """Checked, migrated, in step with its models; its ticks, and no others, are in the schedule; its job is done.

    By the processes that `weir_processes` prints, each of which runs each of its ticks, and finds nothing wrong.
    """
    jobs, task, queue = LISTS[apps]
    write(host, apps, jobs, SETTINGS.format(mail=mail, site=site.url(0, "/feed.xml")))
    rows, lines = json.loads(host.python(SET_UP).splitlines()[-1])
    assert rows[f"weir.{task}"] == queue
    assert ("weir.mail" in rows.values()) == (apps not in {"APPS_THROTTLE", "APPS_NOTIFICATIONS"})
    received = mail.received()
    commands = [line.partition(": ")[2] for line in lines] + [OWN_WORKER] * any(job.tasks for job in jobs)
    logs = [host.start(command) for command in commands]
    host.python(BEGIN + "".join(job.ask for job in jobs))
    with psycopg.connect(database_url(host.database), autocommit=True) as session:
        assert comes_true(lambda: all(is_done(job, session) for job in jobs), LONG_S), shown(logs)
    assert comes_true(lambda: set(rows) <= succeeded(host), LONG_S), f"{set(rows) - succeeded(host)}\n{shown(logs)}"
    assert not WRONG.search(shown(logs)), shown(logs)
    assert (mail.received() - received).total() == (MAIL in jobs)


def write(host: Host, apps: str, jobs: Sequence[Job], settings: str) -> None:
    """Write the project with what it has for these jobs."""
    host.write(f"weir.{apps}", more=settings, celery=CELERY)
    shop = host.folder / "shop"
    (shop / "tasks.py").write_text(TASKS + "".join(job.tasks for job in jobs))
    (shop / "emails.py").write_text("import weir" + "".join(job.emails for job in jobs))
    (shop / "effects.py").write_text("import weir" + "".join(job.effects for job in jobs))
    (shop / "urls.py").write_text(URLS.format(", ".join(job.urls for job in jobs if job.urls)))


def is_done(job: Job, session: psycopg.Connection) -> bool:
    """Tell whether the job has done what it was asked for."""
    row = session.execute(job.is_done.encode()).fetchone()
    return bool(row and row[0])


def succeeded(host: Host) -> set[str]:
    """Return the names of the tasks that its workers have run to their end."""
    names = host.folder / "succeeded"
    return set(names.read_text().split()) if names.exists() else set()


def shown(logs: Iterable[Path]) -> str:
    """Return what all processes have said."""
    return "\n".join(f"{log.name}:\n{log.read_text()}" for log in logs)
