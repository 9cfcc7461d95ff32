"""Two installations on one Redis database, with two prefixes, do not see each other's messages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Cluster
from tests.forked import Forked
from tests.valkeys import Valkey, valkeys
from tests.waiting import wait_for
from weir.workers import task_names

OURS, THEIRS = "shop", "staging"


@pytest.fixture
def server(tmp_path: Path, cluster: Cluster) -> Iterator[Valkey]:
    with valkeys(tmp_path / "valkeys") as started:
        made = started.start()
        cluster.environment["REDIS_URL"] = f"redis://{made.place}/0"
        yield made
        cluster.stop()


def celery(cluster: Cluster, prefix: str, *arguments: str) -> str:
    """Execute a command of Celery's in the installation with this prefix."""
    environment = {**cluster.environment, "WEIR_REDIS_PREFIX": prefix}
    command = Forked("-m", "celery", "-A", "project", *arguments, environment=environment)
    output, _ = command.communicate()
    assert command.returncode == 0
    return output


def start_worker(cluster: Cluster, prefix: str) -> None:
    cluster.environment["WEIR_REDIS_PREFIX"] = prefix
    cluster.start("worker", f"worker-{prefix}")


def test_a_worker_takes_messages_of_its_own_installation_only(cluster: Cluster, server: Valkey) -> None:
    """Those of the other wait for its own worker; nor is one installation's worker asked by the other."""
    start_worker(cluster, OURS)
    for _ in range(2):
        celery(cluster, THEIRS, "call", task_names.HEARTBEAT, "--queue", "default", "--args", '["default"]')
    celery(cluster, OURS, "call", task_names.HEARTBEAT, "--queue", "default", "--args", '["default"]')
    wait_for(lambda: server.client.llen(f"{OURS}:default") == 0, 20, "our worker to take our message")
    assert server.client.llen(f"{THEIRS}:default") == 2
    assert f"worker-{OURS}@" in celery(cluster, OURS, "inspect", "active_queues")
    start_worker(cluster, THEIRS)
    wait_for(lambda: server.client.llen(f"{THEIRS}:default") == 0, 20, "their worker to take their messages")
    answered = celery(cluster, THEIRS, "inspect", "active_queues")
    assert f"worker-{THEIRS}@" in answered
    assert f"worker-{OURS}@" not in answered
    assert all(key.startswith((f"{OURS}:", f"{THEIRS}:", "{")) for key in server.client.scan_iter())
