"""Transactions that are prepared, and committed later by any session: PREPARE TRANSACTION, COMMIT PREPARED."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import StartPython
from tests.integration.notifications.own_postgres import OwnPostgres, own_postgres

pytestmark = pytest.mark.usefixtures("valkey")

EXERCISE = """
import json, time
from django.core.management import call_command
from django.db import connection, transaction

for label in ("weir_timeline", "weir_notifications"):
    call_command("migrate", label, verbosity=0)
from weir.notifications import flush, inbox, reconcile
from weir.notifications.inbox import read_marks
from weir.notifications.maintenance import forgetting
from weir.notifications.reconciliation import drift
from weir.notifications.models import ForgottenUser, Notification
from weir.notifications.reconciliation import changed
from project.doctor.themes.postgresql import OLDEST_SNAPSHOT
from weir.ops.metrics.parts.database import DATABASE_SESSIONS

drift.APART_S = changed.SETTLED_S = 0.0
inbox.writing.MOST_MARKED = 1
found = {}
users = [1, 2, 3]

def sql(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)

def prepared(name, act):
    # psycopg finds no transaction to commit at the end, and Django runs the hooks
    with transaction.atomic():
        act()
        sql(f"PREPARE TRANSACTION '{name}'")

def rows():
    return {user: Notification.objects.unread().filter(user_id=user).count() for user in users}

def exact():
    flush.flush_sealed()
    for _ in range(2):
        reconcile.run_pass()
    seen = drift.look(users)
    return not seen.differing and inbox.unread_counts(users) == rows()

def told():
    holders = {(kind, name) for kind, _, name, *_ in OLDEST_SNAPSHOT()}
    [(age_s, *_)] = DATABASE_SESSIONS()
    return ("prepared", "one") in holders and age_s > 0

assert reconcile.run_pass().trusted
inbox.notify_many([*users, *users], "news", "before")
inbox.notify_many(users, "news", "before")
prepared("one", lambda: inbox.notify_many(users, "news", "prepared"))
found["told to operators"] = told()
found["sent too early"] = inbox.unread_count(1) - rows()[1]
found["exact while prepared"] = exact()
inbox.notify_many(users, "news", "with a higher id")
assert inbox.mark_all_read(2) == 3
forgetting.forget_user(3)
flush.flush_sealed()
found["forgotten while prepared"] = forgetting.finish()
found["exact for those who read"] = exact()
sql("COMMIT PREPARED 'one'")
found["rows after the commit"] = rows()
read_marks.settle()
found["exact after the commit"] = exact()
found["forgotten"] = forgetting.finish()
for _ in range(1000):  # a transaction of any database of the cluster holds up the notes
    if found["forgotten"]:
        break
    flush.flush_sealed()
    found["forgotten"] += forgetting.finish()
found["rows in the end"] = rows()
found["exact in the end"] = exact()
prepared("two", lambda: inbox.mark_all_read(1))
assert exact()
sql("ROLLBACK PREPARED 'two'")
found["exact after a rollback"] = exact()
print(json.dumps(found))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnPostgres]:
    with own_postgres(tmp_path / "home", max_prepared_transactions="5") as started:
        yield started


def test_a_prepared_transaction(server: OwnPostgres, start_python: StartPython) -> None:
    """It counts as open: numbers follow its commit, read marks do not cover it, forgetting waits for it.

    Doctor and metrics report it, because it keeps dead rows.
    """
    process = start_python(EXERCISE, environment=server.create_database("prepared"))
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    assert json.loads(said.splitlines()[-1]) == {
        "told to operators": True,
        "sent too early": 1,  # Django treats PREPARE as the end
        "exact while prepared": True,
        "forgotten while prepared": 0,
        "exact for those who read": True,
        "rows after the commit": {"1": 4, "2": 1, "3": 1},
        "exact after the commit": True,
        "forgotten": 1,
        "rows in the end": {"1": 4, "2": 1, "3": 0},
        "exact in the end": True,
        "exact after a rollback": True,
    }
