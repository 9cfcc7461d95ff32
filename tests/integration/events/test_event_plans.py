"""Reading and keeping the log cost what is read and moved, however much there is, whatever the statistics say."""

from uuid import uuid4

import pytest
from django.db import connection

from tests.integration.plans import plan_of, rows_read
from weir.workers.events.models import Event, EventLog

pytestmark = pytest.mark.django_db(transaction=True)
ROOM = "weir.workers.events"
TABLES = ("weir_events_event", "weir_events_newevent")
# An e-mail, and an effect, for a hundred fetches.
FILL = """
    INSERT INTO {} (subject, subject_id, state, at)
    SELECT CASE n %% 100 WHEN 0 THEN 'email' WHEN 1 THEN 'effect' ELSE 'fetch' END, n, 'done', now() - interval '1 day'
    FROM generate_series(1, 20000) AS n
"""


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_statement_reads_more_than_it_has_to(*, analyzed: bool) -> None:
    EventLog.objects.create(key=uuid4())
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(FILL.format(table).replace("%%", "%"))
            if analyzed:
                cursor.execute(f"ANALYZE {table}")
    middle = Event.objects.order_by("pk")[10_000].pk
    asked: dict[str, object] = {"after": middle, "most": 50}
    none = {"fetches": False, "emails": False, "effects": False}
    for subjects in (["fetches"], ["emails"], ["effects"], list(none)):
        wanted = {**asked, **none, **dict.fromkeys(subjects, True)}
        assert rows_read(ROOM, "after", wanted, *TABLES) <= 50 * len(subjects), subjects
    assert rows_read(ROOM, "newest", {}, *TABLES) <= 1
    # Those that are moved are read twice, and inserted; those that are deleted are read twice.
    assert rows_read(ROOM, "append", {"batch": 100}, *TABLES) <= 300
    assert rows_read(ROOM, "purge", {"batch": 100, "older_than": 60.0}, *TABLES) <= 300
    scans = {
        node.get("Relation Name") for node in plan_of(ROOM, "append", {"batch": 100}) if node["Node Type"] == "Seq Scan"
    }
    assert scans <= {"weir_events_eventlog"}
