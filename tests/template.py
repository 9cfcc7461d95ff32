"""The database of the tests is made once, while several processes look for tests, and copied to the server of each.

To migrate takes four seconds of a processor. The process that starts the others makes it, in a fork, on a server of its
own; each of them waits for that, and takes the files. If there are none, each makes its own, and shows what is wrong.
"""

import fcntl
import multiprocessing
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.db.backends.base.creation import BaseDatabaseCreation
from pytest_django import DjangoDbBlocker

from project import embedded
from project.embedded import postgres
from project.embedded.places import Account
from tests.home import DATABASE_URL, HOME, PROCESS

TEMPLATE = (HOME.parent if PROCESS else HOME) / "template"
LOCK = TEMPLATE.with_suffix(".lock")  # locked while the template is made
MADE = TEMPLATE.with_suffix(".made")  # exists when it is complete
_copied: list[Path] = []


def make(blocker: DjangoDbBlocker) -> None:
    """Begin to make it, for processes that are started later; if they have other servers or databases, do nothing."""
    if DATABASE_URL:
        return
    embedded.make_home(HOME)
    lock = os.open(LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    with suppress(BlockingIOError):  # another test run of this folder makes it
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        MADE.unlink(missing_ok=True)
        if len(settings.DATABASES) == 1 and connection.settings_dict["TEST"]["MIGRATE"]:
            multiprocessing.get_context("fork").Process(target=_make, args=(blocker,)).start()
    os.close(lock)  # the fork has it until it ends


def _make(blocker: DjangoDbBlocker) -> None:
    with suppress(embedded.EmbeddedError):
        embedded.discard(TEMPLATE)
        with blocker.unblock(), embedded.servers(TEMPLATE, valkey=False, durable=False):
            connection.settings_dict["HOST"] = str(embedded.postgres_socket_dir(TEMPLATE))
            connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
            connection.close()
        MADE.touch()


@contextmanager
def copied() -> Iterator[None]:
    """Let the server that is started meanwhile begin with the files of the template, if there is one."""
    with pytest.MonkeyPatch.context() as patch:
        if PROCESS and not DATABASE_URL and _is_made():
            with suppress(embedded.EmbeddedError):  # it runs already, with files of its own
                embedded.discard(HOME)
                patch.setattr(postgres, "_create_cluster", _copy)
        yield


def _is_made() -> bool:
    """Wait until it is made, or is not going to be."""
    if LOCK.exists():
        with LOCK.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
    return MADE.exists()


def _copy(_binaries: Path, data: Path, _account: Account, _durable: bool) -> None:
    subprocess.run(["cp", "-a", postgres.postgres_folder(TEMPLATE) / "data", data], check=True)
    _copied.append(data)


@contextmanager
def adopted() -> Iterator[None]:
    """Let Django use the database that was copied, if one was, where it would make one."""
    with pytest.MonkeyPatch.context() as patch:
        if _copied:
            patch.setattr(BaseDatabaseCreation, "create_test_db", _adopt)
        yield


def _adopt(creation: BaseDatabaseCreation, **_options: object) -> str:
    name: str = creation._get_test_db_name()  # type: ignore[attr-defined]  # django-stubs leaves it out
    creation.connection.close()
    settings.DATABASES[creation.connection.alias]["NAME"] = creation.connection.settings_dict["NAME"] = name
    creation.connection.ensure_connection()
    return name
