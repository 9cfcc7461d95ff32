"""PostgreSQL servers of a test's own: a primary, its standbys, and copies of its files."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from demo.fakes.children import die_with_parent
from project.embedded import postgres
from project.embedded.daemon import ENVIRONMENT
from project.embedded.places import Account
from tests.waiting import wait_for

NAME = "weir"
OPTIONS = {
    "listen_addresses": "",
    "shared_buffers": "64MB",
    "max_connections": "150",
    "timezone": "UTC",
    "wal_level": "replica",
    "max_wal_senders": "5",
    "hot_standby": "on",
    "unix_socket_permissions": "0777",
}


@dataclass(kw_only=True)
class Server:
    """A server, running or not, whose files and socket are in one folder.

    `inside` is what its command begins with in a network of its own, such as `nsenter` and its options.
    """

    folder: Path
    binaries: Path
    options: dict[str, str] = field(default_factory=dict)
    inside: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)  # besides what all have
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """Where its files are."""
        return self.folder / "data"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {**OPTIONS, "unix_socket_directories": str(self.folder), **self.options}
        account = postgres._account()
        command = [str(self.binaries / "postgres"), "-D", str(self.data)]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        switch = account.switch()
        if self.inside:  # only root can enter it
            user = f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"
            command, switch = [*self.inside, "setpriv", *user, *command], Account.ours().switch()
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**ENVIRONMENT, **self.environment},
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread starts processes here
                **switch,
            )
        wait_for(self.answers, 30, f"PostgreSQL, see {self.folder / 'log'}")

    def answers(self) -> bool:
        """Return whether a client can log in."""
        try:
            self.query("SELECT 1", database="postgres")
        except psycopg.OperationalError:
            return False
        return True

    def query(self, statement: str, *, database: str = NAME) -> list[tuple[object, ...]]:
        """Execute a statement as superuser."""
        with psycopg.connect(host=str(self.folder), user="postgres", dbname=database, autocommit=True) as session:
            cursor = session.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """End all its processes with SIGKILL: it is as if its host had died."""
        if self.process:
            for process in (own := self._processes() if self.process.poll() is None else []):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self.process.wait()
            psutil.wait_procs(own, 10)
            self.process = None
        for leftover in (self.data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            leftover.unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop it in order ("fast")."""
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
            self.process = None

    def copied(self, folder: Path, *, as_standby: bool = False) -> "Server":
        """Return another server with a copy of the files, as of now, which does not run."""
        make_folder(folder)
        command = ["pg_basebackup", "-h", str(self.folder), "-U", "postgres", "-D", str(folder / "data"), "-c", "fast"]
        self._run(*command, *(["-R"] if as_standby else []))
        return Server(folder=folder, binaries=self.binaries, options=dict(self.options))

    def dump(self) -> bytes:
        """Return the database as SQL."""
        return self._run("pg_dump", "-h", str(self.folder), "-U", "postgres", NAME).stdout

    def restore(self, dumped: bytes) -> None:
        """Fill the database, which is empty."""
        self._run("psql", "-XqAt", "-h", str(self.folder), "-U", "postgres", "-d", NAME, stdin=dumped)

    def take_files_of(self, other: "Server") -> None:
        """Replace the files by those of a copy, which does not run."""
        shutil.rmtree(self.data)
        other.data.rename(self.data)

    def set(self, name: str, value: str) -> None:
        """Set a parameter; it holds immediately, and for copies of its files, too."""
        self.query(f"ALTER SYSTEM SET {name} = '{value}'", database="postgres")
        self.query("SELECT pg_reload_conf()", database="postgres")

    def promote(self) -> None:
        """Make a standby the primary, and wait until it is."""
        self._run("pg_ctl", "promote", "-D", str(self.data), "-w", "-t", "30")

    def _processes(self) -> list[psutil.Process]:
        """Return its processes, each of which is a group of its own; the first one starts the others."""
        assert self.process
        first = psutil.Process(self.process.pid)
        return [first, *first.children()]

    def _run(self, program: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self.binaries / program), *arguments],
            check=True,
            input=stdin,
            stdout=subprocess.PIPE,
            cwd="/",
            env=ENVIRONMENT,
            **postgres._account().switch(),
        )


@contextmanager
def primary(
    options: Mapping[str, str] | None = None,
    *,
    parent: Path | None = None,
    environment: Mapping[str, str] | None = None,
    inside: Sequence[str] = (),
) -> Iterator[Server]:
    """Run a server with an empty database. Its folder, and those made by `beside`, are deleted at the end.

    The folders are in `parent`, if that is named. `options` are added to those that all have; `environment`, and what
    the command begins with (`inside`), are for this server only.
    """
    install, account = postgres._newest_install(), postgres._account()
    binaries = postgres._reachable_copy(install, account) / "bin"
    if binaries.parent != install:
        postgres._copy_binaries(install, binaries.parent)
    root = Path(tempfile.mkdtemp(prefix="weir-servers-", dir=parent))
    root.chmod(0o755)
    server = Server(
        folder=root / "primary",
        binaries=binaries,
        options=dict(options or {}),
        environment=dict(environment or {}),
        inside=inside,
    )
    try:
        create(server)
        yield server
    finally:
        for pid_file in root.glob("*/data/postmaster.pid"):
            os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
        server.kill()
        shutil.rmtree(root, ignore_errors=True)


def create(server: Server) -> None:
    """Create a server with an empty database, and start it."""
    make_folder(server.folder)
    postgres._create_cluster(server.binaries, server.data, postgres._account(), durable=False)
    with (server.data / "pg_hba.conf").open("a") as rules:
        rules.write("local replication all trust\nhost all all all trust\n")
    server.start()
    server.query(f"CREATE DATABASE {NAME}", database="postgres")


def beside(server: Server, name: str) -> Path:
    """Return the folder for another server beside this one."""
    return server.folder.with_name(name)


def make_folder(folder: Path) -> None:
    """Make a folder that PostgreSQL's user owns."""
    account = postgres._account()
    folder.mkdir(mode=0o755)
    os.chown(folder, account.uid, account.gid)
