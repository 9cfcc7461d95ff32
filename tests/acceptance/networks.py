"""Networks for the processes of a test: one for the sites and one for each client, joined by virtual cables.

Each is a network namespace of Linux, which lasts as long as a process in it: one that ends with this process. The
host's own network does not change, and nothing is left, even if the test was killed.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SITES = "198.18"  # this network and the next are for tests of networks (RFC 2544)
CABLES = "198.19"
ALLOW_NETS = f"{SITES}.0.0/16"
CLONE_NEWNET = 0x40000000  # Linux, for setns
# A user other than root is root in a user namespace, where the system permits that.
AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
ENTER_AS_ROOT = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")


class Unavailable(Exception):
    """This system gives a test no networks of its own."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network of its own; `enter` is what the command of a process in it begins with."""

    pid: int

    @property
    def enter(self) -> tuple[str, ...]:
        """Return the command that runs another one here, as the same process."""
        return ("nsenter", f"--target={self.pid}", "--net", *ENTER_AS_ROOT)

    def holds(self, pid: int) -> bool:
        """Tell whether a process is in it."""
        return Path(f"/proc/{pid}/ns/net").samefile(f"/proc/{self.pid}/ns/net")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Put this thread, and all that it starts meanwhile, into it. Only root can."""
        with Path("/proc/thread-self/ns/net").open() as before, Path(f"/proc/{self.pid}/ns/net").open() as there:
            _enter(there)
            try:
                yield
            finally:
                _enter(before, RuntimeError)

    def set_up(self, *lines: str) -> None:
        """Let `ip` do this, line by line; raises Unavailable, with its words, where it cannot."""
        done = subprocess.run(
            [*self.enter, "ip", "-batch", "-"], input="\n".join(lines), capture_output=True, check=False, text=True
        )
        if done.returncode:
            raise Unavailable(done.stderr.strip())


@dataclass(frozen=True, kw_only=True)
class Networks:
    """The network where all addresses of SITES are, and those from which they can be reached."""

    sites: Network
    clients: tuple[Network, ...]


@dataclass(frozen=True, kw_only=True)
class Cable:
    """A cable between two networks; `here` is the address of its end in the first."""

    network: Network
    name: str  # of that end
    here: str

    def pull(self) -> None:
        """Cut the two networks off from each other: neither is told."""
        self.network.set_up(f"link set {self.name} down")

    def put_back(self) -> None:
        """Join them again."""
        self.network.set_up(f"link set {self.name} up")


def _enter(namespace: IO[str], error: type[Exception] = Unavailable) -> None:
    """Do what `os.setns` does from Python 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
        raise error(os.strerror(ctypes.get_errno()))


@contextmanager
def separate(clients: int) -> Iterator[Networks]:
    """Make networks: one for sites, and so many for clients, each with an address of its own.

    Raises Unavailable, saying why, where the system does not allow that.
    """
    with ExitStack() as leaving:
        try:
            made = _joined(leaving, clients)
        except FileNotFoundError as error:
            raise Unavailable(f"There is no {error.filename}.") from error
        yield made


def cable_to(made: Networks, client: int) -> Cable:
    """Return the cable between the network of the sites and that of a client, which `separate` has laid."""
    return Cable(network=made.sites, name=f"client{client}", here=f"{CABLES}.{client}.1")


def _joined(leaving: ExitStack, clients: int) -> Networks:
    sites = leaving.enter_context(_network())
    sites.set_up("link set lo up", f"route add local {SITES}.0.0/16 dev lo")
    made = []
    for number in range(clients):
        client = leaving.enter_context(_network(sites.enter))  # from there, for the same user namespace
        cable = join(sites, client, number, f"client{number}", "sites")
        client.set_up(f"route add default via {cable.here}")
        made.append(client)
    return Networks(sites=sites, clients=tuple(made))


def join(one: Network, other: Network, number: int, name: str, name_there: str) -> Cable:
    """Lay a cable between two networks, with an address at each end; its number is its own."""
    here, there = f"{CABLES}.{number}.1", f"{CABLES}.{number}.2"
    one.set_up(
        f"link add {name} type veth peer name {name_there} netns {other.pid}",
        f"address add {here}/30 dev {name}",
        f"link set {name} up",
    )
    other.set_up(f"address add {there}/30 dev {name_there}", f"link set {name_there} up")
    return Cable(network=one, name=name, here=here)


@contextmanager
def _network(inside: Sequence[str] = ()) -> Iterator[Network]:
    with unshared([*inside, "unshare", "--net", *(() if inside else AS_ROOT)], "true") as pid:
        yield Network(pid=pid)


@contextmanager
def unshared(unshare: Sequence[str], set_up: str) -> Iterator[int]:
    """Start a process with namespaces of its own, which the shell sets up, and which last as long as the block.

    Returns its id; raises Unavailable, saying why, where the system forbids it.
    """
    process = subprocess.Popen(
        [*unshare, "sh", "-c", f"{set_up} && echo made && exec cat"],
        stdin=subprocess.PIPE,  # which ends with us, however we end
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != "made\n":
            raise Unavailable(process.stderr.read().strip())
        yield process.pid
