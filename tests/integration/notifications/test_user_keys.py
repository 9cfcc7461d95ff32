"""Users' keys may be integers, UUIDs or text: the numbers are the same, whatever is done with the keys."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.integration.conftest import StartPython
from tests.integration.notifications.people import people
from weir.notifications import user_keys

# The apps whose tables are needed, and those that must be made before: all others would take most of the time.
LABELS = ("auth", "weir_timeline", "weir_notifications", "admin", "sessions", "weir_logins")
# Everything that takes a user's key, however the key is passed: parameters, arrays, Redis, cursors, and back.
EXERCISE = """
import json, uuid
import redis
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connections, router, transaction
from django.db.models.functions import Now
from django.contrib.auth import get_user_model

# The database from which a project's router reads this model becomes the one that is written to.
connections.settings[router.db_for_read(get_user_model())].update(connections.settings["default"])
for label in LABELS:
    call_command("migrate", label, verbosity=0)
from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.channels import kinds, preferences, telling
from weir.notifications.inbox import read_marks
from weir.notifications.maintenance import forgetting
from weir.notifications.reconciliation import drift
from weir.redis_link.keys import keys as names
from weir.notifications.models import Doubt, Excess, ForgottenUser, Notification, Preference, ReadMark, UnreadCount
from structlog.testing import capture_logs

valkey = redis.Redis.from_url(settings.REDIS_URL)
drift.APART_S = 0.0
keys = KEYS

def rows():
    counted = dict.fromkeys(keys, 0)
    for row in Notification.objects.unread():
        counted[row.user_id] += 1
    return counted

def right(when):
    assert inbox.unread_counts(keys) == rows(), (when, inbox.unread_counts(keys), rows())
    assert {key: sum(inbox.unread_by_kind(str(key)).values()) for key in keys} == rows(), when
    flush.flush_sealed()
    assert inbox.unread_counts(map(str, keys)) == rows(), when

assert reconcile.run_pass().trusted
first, second, third, *_ = keys
ids = [inbox.notify(str(first), "news", "Hello").pk for _ in range(5)]
assert inbox.notify_many([*keys, first], "news", "Hello, all") == len(keys)
strange = [b"\\xff", "", "\\0", "x" * 256]  # a key of no kind
valkey.zadd(names().open, dict.fromkeys(strange, 1))
with capture_logs() as entries:
    right("notified")
assert [entry["entries"] for entry in entries] == [len(strange)], entries
assert inbox.mark_read(first, ids[:2]) == 2
assert inbox.mark_unread(first, ids[:1]) == 1
right("marked")
inbox.writing.MOST_MARKED = 2
assert inbox.mark_all_read(first) == 5
assert inbox.page(first, unread_only=True) == [] and inbox.unread_count(first) == 0
read_marks.settle()
right("all read")
Notification.objects.bulk_create(Notification(user_id=key, kind="a", title="b") for key in keys)
Notification.objects.filter(user_id=second).update(user_id=third)
Notification.objects.filter(user_id=third).first().delete()
row = Notification.objects.filter(user_id=third).last()
row.user_id = str(first)
row.save()
right("by the ORM")
assert {doubt.user_id for doubt in Doubt.objects.all()} == {first}
add, counters.add = counters.add, lambda deltas: None
inbox.notify_many(keys, "news", "lost")
counters.add = add
assert set(reconcile.reconcile_users([second], dry_run=True).first) == {second}
assert set(reconcile.reconcile_users().first) == set(keys)
right("reconciled")
add, counters.add = counters.add, lambda deltas: None
inbox.notify(third, "news", "lost")
counters.add = add
reconcile.SCAN_S = 10.0
assert reconcile.run_pass().repaired.first == {third: 1}
right("after a pass")
kinds.register("later", channel="digest")
preferences.set_preference(str(first), "later", "page")
assert inbox.notify_many(keys, "later", "Hello") == len(keys)
inbox.notify(second, "later", "Hello again")
Notification.objects.filter(kind="later", digest_due_at__isnull=False).update(digest_due_at=Now())
with transaction.atomic():
    assert telling.begin_gathering() and set(telling.users_due(500)) == {*keys} - {first}
    assert telling.still_due(keys) == {*keys} - {first}
    telling.stay_on_page([third])
    telling.gather({second: 1}, has_rows={})
    assert [(row.user_id, row.rows) for row in telling.to_tell([second])] == [(second, 2)]
    told = [row.id for row in telling.drafted(1, second)]
    assert len(told) == 2 and telling.tell(1, second, told)
right("told")
assert not {third, first} & {*telling.users_due(500)}
telling.release([1], is_over=True, by_digest=True)
right("not told")
preferences.stop_digests(str(second))
assert preferences.preferences(second) == {"later": "page"}
Notification.objects.filter(kind="later").delete()
if IS_FOREIGN:
    get_user_model().objects.get(pk=second).delete()
else:
    forgetting.forget_user(str(second))
flush.flush_sealed()
for _ in range(10_000):  # a transaction of any database of the cluster holds up the notes
    if forgetting.finish():
        break
assert not UnreadCount.objects.filter(pk=second).exists() and not ForgottenUser.objects.exists()
assert all(row.user_id != second for row in Notification.objects.all())
right("forgotten")
call_command("reconcile_unread", "--user", str(first))
from django.contrib import admin
from django.test import override_settings
from django.test import Client
from django.test.utils import setup_test_environment
setup_test_environment()
client = Client()
client.force_login(get_user_model().objects.create_superuser("a", "a@example.com"))
pages = {}
for model in (Notification, UnreadCount, Doubt, ForgottenUser, Preference, ReadMark, Excess):
    for text in (str(third), "no key of anybody's"):
        page = client.get(f"/admin/weir_notifications/{model._meta.model_name}/", {"q": text})
        there = {row.user_id for row in page.context["cl"].queryset} if page.status_code == 200 else page.status_code
        wanted = {third} if text == str(third) and model.objects.filter(user_id=third).exists() else set()
        pages[f"{model.__name__} {text}"] = there == wanted
override_settings(WEIR_USER_KEY=OTHER).enable()
found = [message.msg for message in run_checks(databases=["default"]) if message.id == "weir.E015"]
print(json.dumps({"rows": sum(rows().values()), "found": found, "pages": pages}))
"""


def exercise(start_python: StartPython, database: str, keys: str, *, other: str, **options: Any) -> dict[str, Any]:
    script = EXERCISE.replace("LABELS", repr(LABELS)).replace("KEYS", keys).replace("OTHER", repr(other))
    script = script.replace("IS_FOREIGN", str("before" in options))
    environment = {"WEIR_TEST_DATABASE": database, **options.pop("environment", {})}
    process = start_python(script, new=False, environment=environment, **options)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    assert {page for page, is_right in found["pages"].items() if not is_right} == set()
    return found


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("uuid", "[uuid.UUID(int=n << 100) for n in range(1, 9)]"),
        ("text", """['b', 'a', 'Ä', 'with "quotes"', 'back\\\\\\\\slash', '{1,2}', 'NULL', ' ', '7', 'a' * 255]"""),
        ("integer", "[7, -3, 0, 2**63 - 1, -(2**63) + 1]"),
    ],
)
def test_any_key(kind: str, keys: str, start_python: StartPython, empty_database: str, valkey: redis.Redis) -> None:
    """No key is confused or truncated, and a later change of the setting is reported."""
    valkey.flushdb()
    other = "uuid" if kind == "integer" else "integer"
    found = exercise(start_python, empty_database, keys, other=other, environment={"WEIR_USER_KEY": kind})
    assert found["rows"] > 0
    [sentence] = found["found"]
    assert f"were made with WEIR_USER_KEY={kind} and WEIR_USER_FOREIGN_KEY=false" in sentence
    assert f"but the settings say {other} and false." in sentence


def test_a_foreign_key_to_a_user_model_of_ones_own(
    start_python: StartPython, empty_database: str, valkey: redis.Redis, tmp_path: Path
) -> None:
    """Its primary key says what keys are, and deleting a user is counted."""
    valkey.flushdb()
    before = people(tmp_path, "models.UUIDField(primary_key=True, default=uuid.uuid4)")
    keys = "[get_user_model().objects.create(username=str(n)).pk for n in range(5)]"
    environment = {"WEIR_USER_FOREIGN_KEY": "true"}
    found = exercise(start_python, empty_database, keys, other="integer", before=before, environment=environment)
    assert found["rows"] > 0
    assert "made with WEIR_USER_KEY=uuid and WEIR_USER_FOREIGN_KEY=true" in found["found"][0]


OF_USERS = """
from django.contrib.auth import get_user_model
from django.core.checks import run_checks
from django.core.management import call_command

for label in LABELS:
    call_command("migrate", label, verbosity=0)
from weir.notifications import inbox, user_keys
user = get_user_model().objects.create(username="kim")
inbox.notify(user.pk, "news", "Hello")
told = [message.id for message in run_checks(databases=["default"]) if message.id == "weir.E015"]
print(user_keys.kind().name, inbox.unread_count(user.pk), inbox.unread_count(str(user.pk)), told)
"""


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("models.UUIDField(primary_key=True, default=uuid.uuid4)", "uuid"),
        ("models.CharField(primary_key=True, max_length=40, default=lambda: 'kim-' + str(uuid.uuid4()))", "text"),
        ("models.AutoField(primary_key=True)", "integer"),
    ],
)
def test_users_of_a_projects_own_need_no_setting(
    key: str, kind: str, start_python: StartPython, empty_database: str, tmp_path: Path
) -> None:
    """Their primary key says what keys are, when the tables are made and afterwards."""
    before, environment = people(tmp_path, key), {"WEIR_TEST_DATABASE": empty_database}
    process = start_python(OF_USERS.replace("LABELS", repr(LABELS)), new=False, before=before, environment=environment)
    assert process.communicate(timeout=120)[0].splitlines()[-1] == f"{kind} 1 1 []"


MANAGE = """
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from weir.notifications import reconcile

def migrate(*arguments, **options):
    call_command("migrate", *arguments, verbosity=0, skip_checks=False, **options)
"""
MAKE = (
    MANAGE
    + """
for label in ("auth", "weir_timeline", "weir_notifications"):
    migrate(label)
assert reconcile.run_pass().trusted
"""
)
CHOOSE_ANEW = (
    MANAGE
    + """
try:
    migrate("weir_notifications", "zero")
except SystemCheckError as refused:
    assert "weir.E015" in str(refused)
else:
    sys.exit("The check is content.")
call_command("migrate", "weir_notifications", "zero", verbosity=0, skip_checks=True)
migrate("weir_notifications")
assert reconcile.run_pass().trusted
migrate("weir_notifications", "zero")
"""
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"WEIR_USER_KEY": "text"}, {"WEIR_USER_FOREIGN_KEY": "true"}),
        ({"WEIR_USER_FOREIGN_KEY": "true"}, {"WEIR_USER_KEY": "uuid"}),
    ],
)
def test_the_key_can_be_chosen_anew_without_the_tables(
    old: dict[str, str], new: dict[str, str], start_python: StartPython, empty_database: str
) -> None:
    """As the hint of weir.E015 says; a full scan has ended before, as everywhere after the first minute."""
    for script, of in ((MAKE, old), (CHOOSE_ANEW, new)):
        process = start_python(script, environment={"WEIR_TEST_DATABASE": empty_database, **of})
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, f"{of}: {said}"


@pytest.mark.parametrize("value", ["seven", "1_0", 2**63, 1.5, None, "", uuid.UUID(int=1)])
def test_what_is_no_key_is_refused_in_one_sentence(value: object) -> None:
    """The sentence says what a key is."""
    with pytest.raises(ValueError, match=r"^A user's key must be a whole number, but is .*\.$"):
        user_keys.clean(value)
    with pytest.raises(ValueError, match=r"^A user's key must be a whole number, but is .*\.$"):
        user_keys.distinct([1, value])
