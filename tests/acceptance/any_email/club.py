"""The project with members, as processes that tests kill, and people who use it meanwhile."""

import os
import signal
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg

from demo.fakes.mail_server import ACCEPTED, MailServer
from project import embedded
from tests.forked import Forked
from tests.servers import PLACE
from tests.valkeys import Valkey, free_port
from tests.waiting import wait_for

PROJECT = "tests.acceptance.any_email.members"
DATABASE = "members"
MEMBERS = 20_000  # who have forgotten their passwords
QUIETLY = "--without-gossip --without-mingle --without-heartbeat"
LINES = {
    "worker": f"-m celery -A {PROJECT} worker --queues celery --pool prefork --concurrency 2 {QUIETLY}",
    "mailer": f"-m celery -A {PROJECT} worker --queues weir.mail,weir.ticks --pool prefork --concurrency 3 {QUIETLY}",
    "beat": f"-m celery -A {PROJECT} beat",
}
KILLED = ("web", "worker", "mailer")
VISIBLE_S = 3.0  # after this time, the task of a killed worker may run again


@contextmanager
def database() -> Iterator[None]:
    """Provide an empty database for the project, and none afterwards."""
    with session("postgres") as connected:
        drop = f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"
        connected.execute(drop)
        connected.execute(f"CREATE DATABASE {DATABASE}")
        try:
            yield
        finally:
            connected.execute(drop)


def session(name: str = DATABASE) -> psycopg.Connection[Any]:
    """Return a session with a database of the tests' server."""
    return psycopg.connect(host=PLACE, user=embedded.DATABASE_USER, dbname=name, autocommit=True)


@dataclass(kw_only=True)
class Club:
    """The processes of the project, by name."""

    folder: Path
    mail: MailServer
    valkey: Valkey
    port: int = field(default_factory=free_port)
    killed: Counter[str] = field(default_factory=Counter)
    _running: dict[str, Forked] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make the tables, and the members."""
        self.run("-m", "django", "migrate", "--verbosity", "0")
        with session() as connected:
            connected.execute(
                "INSERT INTO auth_user (username, email, password, first_name, last_name, is_active, is_staff,"
                " is_superuser, date_joined)"
                " SELECT n, 'member.' || n || '@members.example', 'md5$salt$' || n, '', '', true, false, false, now()"
                " FROM generate_series(1, %s) AS n",
                [MEMBERS],
            )

    def run(self, *arguments: str, given: str = "") -> str:
        """Run Python in the project, with this input; return what it writes."""
        with (self.folder / "run.log").open("ab") as errors:
            command = Forked(*arguments, environment=self._environment(), errors=errors)
            written, _ = command.communicate(given, timeout=120)
        assert command.returncode == 0, self.written("run")[-2000:]
        return written

    def start(self, name: str) -> None:
        """Start a process, in a group of its own; do not wait until it works."""
        web = f"-m uvicorn {PROJECT}.asgi:application --port {self.port} --no-access-log"
        with (self.folder / f"{name}.log").open("ab") as output:
            self._running[name] = Forked(
                *LINES.get(name, web).split(), environment=self._environment(), output=output, start_new_session=True
            )

    def kill(self, name: str) -> None:
        """End a process, with its children, by SIGKILL, and start it again."""
        self.stop(name)
        self.killed[name] += 1
        self.start(name)

    def close(self) -> None:
        """End all processes."""
        for name in list(self._running):
            self.stop(name)

    def serves(self) -> bool:
        """Return whether the web process answers."""
        return self.post("nowhere/") == 404

    def post(self, path: str, **sent: object) -> int:
        """Return the status of the answer; 0 if there was none: the web process was killed, or is not there yet."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", urlencode(sent).encode())
        try:
            with _opener.open(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def written(self, name: str) -> str:
        """Return what a process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self, name: str) -> None:
        """End a process, with its children, by SIGKILL."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"{PROJECT}.settings",
            "MEMBERS_DATABASE": DATABASE,
            "MEMBERS_DATABASE_HOST": PLACE,
            "MEMBERS_DATABASE_USER": embedded.DATABASE_USER,
            "MEMBERS_MAIL_PORT": str(self.mail.port),
            "MEMBERS_VISIBLE_S": str(VISIBLE_S),
            "MEMBERS_REDIS": f"redis://{self.valkey.place}/0",
        }

    def accepted(self) -> Counter[str]:
        """Return how often the mail server accepted a message for each recipient."""
        return Counter(event.recipient for event in self.mail.events() if event.event == ACCEPTED)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


class People:
    """People who sign up, forget their passwords, and pay, each once, until they are told to stop."""

    # What they do: the path, what is sent, and who gets a message if it is answered with the status.
    DOINGS = (
        ("accounts/signup/", {"email": "signup.{n}@members.example", "password1": "Sesame-{n}-open"}, 302),
        ("reset/", {"email": "member.{n}@members.example"}, 302),
        ("accounts/password/reset/", {"email": "member.{n}@members.example"}, 302),
        ("receipt/", {"number": "{n}"}, 200),
        ("failing/", {"number": "{n}"}, 500),
    )

    def __init__(self, club: Club, number: int) -> None:
        self.answered: dict[str, set[int]] = {path: set() for path, _, _ in self.DOINGS}
        self.unanswered: dict[str, set[int]] = {path: set() for path, _, _ in self.DOINGS}
        self.wrong: list[tuple[str, int, int]] = []
        self._club, self._numbers, self._stop = club, count(1), threading.Event()
        self._threads = [threading.Thread(target=self._go_on, daemon=True) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def done(self) -> int:
        """Return how much was answered."""
        return sum(map(len, self.answered.values()))

    def stop(self) -> None:
        """Let each finish what it does."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _go_on(self) -> None:
        while not self._stop.is_set():
            number = next(self._numbers)
            path, sent, wanted = self.DOINGS[number % len(self.DOINGS)]
            status = self._club.post(path, **{name: text.format(n=number) for name, text in sent.items()})
            if status == wanted:
                self.answered[path].add(number)
            elif status:
                self.wrong.append((path, number, status))
            else:
                self.unanswered[path].add(number)
                wait_for(self._club.serves, 90, "the web process")
