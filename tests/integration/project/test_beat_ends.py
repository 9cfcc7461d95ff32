"""A beat of the Procfile that is asked to end while it waits for PostgreSQL: it ends, and gives up its lease."""

import signal

import pytest
from django.db import connection, transaction

from tests.integration.conftest import Eventually
from tests.integration.project.conftest import Procfile
from weir.workers.models import BeatLease
from weir.workers.processes.models import Process

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "test-beat-ends"
END_WITHIN_S = 10


def sessions(that: str = "TRUE") -> set[int]:
    """Return the beat's sessions in PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction is shown what it has seen first
        cursor.execute(f"SELECT pid FROM pg_stat_activity WHERE application_name = %s AND {that}", [NAME])
        return {pid for (pid,) in cursor.fetchall()}


def waiting() -> set[int]:
    """Return those of them that wait for a row that another transaction has locked."""
    return sessions("wait_event_type = 'Lock'")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("held_up_by", [BeatLease, Process])
def test_a_beat_ends_while_its_statement_waits(
    procfile: Procfile, eventually: Eventually, number: int, held_up_by: type[BeatLease | Process]
) -> None:
    """The signal comes while beat holds the locks of what it does: its connection's, and its presence's."""
    url = procfile.environment["DATABASE_URL"]
    sign = "&" if "?" in url else "?"
    beat = procfile.start("beat", DATABASE_URL=f"{url}{sign}application_name={NAME}")
    eventually(lambda: BeatLease.objects.exists() and Process.objects.exists(), "beat to have the lease")

    with transaction.atomic():
        held_up_by.objects.select_for_update().get()
        eventually(waiting, "beat to wait")
        [interrupted] = waiting()
        beat.send_signal(number)
        eventually(lambda: sessions() - {interrupted}, "beat to give up its lease by another connection")
    assert beat.wait(END_WITHIN_S) == 0
    assert not BeatLease.objects.exists()
    assert not Process.objects.exists()
