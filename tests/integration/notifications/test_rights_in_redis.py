"""A user of Redis with the rights that the documentation states, and no more, is all that unread numbers need."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from project.checkout import CHECKOUT
from tests.integration.conftest import Eventually
from tests.integration.notifications.unread import MARKS, assert_exact, reconciled, redis_at, with_deltas
from tests.valkeys import Valkey, valkeys
from weir.notifications import counters, flush, inbox
from weir.notifications.models import Reconciliation
from weir.redis_link import calls, server_runs
from weir.redis_link.keys import keys

pytestmark = [*MARKS, pytest.mark.usefixtures("looks_at_once")]
PAGE = CHECKOUT / "docs/operations.md"
RIGHTS = re.findall(r"^ACL SETUSER .*$", PAGE.read_text().replace("\\\n", " "), re.MULTILINE)
WITH = ("without a prefix", "with a prefix", "counters only")  # the broker: the rights, in the page's order
PERSISTENCE = {"RDB": ("--save", "3600 1"), "AOF": ("--appendonly", "yes", "--appendfsync", "always")}


def rights(kind: str) -> str:
    """Return the command of the documentation."""
    command: str = RIGHTS[WITH.index(kind)]
    return command


def set_user(server: Valkey, rights: str) -> str:
    """Create the user of the documentation; return a URL with it."""
    server.client.execute_command(*rights.split())
    name, password = rights.split()[2], rights.partition(">")[2].split()[0]
    return f"redis://{name}:{password}@{server.place}/0"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Valkey]:
    with valkeys(tmp_path / "valkeys") as started:
        yield started.start()


@pytest.mark.parametrize("kind", WITH)
def test_a_user_with_the_stated_rights_can_do_everything(server: Valkey, kind: str, settings: Settings) -> None:
    """Add, peek, seal, read, drop, a flush, a pass; even if the server has forgotten the scripts."""
    if kind == "with a prefix":
        settings.WEIR_REDIS_PREFIX = "weir2"
    with redis_at(set_user(server, rights(kind))):
        reconciled()
        assert reconciled().trusted
        inbox.notify_many([1, 2], "news", "Hello")
        sealed = counters.seal()
        assert sealed
        assert counters.read(sealed.epoch).deltas == {1: 1, 2: 1}
        assert with_deltas([1, 2]) == {1, 2}
        assert flush.flush_sealed().users == 2
        server.client.script_flush()
        inbox.notify(1, "news", "Hello")
        assert reconciled().repaired.first == {1: 1}  # the marker is gone, as after a start
        assert reconciled().trusted
        assert inbox.unread_count(1) == 2
    with redis_at(f"redis://{server.place}/0"):
        assert_exact()


def test_a_right_that_is_missing_is_told_and_loses_nothing(server: Valkey) -> None:
    """A key that may not be read is not treated as a key that another program has overwritten."""
    url = set_user(server, rights("counters only"))
    with redis_at(url):
        reconciled()
        assert reconciled().trusted
        inbox.notify_many([1, 2], "news", "Hello")
        for command in ("get", "zmscore"):
            server.client.execute_command("ACL", "SETUSER", "weir", f"-{command}")
            with pytest.raises(counters.RedisUnreachable, match=r"permissions|can't run this command"):
                flush.flush_sealed()
            server.client.execute_command("ACL", "SETUSER", "weir", f"+{command}")
            calls.forget()
        assert_exact()


def test_the_stated_rights_leave_the_server_alone(server: Valkey) -> None:
    """None of them lets an application stop the server, or read other keys than its own."""
    if server.is_redis_6:
        pytest.skip("Redis 6.2 has no ACL DRYRUN")
    for kind in WITH:
        set_user(server, rights(kind))
        name = "weir"
        for command in ("SHUTDOWN", "CONFIG GET dir", "KEYS *", "INFO", "FLUSHALL"):
            assert "permissions" in str(server.client.execute_command("ACL", "DRYRUN", name, *command.split()))
        may_read = server.client.execute_command("ACL", "DRYRUN", name, "GET", "other")
        assert ("permissions" in str(may_read)) == (kind != "without a prefix")


@pytest.mark.parametrize("kept_by", ["RDB", "AOF", "a replica"])
def test_a_start_is_recognised_without_info(kept_by: str, tmp_path: Path, eventually: Eventually) -> None:
    """Scripts are not persisted, nor sent to replicas; the keys, the incarnation among them, are."""
    with valkeys(tmp_path / "valkeys") as started:
        server = started.start(*PERSISTENCE.get(kept_by, ()))
        if server.is_redis_6 and kept_by != "RDB":
            pytest.skip("Redis 6.2 keeps scripts in an AOF and sends them to replicas: its users need +info")
        with redis_at(url := set_user(server, rights(WITH[0]))):
            reconciled()
            run = Reconciliation.objects.get().server_run
            assert run.startswith(server_runs.MARKER)
            assert counters.server_run(run) == run
            incarnation = server.client.get(keys().incarnation)
        if kept_by == "a replica":
            replica = started.start("--replicaof", "127.0.0.1", str(server.port))
            set_user(replica, rights(WITH[0]))
            eventually(lambda: replica.client.get(keys().incarnation) == incarnation, "the replica to have the keys")
            server.kill()
            replica.client.replicaof("NO", "ONE")
            server, url = replica, url.replace(str(server.port), str(replica.port))
        else:
            if kept_by == "RDB":
                server.client.save()
            server.kill()
            server.start()
            set_user(server, rights(WITH[0]))
            assert server.client.get(keys().incarnation) == incarnation
        with redis_at(url):
            assert counters.server_run(run) != run
            reconciled()
            assert server.client.get(keys().incarnation) != incarnation
