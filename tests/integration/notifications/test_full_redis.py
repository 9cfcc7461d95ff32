"""A Redis without free memory (`noeviction`): what docs/operations.md says about it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.notifications.unread import (
    MARKS,
    assert_exact,
    kept,
    reconciled,
    redis_at,
    unread_rows,
    with_deltas,
)
from tests.valkeys import Valkey, valkeys
from weir.notifications import flush, inbox
from weir.notifications.models import Doubt
from weir.redis_link import calls
from weir.workers.recovery import witness

pytestmark = [*MARKS, pytest.mark.usefixtures("looks_at_once")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Valkey]:
    """Yield a trusted Redis with deltas that is full by then."""
    with valkeys(tmp_path / "valkeys") as started:
        server = started.start("--maxmemory-policy", "noeviction")
        with redis_at(f"redis://{server.place}/0"):
            reconciled()
            inbox.notify_many([1, 2], "news", "Hello")
            server.client.config_set("maxmemory", 1)
            yield server


def doubted() -> set[int]:
    return set(Doubt.objects.values_list("pk", flat=True))


def test_changes_become_doubts_and_what_is_there_is_flushed(server: Valkey) -> None:
    """A flush writes nothing that needs memory, and frees some."""
    inbox.notify(1, "news", "Hello")
    calls.forget()  # the outage
    assert doubted() == {1}
    assert flush.flush_sealed().users == 2
    assert with_deltas([1, 2]) == set()
    assert kept([1, 2]) == {1: 1, 2: 1}
    assert inbox.unread_counts([1, 2]) == {1: 2, 2: 1}
    assert reconciled().repaired.first == {1: 1}
    assert doubted() == set()
    server.client.config_set("maxmemory", 0)
    inbox.notify(1, "news", "Hello")
    assert_exact()


def test_a_mark_that_it_has_no_room_for_is_no_outage(server: Valkey) -> None:
    """Each process asks once a second for the mark of PostgreSQL's history: that must not make anything else fail."""
    assert witness.remember(7) == 0
    assert flush.flush_sealed().users == 2
    server.client.config_set("maxmemory", 0)
    assert witness.remember(7) == 7
    server.client.config_set("maxmemory", 1)
    assert witness.remember(9) == 7


def test_one_that_lost_its_memory_is_reconciled_while_it_is_full(server: Valkey) -> None:
    """There is room for the few bytes of an epoch."""
    server.client.flushall()
    flush.flush_sealed()
    assert inbox.unread_counts([1, 2]) == unread_rows(1, 2)
    assert reconciled().trusted
    inbox.notify(1, "news", "Hello")
    calls.forget()
    assert inbox.unread_counts([1, 2]) == {1: 2, 2: 1}
    reconciled()
    assert_exact()
