"""The project with Weir: after the five steps of its page, all of its processes run.

It has apps named as rooms of Weir's are, users with UUIDs, integer keys, ATOMIC_REQUESTS, a Celery app with a result
backend and a schedule, and a log of its own (`mysite`); a database in the tests' PostgreSQL, and a Valkey.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from demo.fakes import mail_server, sites
from demo.fakes.mail_server import MailServer
from demo.fakes.sites import Sites
from project import embedded
from tests import wheels
from tests.acceptance.host import host
from tests.acceptance.host.host import Host
from tests.home import DATABASE_URL
from tests.servers import PLACE
from tests.valkeys import Valkey, free_port

DATABASE = "mysite"
OWN_WORKER = "own: celery -A mysite worker --queues celery,orders --concurrency 1"


@dataclass(frozen=True, kw_only=True)
class World:
    """The project with Weir, and whom it speaks to."""

    mysite: Host
    environment: Path
    before: set[str]  # what was in the environment before Weir
    sites: Sites
    mail: MailServer
    valkey: Valkey

    def place(self, number: str, **sent: str) -> tuple[int, object]:
        """Let Ada place an order; return the status and the answer of the view."""
        url = self.sites.url(0, f"/invoices/{number}")
        return self.mysite.ask(
            "/orders/", **{"customer": "ada", "number": number, "invoice_url": url, "card": "good", **sent}
        )

    def totals(self) -> dict[str, int]:
        """Return how many rows the project sees of each kind, and Ada's unread number."""
        found: dict[str, int] = self.mysite.ask("/totals/")[1]
        return found

    def mails(self, number: str) -> int:
        """Return how often the mail server took the e-mail about an order."""
        return sum(count for message, count in self.mail.received().items() if f"order.placed-{number}-" in message)

    def results(self, name: str = "") -> set[str]:
        """Return the names of the tasks that left a result in the project's backend, if they begin so."""
        kept = map(self.valkey.client.get, self.valkey.client.scan_iter("celery-task-meta-*"))
        return {task for one in kept if one and (task := json.loads(one)["name"]).startswith(name)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution, built once."""
    return wheels.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def world(wheel: Path, tmp_path_factory: pytest.TempPathFactory, embedded_servers: None) -> Iterator[World]:  # noqa: ARG001
    """The project, to which Weir was added by the steps of the page, literally; all processes run."""
    if DATABASE_URL:
        pytest.skip("the project has a database on the embedded server")
    folder = tmp_path_factory.mktemp("host")
    environment, port = folder / "venv", free_port()
    host.make_environment(environment, wheel)
    before = installed(environment)
    valkey = Valkey(folder / "valkey")
    with database(), mail_server.running(folder) as mail, sites.running(1, folder) as fake_sites:
        mysite = host.make(
            folder / "mysite",
            environment,
            port,
            {
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(wheel.parent),
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                "MYSITE_DATABASE": DATABASE,
                "MYSITE_DATABASE_HOST": PLACE,
                "MYSITE_MAIL_PORT": str(mail.port),
                "MYSITE_REDIS": f"redis://{valkey.place}/0",
                "DJANGO_SUPERUSER_PASSWORD": "secret",
            },
        )
        made = World(mysite=mysite, environment=environment, before=before, sites=fake_sites, mail=mail, valkey=valkey)
        try:
            mysite.type("python manage.py migrate")
            mysite.type("python manage.py createsuperuser --no-input --username ada --email ada@example.com")
            for blocks in host.steps().values():
                shown = [output for block in blocks for output in mysite.follow(block)]
            mysite.write_what_uses_weir()
            mysite.start(f"{shown[-1]}\n{OWN_WORKER}\n")
            mysite.serve()
            yield made
        finally:
            mysite.terminal.stop_all()
            valkey.kill()


@contextmanager
def database() -> Iterator[None]:
    """Provide an empty database for the project, and none afterwards."""
    with psycopg.connect(host=PLACE, user=embedded.DATABASE_USER, dbname="postgres", autocommit=True) as session:
        drop = f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"
        session.execute(drop)
        session.execute(f"CREATE DATABASE {DATABASE}")
        try:
            yield
        finally:
            session.execute(drop)


def installed(environment: Path) -> set[str]:
    """Return the files of the packages in an environment, but for byte code."""
    [packages] = environment.glob("lib/python*/site-packages")
    return {str(file.relative_to(packages)) for file in packages.rglob("*") if "__pycache__" not in file.parts}
