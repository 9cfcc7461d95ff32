"""Redis by TLS, with Sentinels, and with few rights, under load: all goes on, and each key is one of ours."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.acceptance import all_jobs, under_load
from tests.acceptance.conftest import Cluster
from tests.integration.notifications.test_rights_in_redis import rights
from tests.integration.notifications.tls_front import fronts
from tests.valkeys import Valkey, Valkeys, knows, sentinels, valkeys
from tests.waiting import wait_for
from weir.workers.recovery.models import Recovery

AT_LENGTH = "WEIR_FAULTS" in os.environ
FAULTS = 10 if AT_LENGTH else 1
GOES_ON_WITHIN_S = 15.0
PREFIX = "shop"
USER = rights("with a prefix").removeprefix("ACL SETUSER ").replace("weir2", PREFIX)
LOGIN = "weir:PASSWORD"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Valkeys]:
    with valkeys(tmp_path / "valkeys") as started:
        yield started


def use(cluster: Cluster, settings: Settings, url: str) -> None:
    """Let the cluster and this process use a Redis, with our prefix."""
    cluster.environment |= {"REDIS_URL": url, "WEIR_REDIS_PREFIX": PREFIX}
    settings.REDIS_URL, settings.WEIR_REDIS_PREFIX = url, PREFIX
    all_jobs.forget()


def strange_keys(server: Valkey) -> list[str]:
    """Return the keys that do not begin with our prefix; states that there are others."""
    keys = server.client.keys()
    ours = [key for key in keys if key.startswith((f"{PREFIX}:", f"{{{PREFIX}:"))]
    assert len({key.startswith("{") for key in ours}) == 2, f"of unread numbers, and of Celery: {ours}"
    return sorted({*keys} - {*ours})


def refused(server: Valkey) -> list[object]:
    """Return what the user may not, and has tried; but for INFO, without which a pass gets by."""
    return [(entry["reason"], entry["object"]) for entry in server.client.acl_log() if entry["object"] != "info"]


@pytest.mark.faults
def test_all_jobs_with_few_rights_by_tls(
    cluster: Cluster, servers: Valkeys, mails: MailServer, settings: Settings, tmp_path: Path
) -> None:
    """The server is killed and comes back empty; its user may use keys and channels with the prefix only."""
    server = servers.start(config=f"user {USER}\n")
    with fronts(tmp_path) as tls:
        port = tls.start(server.port, only_tls=True)
        use(cluster, settings, f"rediss://{LOGIN}@127.0.0.1:{port}/0?ssl_ca_certs={tls.certificate}")
        strange, denied = [], []

        def die() -> None:
            strange.extend(strange_keys(server))
            denied.extend(refused(server))
            server.kill()
            server.start()

        under_load.run(cluster, mails, FAULTS, die).check(GOES_ON_WITHIN_S)
        cluster.stop()
        assert strange + strange_keys(server) == []
        assert denied + refused(server) == []
        assert tls.by_tls == {server.port}
    assert not Recovery.objects.exists()


@pytest.mark.faults
def test_all_jobs_go_on_after_each_fail_over(
    cluster: Cluster, servers: Valkeys, mails: MailServer, settings: Settings
) -> None:
    """Three Sentinels promote the replica, which may lack the last changes."""
    both = [servers.start(config=f"user {USER}\n") for _ in range(2)]
    both[1].client.replicaof("127.0.0.1", both[0].port)
    watching = sentinels(servers, both[0].port)
    places = ",".join(sentinel.place for sentinel in watching)
    primary = both[0]

    def all_well() -> bool:
        replica = next(server for server in both if server is not primary)
        return replica.client.info("replication").get("master_link_status") == "up" and all(
            knows(sentinel.client, sentinels=2, replicas=1) for sentinel in watching
        )

    def die() -> None:
        wait_for(all_well, 60, "the replica, and the Sentinels to know each other")
        primary.kill()

    def come_back() -> None:
        nonlocal primary
        primary.start()
        primary = next(server for server in both if server is not primary)

    use(cluster, settings, f"redis+sentinel://{LOGIN}@{places}/orders/0")
    under_load.run(cluster, mails, FAULTS, die, come_back).check(GOES_ON_WITHIN_S)
    cluster.stop()
    assert strange_keys(primary) == []
    assert not Recovery.objects.exists()
