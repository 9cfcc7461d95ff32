"""A PostgreSQL of a test's own, started with options that cannot be changed while it runs."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from django.conf import settings

from project import embedded
from project.embedded import daemon, postgres

LOCALE = "en_US.UTF-8"  # in which a < B


@dataclass(frozen=True, kw_only=True)
class OwnPostgres:
    """A running server."""

    home: Path
    sockets: Path

    def create_database(self, name: str, options: str = "") -> dict[str, str]:
        """Create a database; return the variables by which a process of the test finds it, and the tests' Redis."""
        with psycopg.connect(host=str(self.sockets), user=embedded.DATABASE_USER, autocommit=True) as server:
            server.execute(f"CREATE DATABASE {name} {options}".encode())
        return {"WEIR_TEST_DATABASE": name, "WEIR_HOME": str(self.home), "REDIS_URL": settings.REDIS_URL}


@contextmanager
def own_postgres(home: Path, *, locales: Path | None = None, **options: str) -> Iterator[OwnPostgres]:
    """Run a server in this home, with these options, and with the locales of this folder."""
    usual = postgres._settings
    home.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(postgres, "_settings", lambda *place: {**usual(*place), **options})
        if locales:
            patched.setitem(daemon.ENVIRONMENT, "LOCPATH", str(locales))
        with embedded.servers(home, valkey=False, durable=False) as servers:
            yield OwnPostgres(home=home, sockets=servers.postgres_socket_dir)
    embedded.discard(home)


@contextmanager
def english() -> Iterator[Path]:
    """Yield a folder with the locale, which PostgreSQL's user can read. Skips the test if none can be made."""
    folder = Path(tempfile.mkdtemp(prefix="weir-locales-"))
    try:
        folder.chmod(0o755)
        if not shutil.which("localedef") or not os.path.exists("/usr/share/i18n/locales/en_US"):  # noqa: PTH110
            pytest.skip("this machine has no localedef, or no sources of locales")
        subprocess.run(["localedef", "-i", "en_US", "-f", "UTF-8", str(folder / LOCALE)], check=True)
        yield folder
    finally:
        shutil.rmtree(folder)
