"""Valkeys of a test's own, on ports of the loopback address, with whatever options it needs."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from project.embedded.valkey import _valkey_binary

READY_WITHIN_S = 20


def free_port() -> int:
    """Return a port that nobody listens on, nor on the one 10,000 above it, which a cluster's node needs."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                other.bind(("127.0.0.1", port + 10_000))
            except (OSError, OverflowError):
                continue
            return port


class Valkey:
    """A server, which can be killed and started again with the same folder."""

    def __init__(self, folder: Path, *options: str, config: str = "") -> None:
        self.port = free_port()
        self.client: Any = redis.Redis(port=self.port, decode_responses=True)
        self._folder = folder
        self._config = folder / "valkey.conf"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        self._config.write_text(config)
        self.start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", "")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(_valkey_binary()), str(self._config), *options, *self._options], stdout=log, stderr=log
            )
        give_up_at = time.monotonic() + READY_WITHIN_S
        while not self._answers():
            assert time.monotonic() < give_up_at, (self._folder / "log").read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False


class Valkeys:
    """Starts servers; none is left at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.all: list[Valkey] = []

    def start(self, *options: str, config: str = "") -> Valkey:
        self.all.append(Valkey(self._folder / str(len(self.all)), *options, config=config))
        return self.all[-1]


@contextmanager
def valkeys(folder: Path) -> Iterator[Valkeys]:
    started = Valkeys(folder)
    try:
        yield started
    finally:
        for server in started.all:
            server.client.close()
            server.kill()
