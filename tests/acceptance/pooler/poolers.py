"""PgBouncer, set up as docs/how-to/use-a-pooler.md says."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from packaging.version import Version

from demo.fakes.children import die_with_parent
from project.checkout import CHECKOUT
from project.embedded import postgres
from tests import own_servers
from tests.own_servers import Server, beside
from tests.waiting import wait_for

PGBOUNCER: Final = os.environ.get("WEIR_TEST_PGBOUNCER") or shutil.which(
    "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"
)
MISSING: Final = "this machine has no pgbouncer (Debian: apt install pgbouncer)"
PREPARES_SINCE: Final = Version("1.21")
POOL: Final = 8  # sessions of PostgreSQL, for all processes together
SITES: Final = 12
NAMES: Final = ("ticks", "maintenance", "fetcher-1", "fetcher-2", "beat", "mailer")
PAGE: Final = CHECKOUT / "docs" / "how-to" / "use-a-pooler.md"


@dataclass(kw_only=True)
class Pooler:
    """PgBouncer, in a folder of its own."""

    folder: Path
    server: Server
    host: str  # PostgreSQL's, as pgbouncer.ini names it: an address, or the folder of its socket
    is_prepared: bool  # it keeps prepared statements over transactions, and Weir prepares them
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        lines = [
            "[databases]",
            f"{own_servers.NAME} = host={self.host} user=postgres",
            "[pgbouncer]",
            "listen_addr =",
            f"unix_socket_dir = {self.folder}",
            "auth_type = any",
            f"default_pool_size = {POOL}",
            "max_client_conn = 500",
            pgbouncer_settings(),
            "max_prepared_statements = 200" if self.is_prepared else "",
        ]
        self.folder.joinpath("ini").write_text("\n".join(lines))
        (self.folder / ".s.PGSQL.6432").unlink(missing_ok=True)
        assert PGBOUNCER
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [PGBOUNCER, str(self.folder / "ini")],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread starts processes here
                **postgres._account().switch(),
            )
        wait_for(self.answers, 20, "PgBouncer")

    def session(self) -> psycopg.Connection:
        """Return a session of its own that a client gets."""
        return psycopg.connect(host=str(self.folder), port=6432, user="postgres", dbname=own_servers.NAME)

    def keeps_statements(self) -> bool:
        """Tell whether statements are prepared in the session of PostgreSQL's that it gives us."""
        with self.session() as session:
            return bool(session.execute("SELECT FROM pg_prepared_statements LIMIT 1", prepare=False).fetchall())

    def answers(self) -> bool:
        """Tell whether a client can log in."""
        try:
            self.session().close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of the processes that use it."""
        prepares = "&prepare_threshold=5" if self.is_prepared else ""
        url = f"postgresql://postgres@/{own_servers.NAME}?host={self.folder}&port=6432{prepares}"
        return {"DATABASE_URL": url, "WEIR_TRANSACTION_POOLING": "true"}

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self.process
        self.process.kill()
        self.process.wait()


@contextmanager
def running(server: Server, host: str, *, is_prepared: bool = False) -> Iterator[Pooler]:
    """Run PgBouncer in front of a server, and give the role its settings."""
    for name, value in role_settings():
        server.query(f"ALTER ROLE postgres SET {name} = '{value}'")
    folder = beside(server, "pooler")
    own_servers.make_folder(folder)
    made = Pooler(folder=folder, server=server, host=host, is_prepared=is_prepared)
    made.start()
    try:
        yield made
    finally:
        made.kill()


def pgbouncer_settings() -> str:
    """Return what the page has in `pgbouncer.ini`."""
    [example] = re.findall(r"^```ini\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(example).removeprefix("[pgbouncer]\n")


def role_settings() -> list[tuple[str, str]]:
    """Return the settings of the role that the page has, and their values."""
    found = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert "statement_timeout" in dict(found)
    return found


def version() -> Version:
    """Return PgBouncer's version."""
    assert PGBOUNCER
    told = subprocess.run([PGBOUNCER, "--version"], check=True, capture_output=True, text=True).stdout
    return Version(told.split()[1])
