"""Text keys in a database that does not sort by bytes: pages leave out no user, and locks have one order."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import StartPython
from tests.integration.notifications.own_postgres import LOCALE, OwnPostgres, english, own_postgres
from tests.integration.notifications.people import people

pytestmark = pytest.mark.usefixtures("valkey")
# By bytes all capitals come first, and umlauts last.
KEYS = ["a", "B", "A", "b", "z", "Z", "Ä", "é", "_", "co-op", "coop", "Co-op", "10", "9"]

EXERCISE = """
import json, threading
from itertools import islice
import psycopg
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, connections

for label in ("weir_timeline", "weir_notifications"):
    call_command("migrate", label, verbosity=0)
from weir.conf import settings
from weir.notifications import changes, flush, inbox, reconcile, user_keys
from weir.notifications.inbox import read_marks
from weir.notifications.maintenance import forgetting
from weir.notifications.inbox import reading
from weir.notifications.models import Doubt, ForgottenUser, Notification, UnreadCount
from weir.notifications.reconciliation import doubts, drift, full_scan, page
from weir.postgres import moments

keys = json.loads(sys.argv[1])
if settings.WEIR_USER_FOREIGN_KEY:
    get_user_model().objects.bulk_create(get_user_model()(pk=key, username=key) for key in keys)
found = {}
assert reconcile.run_pass().trusted

# --- pages: of one user each, or of as many as have two rows

def scanned():
    return sorted(user for part in islice(full_scan.pages(), 100) for user in part.users)

Notification.objects.bulk_create(Notification(user_id=key, kind="a", title="b") for key in keys)
flush.flush_sealed()
with connection.cursor() as cursor:
    cursor.execute("UPDATE weir_notifications_unreadcount SET unread_count = unread_count + 7")
page.USERS = 1
found["scan by users"] = scanned()
page.USERS, page.ROWS = 20_000, 2
found["scan by rows"] = scanned()
page.USERS = 1
changes.NOTE_DOUBTS_WITHIN(users=user_keys.array(keys))
Doubt.objects.update(noted_at=moments.now())
found["doubts"] = sorted(user for part in doubts.pages() for user in part.users)
doubts.clear({doubt.user_id: doubt.noted_at for doubt in Doubt.objects.all()})
forgetting.USERS_AT_ONCE = 1
for key in keys:
    forgetting.NOTE_FORGETTING(user=key)
found["forgotten"] = sorted(user.user_id for part in forgetting._pages(float("inf")) for user in part)
ForgottenUser.objects.all().delete()

# --- the order of locks

other = psycopg.connect(**{**connection.get_connection_params(), "cursor_factory": psycopg.Cursor})

def waits():
    return other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0]

def locks_in_order(lock, act):
    '''Tell whether `act` locks nothing of the last user while it waits for the first.'''
    lock(first)
    def run():
        try:
            act()
        finally:
            connections.close_all()
    thread = threading.Thread(target=run)
    thread.start()
    while not waits():
        pass
    try:
        lock(last)
        return True
    except psycopg.errors.LockNotAvailable:
        return False
    finally:
        other.rollback()
        thread.join()

def row_of(table):
    return lambda user: other.execute(f"SELECT FROM {table} WHERE user_id = %s FOR UPDATE NOWAIT", [user])

def telling(user):
    other.execute("SET LOCAL lock_timeout = '300ms'")
    other.execute(
        "INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, dedupe_key)"
        " VALUES (%s, '', '', '', '', 'k')", [user]
    )

two = ["a", "B"]
first, last = UnreadCount.objects.filter(pk__in=two).order_by("user_id").values_list("user_id", flat=True)
found["first"] = first

def run(statement, **parameters):
    return lambda: statement(users=user_keys.array(two), **parameters)

run(changes.NOTE_DOUBTS_WITHIN)()
noted = [Doubt.objects.get(pk=key).noted_at for key in two]
[epoch] = {UnreadCount.objects.get(pk=key).epoch for key in two}
number, doubt = row_of("weir_notifications_unreadcount"), row_of("weir_notifications_doubt")
found["locks"] = {
    "clear": locks_in_order(doubt, run(doubts.CLEAR_DOUBTS, noted=noted)),
    "repair": locks_in_order(number, run(drift.REPAIR, drifts=[1, 1], unread_counts=[8, 8], epochs=[epoch] * 2)),
    "apply": locks_in_order(number, run(flush.APPLY_EPOCH, epoch=epoch + 1, deltas=[1, 1], cap=0)),
}
run(changes.NOTE_DOUBTS_WITHIN)()
found["locks"]["note"] = locks_in_order(doubt, run(changes.NOTE_DOUBTS_WITHIN))
first, last = sorted(two)
found["locks"]["notify_once"] = locks_in_order(
    telling, lambda: inbox.notify_many(["a", "B"], "news", "Hello", dedupe_key="k")
)

# --- indexes

def read_whole(statement, **parameters):
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute("EXPLAIN " + statement.text, parameters)
        return [line for (line,) in cursor.fetchall() if "Seq Scan on weir_notifications_notification" in line]

array = user_keys.array(two)
found["read whole"] = {
    "noted": read_whole(forgetting.NOTED_FORGETTING, after=None, most=10),
    "delete": read_whole(forgetting.DELETE_FORGOTTEN, user="a", after=0, batch=10),
    "settle": read_whole(read_marks.SETTLE_MARKED, user="a", after=0, batch=10),
    "count": read_whole(drift.COUNT_UNREAD, users=array),
    "numbers": read_whole(
        reading.UNREAD_NUMBERS, users=array, incarnation="", open_epoch=1, most_counted=10, known_generation=0
    ),
}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPostgres]:
    with english() as locales, own_postgres(tmp_path_factory.mktemp("english") / "home", locales=locales) as started:
        yield started


@pytest.mark.parametrize("is_foreign", [False, True], ids=["alone", "a foreign key"])
def test_text_keys_are_sorted_one_way(
    is_foreign: bool, server: OwnPostgres, start_python: StartPython, tmp_path: Path
) -> None:
    """By bytes; with a foreign key, as the users' own table is sorted."""
    database = f"sorted_{is_foreign}".lower()
    environment = {
        **server.create_database(database, f"TEMPLATE template0 LOCALE_PROVIDER libc LOCALE '{LOCALE}'"),
        "WEIR_USER_KEY": "" if is_foreign else "text",
        "WEIR_USER_FOREIGN_KEY": str(is_foreign).lower(),
    }
    before = people(tmp_path, "models.CharField(primary_key=True, max_length=100)") if is_foreign else ""
    process = start_python(EXERCISE, json.dumps(KEYS), new=False, before=before, environment=environment)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    assert json.loads(said.splitlines()[-1]) == {
        **dict.fromkeys(("scan by users", "scan by rows", "doubts", "forgotten"), sorted(KEYS)),
        "first": "a" if is_foreign else "B",
        "locks": dict.fromkeys(("note", "apply", "clear", "repair", "notify_once"), True),
        "read whole": {name: [] for name in ("noted", "delete", "settle", "count", "numbers")},
    }
