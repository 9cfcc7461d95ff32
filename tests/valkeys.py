"""Valkeys of a test's own, on ports of the loopback address, with whatever options it needs."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from demo.fakes.children import die_with_parent
from project.embedded.valkey import _valkey_binary

READY_WITHIN_S = 20


def free_port() -> int:
    """Return a port that is free, as is the one 10,000 above it, which a cluster's node needs."""
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

    @property
    def is_redis_6(self) -> bool:
        """Return whether it is a Redis older than 7.0, which differs in scripts and in rights."""
        return str(self.client.info("server")["redis_version"]).startswith("6.")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", "")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(_valkey_binary()), str(self._config), *options, *self._options],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread starts processes here
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

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def forget(self) -> None:
        """Delete what it has on disk, while it does not run."""
        shutil.rmtree(self._folder / "appendonlydir", ignore_errors=True)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False


class Valkeys:
    """Starts servers, all of which have ended at the end."""

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


def sentinels(servers: Valkeys, port: int) -> list[Valkey]:
    """Return three Sentinels that watch the primary on this port, as `orders`."""
    config = f"""
        sentinel monitor orders 127.0.0.1 {port} 2
        sentinel down-after-milliseconds orders 1000
        sentinel failover-timeout orders 5000
    """
    return [servers.start("--sentinel", config=config) for _ in range(3)]


def knows(sentinel: Any, *, sentinels: int, replicas: int = 0) -> bool:
    """Return whether a Sentinel has found this many others, and replicas."""
    state = sentinel.sentinel_master("orders")
    return bool(state["num-slaves"] == replicas and state["num-other-sentinels"] == sentinels)
