"""Redis as several servers: Sentinels that fail over, and a cluster that moves slots, while numbers change."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.db import connection
from kombu import Connection

from project.doctor.findings import Verdict
from project.doctor.themes import redis_server
from project.environment import urls
from tests.integration.conftest import Eventually
from tests.integration.notifications.tls_front import fronts
from tests.integration.notifications.unread import MARKS, reconciled, redis_at, unread_rows, with_deltas
from tests.valkeys import Valkey, Valkeys, knows, sentinels, valkeys
from weir.notifications import counters, flush, inbox
from weir.notifications.models import Doubt, Reconciliation
from weir.notifications.reconciliation import drift
from weir.redis_link import calls, keys

pytestmark = [*MARKS, pytest.mark.usefixtures("looks_at_once")]
USERS = range(1, 6)
SLOTS = 16_384
CLUSTER = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Valkeys]:
    with valkeys(tmp_path / "valkeys") as started:
        yield started


@contextmanager
def changes() -> Iterator[None]:
    """Let another thread change numbers all the time."""
    stop = threading.Event()

    def change() -> None:
        try:
            while not stop.is_set():
                inbox.notify_many(USERS, "news", "Hello")
                inbox.mark_all_read(1)
        finally:
            connection.close()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def answers() -> bool:
    """Return whether this process finds its Redis."""
    calls.forget()
    with suppress(counters.RedisUnreachable):
        return bool(counters.peek(USERS).incarnation)
    return False


def right() -> bool:
    """Run a pass, and return whether all numbers are right without counting rows."""
    calls.forget()
    if not reconciled().trusted or Doubt.objects.exists():
        return False
    seen = drift.look(USERS)
    return not seen.differing and not seen.moving


def exact() -> bool:
    """Return whether all numbers are right by deltas and stored numbers, before and after a flush."""
    before = drift.look(USERS)
    flush.flush_sealed()
    after = drift.look(USERS)
    return not (before.differing or before.moving or after.differing or after.moving)


def do_everything() -> None:
    """Add, peek, seal, read, drop, a flush, and a pass."""
    reconciled()
    inbox.notify_many(USERS, "news", "Hello")
    sealed = counters.seal()
    assert sealed
    assert counters.read(sealed.epoch).deltas == dict.fromkeys(USERS, 1)
    inbox.notify(1, "news", "Hello")
    assert with_deltas(USERS) == set(USERS)
    assert flush.flush_sealed().users == 6
    assert reconciled().repaired.first == {}
    assert inbox.unread_counts(USERS) == unread_rows()
    assert exact()


# --- Sentinel -------------------------------------------------------------------------------------


def test_a_fail_over_by_sentinels_while_numbers_change(servers: Valkeys, eventually: Eventually) -> None:
    """The promoted server is another run: rows are counted, all users are compared, and numbers are right again."""
    primary = servers.start()
    replica = servers.start("--replicaof", "127.0.0.1", str(primary.port))
    watching = sentinels(servers, primary.port)
    places = ",".join(sentinel.place for sentinel in watching)
    eventually(lambda: replica.client.info("replication")["master_link_status"] == "up", "the replica")
    for sentinel in watching:
        eventually(
            lambda client=sentinel.client: knows(client, sentinels=2, replicas=1), "the Sentinels to know each other"
        )
    with redis_at(url := f"redis+sentinel://{places}/orders"):
        do_everything()
        before = Reconciliation.objects.get()
        # Its link is up before anything is sent over it. Without the incarnation numbers wait for a pass, as below.
        eventually(lambda: replica.client.exists(keys.keys().incarnation), "the replica to have the keys")
        with changes():
            primary.kill()
            eventually(lambda: replica.client.info("replication")["role"] == "master", "the fail-over", seconds=60)
            eventually(answers, "this process to find the new primary")
        rows = unread_rows()
        eventually(right, "the numbers to be right")
        after = Reconciliation.objects.get()
        assert (before.server_run == after.server_run, before.incarnation == after.incarnation) == (False, False)
        assert inbox.unread_counts(USERS) == rows == unread_rows()
        assert exact()

    options = urls.broker_options("", url)
    with Connection(urls.broker("", url) or "", transport_options=options) as broker:
        broker.SimpleQueue("orders").put({"number": 1})
    assert replica.client.llen("orders") == 1


def test_sentinels_that_speak_tls(servers: Valkeys, tmp_path: Path, eventually: Eventually) -> None:
    """They and the primary must prove who they are; none is asked without TLS."""
    with fronts(tmp_path) as tls:
        primary = servers.start()
        of_primary = tls.start(primary.port)  # Sentinels watch it there without TLS
        watching = sentinels(servers, of_primary)
        places = ",".join(f"127.0.0.1:{tls.start(sentinel.port, only_tls=True)}" for sentinel in watching)
        for sentinel in watching:
            eventually(lambda client=sentinel.client: knows(client, sentinels=2), "the Sentinels to know each other")
        with redis_at(f"rediss+sentinel://{places}/orders?ssl_ca_certs={tls.certificate}"):
            do_everything()
        assert tls.by_tls == {primary.port, watching[0].port}
        with redis_at(f"rediss+sentinel://{places}/orders"), pytest.raises(counters.RedisUnreachable):
            counters.peek(USERS)
        with redis_at(f"redis+sentinel://{places}/orders"), pytest.raises(counters.RedisUnreachable):
            counters.peek(USERS)


# --- Cluster --------------------------------------------------------------------------------------


@pytest.fixture
def cluster(servers: Valkeys, eventually: Eventually) -> list[Valkey]:
    """Return three nodes, which share the slots."""
    nodes = [servers.start(*CLUSTER) for _ in range(3)]
    bounds = [place * SLOTS // 3 for place in range(4)]
    for number, node in enumerate(nodes):
        node.client.execute_command("CLUSTER ADDSLOTS", *range(bounds[number], bounds[number + 1]))
        node.client.execute_command("CLUSTER MEET", "127.0.0.1", nodes[0].port)
    for node in nodes:
        eventually(
            lambda client=node.client: (
                client.cluster("INFO").items()
                >= {"cluster_state": "ok", "cluster_known_nodes": "3", "cluster_slots_ok": str(SLOTS)}.items()
            ),
            "the cluster",
        )
    return nodes


def holders(nodes: list[Valkey]) -> list[Valkey]:
    """Return the node that has our slot, then the others."""
    slot = nodes[0].client.execute_command("CLUSTER KEYSLOT", keys.keys().epoch)
    return sorted(nodes, key=lambda node: not has(node, slot))


def has(node: Valkey, slot: int) -> bool:
    mine = node.client.execute_command("CLUSTER MYID")
    for first, last, holder, *_ in node.client.execute_command("CLUSTER SLOTS"):
        if first <= slot <= last:
            return bool(holder[2] == mine)
    return False


def kept(node: Valkey) -> set[str]:
    """Return the keys of a node, without those that exist only at times: of calls, of PostgreSQL, and for polls."""
    ours = keys.keys()
    found = set(node.client.scan_iter()) - {ours.calls, ours.mark, ours.watch}
    return {name for name in found if not name.startswith(ours.past)}


def test_a_cluster_has_all_of_it_on_one_node(cluster: list[Valkey]) -> None:
    """This holds whichever node the URL begins with."""
    for first in range(3):
        places = [node.place for node in cluster[first:] + cluster[:first]]
        with redis_at(f"redis+cluster://{','.join(places)}"):
            do_everything()
    holder, *others = holders(cluster)
    assert kept(holder) == {keys.keys().epoch, keys.keys().incarnation}
    assert [node.client.dbsize() for node in others] == [0, 0]


def test_a_slot_that_moves_to_another_node_while_numbers_change(cluster: list[Valkey], eventually: Eventually) -> None:
    """The other node is another run; nothing is lost or counted twice afterwards."""
    holder, other, _ = holders(cluster)
    if not any("MIGRATESLOTS" in line for line in holder.client.execute_command("CLUSTER HELP")):
        pytest.skip("this server moves no slots by itself: Valkey 9 does")
    slot = holder.client.execute_command("CLUSTER KEYSLOT", keys.keys().epoch)
    to = other.client.execute_command("CLUSTER MYID")
    with redis_at(f"redis+cluster://{holder.place}"):
        do_everything()
        run = Reconciliation.objects.get().server_run
        with changes():
            holder.client.execute_command("CLUSTER MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", to)
            eventually(lambda: has(other, slot), "the slot to move")
            calls.forget()
            eventually(lambda: other.client.dbsize() >= 2, "the keys")
            counters.peek(USERS)
        rows = unread_rows()
        eventually(right, "the numbers to be right")
        assert Reconciliation.objects.get().server_run != run
        assert inbox.unread_counts(USERS) == rows == unread_rows()
        assert exact()
        assert kept(other) == {keys.keys().epoch, keys.keys().incarnation}


def kill(node: Valkey, *others: Valkey) -> None:
    """Kill a node; the others go on with the slots that they have."""
    for other in others:
        other.client.config_set("cluster-require-full-coverage", "no")
    node.kill()


class Resharding:
    """A slot that moves to another node key by key, as with `--cluster reshard`, while clients are redirected."""

    def __init__(self, nodes: list[Valkey]) -> None:
        self.source, self.target, self._third = holders(nodes)
        self.slot = self.source.client.execute_command("CLUSTER KEYSLOT", keys.keys().epoch)
        self._to = self.target.client.execute_command("CLUSTER MYID")
        source = self.source.client.execute_command("CLUSTER MYID")
        self.target.client.execute_command("CLUSTER SETSLOT", self.slot, "IMPORTING", source)
        self.source.client.execute_command("CLUSTER SETSLOT", self.slot, "MIGRATING", self._to)

    def move(self, most: int) -> int:
        """Move some keys that are still there; return how many."""
        moving = self.source.client.execute_command("CLUSTER GETKEYSINSLOT", self.slot, most)
        for key in moving:
            self.source.client.execute_command("MIGRATE", "127.0.0.1", self.target.port, key, 0, 5000)
        return len(moving)

    def end(self) -> None:
        """Assign the slot to the other node."""
        for node in (self.target, self.source, self._third):
            node.client.execute_command("CLUSTER SETSLOT", self.slot, "NODE", self._to)


def test_a_node_that_has_given_away_all_keys_of_a_slot_asks_to_ask_the_other(cluster: list[Valkey]) -> None:
    """The change is added there, although the slot does not belong to that node yet."""
    with redis_at(f"redis+cluster://{cluster[0].place}"):
        do_everything()
        inbox.notify(1, "news", "before")
        resharding = Resharding(cluster)
        while resharding.move(10):
            pass
        inbox.notify(1, "news", "meanwhile")
        inbox.notify(2, "news", "meanwhile")
        resharding.end()
        inbox.notify(2, "news", "afterwards")
        assert not Doubt.objects.exists()
        peek = counters.peek(USERS)
        assert [peek.after(0, user) for user in (1, 2, 3)] == [2, 2, 0]
        assert inbox.unread_counts(USERS) == unread_rows()
        assert exact()


def test_a_slot_that_moves_key_by_key_while_numbers_change(cluster: list[Valkey], eventually: Eventually) -> None:
    """While keys are on two nodes, no call is answered: users become doubts, and rows are counted."""
    with redis_at(f"redis+cluster://{cluster[0].place}"):
        do_everything()
        with changes():
            resharding = Resharding(cluster)
            eventually(lambda: not resharding.move(1), "the keys to move")
            resharding.end()
            eventually(answers, "the other node")
        rows = unread_rows()
        assert inbox.unread_counts(USERS) == rows
        eventually(right, "the numbers to be right")
        assert inbox.unread_counts(USERS) == rows == unread_rows()
        assert exact()
        assert kept(resharding.target) == {keys.keys().epoch, keys.keys().incarnation}


def test_a_node_that_does_not_answer_is_passed_by(cluster: list[Valkey]) -> None:
    """As long as another node of the URL answers, and the one with our keys."""
    holder, other, third = holders(cluster)
    kill(third, holder, other)
    with redis_at(f"redis+cluster://{third.place},{other.place}"):
        do_everything()


# --- doctor ---------------------------------------------------------------------------------------


def judged() -> list[tuple[str, str]]:
    """Return what doctor says about Redis: levels, and sentences."""
    checks = [check for check in redis_server.checks() if redis_server.SERVER in (*check.needs, check.provides)]
    verdicts = [check.ask() for check in checks]
    return [(verdict.level, verdict.sentence) for verdict in verdicts if isinstance(verdict, Verdict)]


@pytest.mark.parametrize("first", ["the node with our keys", "another node", "a node that is down"])
def test_doctor_judges_the_node_with_our_keys(first: str, cluster: list[Valkey]) -> None:
    """Whichever node the URL begins with, and whether that answers."""
    holder, other, third = holders(cluster)
    holder.client.config_set("maxmemory-policy", "allkeys-lru")
    kill(third, holder, other)
    begin = {"the node with our keys": holder, "another node": other, "a node that is down": third}[first]
    places = dict.fromkeys((begin.place, other.place))
    with redis_at(f"redis+cluster://{','.join(places)}"):
        (level, sentence), *others = judged()
    assert level == ("warning" if begin is third else "good")
    assert (third.place in sentence) == (begin is third)
    assert [at_node for at_node, said in others if "allkeys-lru" in said] == ["warning"]
    assert {at_node for at_node, said in others if "allkeys-lru" not in said} == {"good"}


def test_doctor_says_that_the_node_with_our_keys_is_down(cluster: list[Valkey]) -> None:
    """Even if others answer."""
    holder, other, third = holders(cluster)
    kill(holder, other, third)
    with redis_at(f"redis+cluster://{other.place}"), pytest.raises(counters.RedisUnreachable):
        judged()
