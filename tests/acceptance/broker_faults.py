"""What befalls a cluster's broker for the time of a block: it hangs, is gone, or refuses to write."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from project import embedded
from tests.acceptance.conftest import Cluster
from tests.waiting import wait_for


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
    """It answers what only reads, and MISCONF to all else: it could not write its files."""
    with _client(cluster) as client:
        of_files = resource.prlimit(_pid(cluster), resource.RLIMIT_FSIZE)
        resource.prlimit(_pid(cluster), resource.RLIMIT_FSIZE, (0, of_files[1]))
        client.config_set("save", "3600 1")
        client.bgsave()
        wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", 10, "MISCONF")
        try:
            yield
        finally:
            resource.prlimit(_pid(cluster), resource.RLIMIT_FSIZE, of_files)
            client.config_set("save", "")


def _client(cluster: Cluster) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home)))


def _pid(cluster: Cluster) -> int:
    with _client(cluster) as client:
        return int(client.info("server")["process_id"])
