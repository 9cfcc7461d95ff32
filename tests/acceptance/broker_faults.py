"""What befalls a cluster's broker for the time of a block: it hangs, is gone, or refuses to write."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import redis

from project import embedded
from tests.acceptance.conftest import Cluster
from tests.waiting import wait_for

FLAP_S = 0.3


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """It accepts connections, and says nothing."""
    pid = _pid(cluster)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def gone(cluster: Cluster) -> Iterator[None]:
    """Nobody listens on its socket."""
    cluster.stop_broker()
    yield
    cluster.start_broker()


@contextmanager
def refusing(cluster: Cluster) -> Iterator[None]:
    """It answers what only reads, and MISCONF to all else: it could not save its data."""
    with _client(cluster) as client:
        client.set("to be saved", 1)
        client.config_set("rdb-key-save-delay", 1_000_000)  # in microseconds
        client.config_set("save", "3600 1")
        client.bgsave()
        for saving in psutil.Process(_pid(cluster)).children():
            saving.kill()
        wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", 10, "MISCONF")
        try:
            yield
        finally:
            client.config_set("save", "")


@contextmanager
def refusing_at_times(cluster: Cluster) -> Iterator[None]:
    """As `refusing`, but every other moment it takes what it is told: its disk is nearly full."""
    ends = threading.Event()

    def flap() -> None:
        with _client(cluster) as client:
            while not ends.wait(FLAP_S):
                client.config_set("save", "" if client.config_get("save")["save"] else "3600 1")

    thread = threading.Thread(target=flap, daemon=True)
    with refusing(cluster):
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()


def _client(cluster: Cluster) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home)))


def _pid(cluster: Cluster) -> int:
    with _client(cluster) as client:
        return int(client.info("server")["process_id"])
