"""A RabbitMQ of a test's own, with Debian's package: a node of a name, ports and a folder of its own."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import kombu
import psutil

from demo.fakes.children import die_with_parent
from tests.valkeys import free_port
from tests.waiting import wait_for

SERVER = next(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"), None)
EPMD = shutil.which("epmd")
MISSING = "this machine has no RabbitMQ (Debian: apt install --no-install-recommends rabbitmq-server)"
STOPS_S = 10.0
START_S = 120.0  # 5 s where the machine has nothing else to do


@dataclass(kw_only=True)
class RabbitMQ:
    """A server, which can be killed and started again with the same folder.

    The daemon by which Erlang's nodes find each other, `epmd`, has a port of its own, too, and ends with us.
    """

    folder: Path
    port: int
    epmd: subprocess.Popen[bytes]
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return its CELERY_BROKER_URL."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Start it, and wait until it takes clients."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(SERVER)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread starts processes here
            )
        wait_for(self.answers, START_S, f"RabbitMQ, see {self.folder / 'log'}", every_s=0.2)

    def answers(self) -> bool:
        """Return whether a client can log in."""
        with kombu.Connection(self.url, connect_timeout=2) as client:
            try:
                client.connect()
            except client.connection_errors:
                return False
        return True

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all its processes meanwhile; the kernel still accepts what is sent to them."""
        assert self.process
        group = self.process.pid
        os.killpg(group, signal.SIGSTOP)
        try:
            wait_for(lambda: _threads_run(group) == 0, STOPS_S, "RabbitMQ's threads to stop", every_s=0.005)
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

    def kill(self) -> None:
        """End all its processes with SIGKILL."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def _threads_run(group: int) -> int:
    """Return how many threads of a process group are not stopped yet: the signal reaches one after the other."""
    members = [process.pid for process in psutil.process_iter() if _group(process.pid) == group]
    threads = [file for pid in members for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    return sum(file.read_text().rpartition(") ")[2][0] != "T" for file in threads)


def _group(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None


@contextmanager
def running(folder: Path) -> Iterator[RabbitMQ]:
    """Run a server in this folder; none of its processes is left at the end."""
    folder.mkdir(parents=True)
    (folder / "plugins").write_text("[].")
    port, epmd_port = free_port(), str(free_port())
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),  # for the cookie
        "ERL_EPMD_PORT": epmd_port,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"weir{os.getpid()}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
    }
    assert EPMD
    epmd = subprocess.Popen(
        [EPMD, "-port", epmd_port, "-address", "127.0.0.1"],
        preexec_fn=die_with_parent,  # noqa: PLW1509 -- as above
    )
    made = RabbitMQ(folder=folder, port=port, epmd=epmd, environment=environment)
    try:
        made.start()
        yield made
    finally:
        made.kill()
        epmd.kill()
        epmd.wait()
