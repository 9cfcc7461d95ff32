"""A project that nobody of Weir made: its own settings, its own Celery app, and of Weir the apps that it wants."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

import pytest
import redis

from project.environment import urls
from tests.forked import Forked
from tests.servers import database_url

SETTINGS = """
import weir
SECRET_KEY = "not a secret"
INSTALLED_APPS = [f"django.contrib.{{name}}" for name in ("admin", "auth", "contenttypes", "messages")]
INSTALLED_APPS += {apps}
INSTALLED_APPS += ["shop"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
    "OPTIONS": {{"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]}},
}}]
DATABASES = {{"default": {database!r}}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
REDIS_URL = {redis_url!r}
CELERY_BROKER_URL = {broker_url!r}
{more}
"""
CELERY = """
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
import weir.celery
from celery import Celery
app = Celery("a shop")
{lines}
"""
AFTERWARDS = """
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
weir.celery.integrate(app)
"""
TASKS = """
from celery import shared_task
@shared_task
def tidy_up(*args):
    return "tidied up"
"""

# Runs code in a fork for each of several settings; the two are its arguments.
EACH = """
import json, os, sys, tempfile, traceback
import django
django.setup()
from django.conf import settings

def run(added):
    names = {"__name__": "shop.settings"}
    exec(added, names)
    for name, value in names.items():
        if name.isupper():
            setattr(settings, name, value)
    exec(sys.argv[2], {"__name__": "__main__"})

def told(added):
    with tempfile.TemporaryFile() as said:
        if child := os.fork():
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            return status, said.read().decode()
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        status = 1
        try:
            run(added)
            status = 0
        except SystemExit as end:
            print(end, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

print(json.dumps([told(added) for added in json.loads(sys.argv[1])]))
"""


@dataclass(kw_only=True)
class Host:
    """The project `shop` in a folder of its own."""

    folder: Path
    database: str
    broker: redis.Redis
    _started: list[Forked] = field(default_factory=list)

    def write(self, apps: str, *, more: str = "", celery: str = AFTERWARDS) -> None:
        """Write its files; `apps` is an expression, such as `weir.APPS`."""
        path = self.broker.connection_pool.connection_kwargs["path"]
        text = SETTINGS.format(
            apps=apps,
            database=urls.database(database_url(self.database)),
            redis_url=f"unix://{path}",
            broker_url=f"redis+socket://{path}",
            more=more,
        )
        shop = self.folder / "shop"
        shop.mkdir(exist_ok=True)
        (shop / "__init__.py").write_text("from shop.celery import app as celery_app\n")
        (shop / "settings.py").write_text(text)
        (shop / "tasks.py").write_text(TASKS)
        (shop / "celery.py").write_text(CELERY.format(lines=celery))

    def run(self, *words: str, within_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run Python in it with these words, to its end."""
        with TemporaryFile() as errors:
            process = Forked(*words, environment=self._environment, folder=self.folder, errors=errors)
            said, _ = process.communicate(timeout=within_s)
            errors.seek(0)
            return subprocess.CompletedProcess(words, process.wait(), said, errors.read().decode())

    def manage(self, *words: str) -> str:
        """Run a command of Django's, which must succeed; return what it said."""
        done = self.run("-m", "django", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def python(self, code: str) -> str:
        """Run code after django.setup(), which must succeed; return what it printed."""
        done = self.run("-c", f"import django; django.setup()\n{code}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def told_with(self, settings: Iterable[str], code: str) -> list[tuple[int, str]]:
        """Run code after django.setup(), once with each of these settings added; return each exit status and output.

        Each run is a fork of one process, in which the app exists, and has not read its configuration yet.
        """
        said = self.run("-c", EACH, json.dumps([*settings]), code)
        assert said.returncode == 0, said
        return [(status, text) for status, text in json.loads(said.stdout)]

    def start(self, command: str) -> Path:
        """Start a command line of Celery's, which ends with the test; return its log."""
        log = self.folder / f"{command.rsplit(maxsplit=1)[-1].partition('@')[0]}.log"
        with log.open("wb") as output:
            process = Forked(
                "-m",
                *shlex.split(command),
                environment=self._environment,
                folder=self.folder,
                output=output,
                start_new_session=True,
            )
        self._started.append(process)
        return log

    def close(self) -> None:
        """End what it has started, with all children."""
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHONPATH": str(self.folder),
            "DJANGO_SETTINGS_MODULE": "shop.settings",
        }


@pytest.fixture
def host(tmp_path: Path, empty_database: str, own_broker: redis.Redis) -> Iterator[Host]:
    """Provide the project, with a database and a broker of its own; its files are not written yet."""
    found = Host(folder=tmp_path, database=empty_database, broker=own_broker)
    try:
        yield found
    finally:
        found.close()
