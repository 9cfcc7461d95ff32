"""Weir's own processes by the lines of the Procfile, on servers of their own, and the faults that can hit them.

The fetcher has a network of its own. One cable leads from it to the sites, one to PostgreSQL, one to the broker. The
other processes reach the servers through Unix sockets. Whatever ends by itself is started again, as whoever runs
processes does.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import redis

from demo.fakes.children import die_with_parent
from project import embedded
from project.checkout import CHECKOUT
from project.embedded.daemon import Daemon
from project.embedded.postgres import postgres_daemon, postgres_folder
from project.embedded.valkey import valkey_daemon
from project.processes import procfile
from tests.acceptance import networks
from tests.acceptance.faults.faults import execute, fault
from tests.waiting import TooLateError

POSTGRES_CABLE, BROKER_CABLE = 10, 11
BROKER_PORT = 6379
ENDS_WITHIN_S = 20
LARGE = 4_000_000  # bytes of a page, for which a fetcher needs more memory than it has
POLL_S = 0.05
READY = {
    **dict.fromkeys(("worker", "ticks", "maintenance", "fetcher", "mailer"), "ready."),
    "beat": "beat_holds_lease",
}


@dataclass(kw_only=True)
class Chain:
    """The processes and servers; `tend` starts what has ended."""

    folder: Path
    home: Path
    separate: networks.Networks
    hosts_file: Path
    cables: dict[str, networks.Cable] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    restarts: list[str] = field(default_factory=list)
    postgres_process: subprocess.Popen[bytes] | None = None
    valkey_process: subprocess.Popen[bytes] | None = None

    # --- servers ---------------------------------------------------------------------------------------------------

    @property
    def postgres(self) -> Daemon:
        return postgres_daemon(self.home, durable=True)  # what was committed outlives SIGKILL

    @property
    def valkey(self) -> Daemon:
        return valkey_daemon(self.home, durable=False)

    @property
    def sockets(self) -> Path:
        """Return the folder of PostgreSQL's socket."""
        return self.postgres.socket.parent

    def start_postgres(self) -> None:
        """Start PostgreSQL in the network of the servers, and wait until it answers."""
        daemon = self.postgres
        user = f"--reuid={daemon.account.uid}", f"--regid={daemon.account.gid}", "--clear-groups"
        command = [*self.separate.sites.enter, "setpriv", *user, "--pdeathsig=INT", *daemon.command]
        self.postgres_process = self._server("postgres", [*command, "-c", "listen_addresses=*"])
        self.wait_for(daemon.answers, 30, "PostgreSQL")

    def start_valkey(self) -> None:
        """Start Valkey in the network of the servers, and wait until it answers."""
        daemon = self.valkey
        daemon.prepare()
        network = "--port", str(BROKER_PORT), "--bind", "*", "--protected-mode", "no"
        self.valkey_process = self._server("valkey", [*self.separate.sites.enter, *daemon.command, *network])
        self.wait_for(daemon.answers, 30, "Valkey")

    def kill_postgres(self) -> None:
        """End it with SIGKILL."""
        for process in self.postgres_processes():
            process.kill()
        assert self.postgres_process
        self.postgres_process.wait()

    def postgres_processes(self) -> list[psutil.Process]:
        """Return PostgreSQL's processes, the first one first."""
        assert self.postgres_process
        first = psutil.Process(self.postgres_process.pid)
        return [first, *first.children(recursive=True)]

    def query(self, *statements: str) -> None:
        """Let PostgreSQL do something, whatever its sessions may do by default."""
        execute(self.sockets, *statements)

    def broker(self) -> redis.Redis:
        """Return a client of the broker."""
        return redis.Redis(unix_socket_path=str(self.valkey.socket))

    def _server(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread runs here
            )

    # --- processes -------------------------------------------------------------------------------------------------

    def environment(self, kind: str) -> dict[str, str]:
        """Return the environment of a process: the fetcher reaches the servers by its cables."""
        far = kind == "fetcher"
        host = self.cables["PostgreSQL"].here if far else ""
        socket = "" if far else f"?host={self.sockets}"
        return {
            **os.environ,
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "HONCHO_PROCESS_NAME": kind,
            "DATABASE_URL": f"postgresql://postgres@{host}/weir{socket}",
            "REDIS_URL": f"redis://{self.cables['broker'].here}:{BROKER_PORT}/0"
            if far
            else f"unix://{self.valkey.socket}",
            "WEIR_FETCH_ALLOW_NETS": networks.ALLOW_NETS,
            "WEIR_FETCH_TIMEOUT": "3",
            "WEIR_FETCH_CONNECT_TIMEOUT": "2",
            "WEIR_FETCH_DNS_TIMEOUT": "1",
            "WEIR_LOG_LEVEL": "INFO",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, kind: str) -> None:
        """Start a process by its line of the Procfile; its output is appended to its log."""
        line = procfile.lines()[kind]
        command = ["/bin/sh", "-c", f"exec {line}"]
        if kind == "fetcher":  # in its network, and with names of its own
            bind = f"mount --bind {self.hosts_file} /etc/hosts && exec {line}"
            command = [*self.separate.clients[0].enter, "unshare", "--mount", "/bin/sh", "-c", bind]
        with self.log(kind).open("ab") as log:
            self.processes[kind] = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=self.environment(kind),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread runs here
            )

    def start_all(self) -> None:
        """Run the Procfile's `release` line, start all processes, and wait until they work."""
        release = procfile.lines()["release"]
        with self.log("release").open("wb") as log:
            subprocess.run(
                ["/bin/sh", "-c", release],
                cwd=CHECKOUT,
                env=self.environment("release"),
                stdout=log,
                stderr=log,
                check=True,
            )
        for kind in READY:
            self.start(kind)
        for kind, word in READY.items():
            self.wait_for(lambda kind=kind, word=word: word in self.log(kind).read_text(errors="replace"), 60, kind)  # type: ignore[misc]

    def log(self, kind: str) -> Path:
        return self.folder / f"{kind}.log"

    def tend(self) -> None:
        """Start what has ended by itself."""
        for kind, process in list(self.processes.items()):
            if process.poll() is not None:
                self.restarts.append(f"{kind} ended with {process.returncode}")
                self.start(kind)

    def signal(self, kind: str, number: signal.Signals) -> None:
        """Send a signal to a process and its children."""
        os.killpg(self.processes[kind].pid, number)

    def pid(self, kind: str) -> int:
        """Return that of a process."""
        return self.processes[kind].pid

    @contextmanager
    def limited_fetcher(self, which: int, soft: int) -> Iterator[None]:
        """Give the running fetcher, also one that is started meanwhile, another soft limit within a block."""
        process = psutil.Process(self.pid("fetcher"))
        before, hard = process.rlimit(which)
        process.rlimit(which, (soft, hard))
        try:
            yield
        finally:
            psutil.Process(self.pid("fetcher")).rlimit(which, (before, hard))

    def wait_for(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Return as soon as the condition is true; starts what has ended meanwhile."""
        give_up_at = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > give_up_at:
                raise TooLateError(
                    f"Waited {seconds:g} s in vain for {what}: see {self.folder}. Restarts: {self.restarts}"
                )
            self.tend()
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End everything, at once where it does not end in order."""
        for kind, process in self.processes.items():
            if process.poll() is None:
                self.signal(kind, signal.SIGCONT)
                self.signal(kind, signal.SIGTERM)
        for process in self.processes.values():
            _ended(process)
        for server, number in ((self.valkey_process, signal.SIGTERM), (self.postgres_process, signal.SIGINT)):
            if server is not None and server.poll() is None:
                os.killpg(server.pid, signal.SIGCONT)
                server.send_signal(number)
                _ended(server)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def running(folder: Path, home: Path, hosts_file: Path) -> Iterator[Chain]:
    """Lay the cables and start the servers; no process runs yet. All ends when the block is left, whatever happened."""
    with ExitStack() as leaving:
        leaving.callback(embedded.discard, home)
        with embedded.servers(home, valkey=False) as _:
            pass  # the database is created
        (postgres_folder(home) / "data" / "pg_hba.conf").write_text("local all all trust\nhost all all all trust\n")
        try:
            separate = leaving.enter_context(networks.separate(1))
        except networks.Unavailable as error:
            pytest.skip(str(error))
        chain = Chain(folder=folder, home=home, separate=separate, hosts_file=hosts_file)
        leaving.callback(chain.stop)
        for what, number in (("PostgreSQL", POSTGRES_CABLE), ("broker", BROKER_CABLE)):
            name = what.lower()
            chain.cables[what] = networks.join(separate.sites, separate.clients[0], number, name, name)
        chain.cables["sites"] = networks.cable_to(separate, 0)
        chain.start_postgres()
        chain.start_valkey()
        yield chain


# --- faults -------------------------------------------------------------------------------------------------------


@fault("fetcher's cable to {1}")
def cable(chain: Chain, to: str) -> Iterator[None]:
    """Pull the fetcher's cable to something, and put it back."""
    chain.cables[to].pull()
    try:
        yield
    finally:
        chain.cables[to].put_back()


@fault("fetcher without descriptors")
def few_descriptors(chain: Chain) -> Iterator[None]:
    """Let the fetcher open no file and no connection."""
    with chain.limited_fetcher(resource.RLIMIT_NOFILE, 20):
        yield


@fault("fetcher without memory", path=f"/big/{LARGE}")
def little_memory(chain: Chain) -> Iterator[None]:
    """Let the fetcher have no more memory than it has."""
    used = psutil.Process(chain.pid("fetcher")).memory_info().vms
    with chain.limited_fetcher(resource.RLIMIT_AS, used):
        yield


@fault("{1} is split off")
def split(chain: Chain, host: str, port: int, rate: str) -> Iterator[None]:
    """Give a host below a site that covers it a site of its own; that stays."""
    command = [sys.executable, "manage.py", "sites", "set", f"{host}:{port}", rate]
    subprocess.run(command, cwd=CHECKOUT, env=chain.environment("web"), check=True, capture_output=True)
    yield
