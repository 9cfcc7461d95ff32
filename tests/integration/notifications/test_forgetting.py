"""Deleting a user leaves nothing: no notification, no number, no delta in Redis, and in the end no note about it."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import pytest
import redis
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from tests.integration.conftest import StartPython
from tests.integration.notifications.unread import assert_exact, lost, reconciled, redis_out_of_reach, sql
from weir.notifications import counters, flush, inbox, tasks
from weir.notifications.inbox import read_marks
from weir.notifications.maintenance import forgetting
from weir.notifications.models import Doubt, ForgottenUser, Notification, ReadMark, UnreadCount

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]


@pytest.fixture(autouse=True)
def _trusted_redis() -> None:
    reconciled()


def finished() -> int:
    """Do what the schedule does: flushes, and the next run."""
    flush.flush_sealed()
    return forgetting.finish()


def finish_all(users: int) -> None:
    """Run until this many users are forgotten: a transaction of any database of the cluster delays the notes."""
    done, give_up_at = 0, time.monotonic() + 30
    while done < users:
        assert time.monotonic() < give_up_at, f"only {done} users are forgotten"
        done += finished()
    assert done == users


@contextmanager
def being_told(user: int) -> Iterator[None]:
    """Keep a transaction that has notified the user open during the block, and commit it then."""
    told, commits = Event(), Event()

    def tell() -> None:
        try:
            with transaction.atomic():
                inbox.notify(user, "news", "Hello from beside")
                told.set()
                assert commits.wait(30)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        teller = pool.submit(tell)
        try:
            assert told.wait(30)
            yield
        finally:
            commits.set()
            teller.result(30)


def left_of(user: int, valkey: redis.Redis) -> set[str]:
    """Return what is left of a user."""
    tables = (Notification, UnreadCount, Doubt, ReadMark, ForgottenUser)
    left = {table.__name__ for table in tables if table.objects.filter(user_id=user).exists()}
    deltas = [key for key in valkey.keys("*") if valkey.type(key) == b"zset"]
    return left | {"Redis" for key in deltas if valkey.zscore(key, str(user)) is not None}


def test_a_deleted_user_leaves_nothing(valkey: redis.Redis) -> None:
    """However the ORM deletes the user; others keep what they have."""
    users = User.objects.bulk_create(User(username=name) for name in "abc")
    inbox.notify_many([user.pk for user in users], "news", "Hello")
    flush.flush_sealed()
    inbox.notify_many([user.pk for user in users], "news", "Hello again")
    keys = [user.pk for user in users]
    users[0].delete()
    User.objects.filter(pk=keys[1]).delete()
    assert inbox.unread_counts(keys) == {keys[0]: 0, keys[1]: 0, keys[2]: 2}
    assert not Notification.objects.filter(user_id__in=keys[:2]).exists()
    finish_all(2)
    assert left_of(keys[0], valkey) == left_of(keys[1], valkey) == set()
    assert_exact(*keys)


OTHER_MODELS = """
import json
from django.contrib.auth.models import User
from django.db import connection, connections, models, router
from weir.notifications import inbox
from weir.notifications.models import ForgottenUser, Notification

class Staff(User):
    class Meta:
        proxy = True
        app_label = "auth"

class Customer(User):
    name = models.TextField()
    class Meta:
        app_label = "auth"

# The database from which a project's router reads this model becomes the one that is written to.
connections.settings[router.db_for_read(Customer)].update(connections.settings["default"])
with connection.schema_editor() as editor:
    editor.create_model(Customer)
try:
    left = {}
    for model, ways in ((Staff, 2), (Customer, 2), (User, 1)):
        users = [model.objects.create(username=f"{model.__name__} {n}").pk for n in range(ways)]
        inbox.notify_many(users, "news", "Hello")
        model.objects.get(pk=users[0]).delete()
        model.objects.filter(pk__in=users[1:]).delete()
        noted = ForgottenUser.objects.filter(pk__in=users).count()
        left[model.__name__] = [len(users), noted, Notification.objects.filter(user_id__in=users).count()]
    kept = Customer.objects.create(username="only the customer goes")
    inbox.notify(kept.pk, "news", "Hello")
    kept.delete(keep_parents=True)
    left["kept"] = Notification.objects.filter(user_id=User.objects.get().pk).count()
finally:
    with connection.schema_editor() as editor:
        editor.delete_model(Customer)
print(json.dumps(left))
"""


def test_a_user_is_forgotten_by_whatever_model_is_deleted(start_python: StartPython) -> None:
    """A proxy of the user model, or a model that inherits from it; users who stay keep what they have."""
    process = start_python(OTHER_MODELS)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert json.loads(said) == {"Staff": [2, 2, 0], "Customer": [2, 2, 0], "User": [1, 1, 0], "kept": 1}


def test_rows_of_other_models_are_still_deleted_unread() -> None:
    """Listening for the deletion of users does not make Django load the rows of other models."""
    Session.objects.create(session_key="a", expire_date=timezone.now())
    with CaptureQueriesContext(connection) as queries:
        Session.objects.all().delete()
    assert "SELECT" not in {query["sql"].split()[0] for query in queries}


def test_a_user_who_is_not_deleted_after_all_keeps_everything() -> None:
    """Forgetting is a part of the transaction."""
    user = User.objects.create(username="a")
    inbox.notify(user.pk, "news", "Hello")
    with transaction.atomic():
        user.delete()
        transaction.set_rollback(True)
    assert not ForgottenUser.objects.exists()
    assert Notification.objects.get().title == "Hello"
    assert_exact()


def test_many_notifications_go_bit_by_bit(monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis) -> None:
    """The request that deletes the user does not wait for all of them; read marks go, too."""
    monkeypatch.setattr(forgetting, "BATCH", 2)
    monkeypatch.setattr(inbox.writing, "MOST_MARKED", 1)
    for _ in range(7):
        inbox.notify(7, "news", "Hello")
    inbox.mark_all_read(7)
    forgetting.forget_user(7)
    assert Notification.objects.count() == 5
    assert forgetting.finish(within_s=0.0) == 0
    assert Notification.objects.count() == 5
    finish_all(1)
    assert left_of(7, valkey) == set()


def test_a_deletion_of_many_reads_each_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis
) -> None:
    """With a foreign key all are deleted in one transaction; its batches do not pass the rows of earlier batches."""
    settings.WEIR_USER_FOREIGN_KEY = True
    monkeypatch.setattr(forgetting, "BATCH", 100)
    inbox.notify_many([7, 8], "news", "Hello")
    sql(
        "INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, read_at)"
        " SELECT 7, 'news', 'Hello', '', '', now() FROM generate_series(1, 5000)"
    )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        forgetting.forget_user(7)
        cursor.execute(
            "SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index"
            " WHERE indrelid = 'weir_notifications_notification'::regclass"
        )
        assert cursor.fetchone()[0] < 4 * 5_000
    assert Notification.objects.get().user_id == 8
    finish_all(1)
    assert left_of(7, valkey) == set()
    assert_exact(7, 8)


def test_a_number_that_a_live_epoch_is_in_stays_until_that_is_dropped(valkey: redis.Redis) -> None:
    """Without its row, readers would add the epoch's delta a second time."""
    inbox.notify(7, "news", "Hello")
    flush.flush_sealed()
    forgetting.forget_user(7)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counters, "drop", lambda _epoch: None)
        flush.flush_sealed()
    assert UnreadCount.objects.get(user_id=7).unread_count == 0
    assert forgetting.finish() == 0
    assert inbox.unread_count(7) == 0
    finish_all(1)
    assert left_of(7, valkey) == set()


def test_a_lost_delta_delays_it_until_reconciliation_has_looked(valkey: redis.Redis) -> None:
    """Then the number is not 0, and is repaired first."""
    inbox.notify(7, "news", "Hello")
    flush.flush_sealed()
    with lost():
        forgetting.forget_user(7)
    assert finished() == 0
    reconciled()
    finish_all(1)
    assert left_of(7, valkey) == set()


def test_what_an_open_transaction_has_written_goes_when_it_has_ended(valkey: redis.Redis) -> None:
    """The deleting transaction does not see it, nor do runs before its commit: these leave the user noted."""
    with being_told(7):
        forgetting.forget_user(7)
        assert finished() == 0
    assert inbox.unread_count(7) == 1
    finish_all(1)
    assert left_of(7, valkey) == set()


def test_what_is_written_before_the_deletion_commits_goes(valkey: redis.Redis) -> None:
    """Its transaction has a later id than the deletion's, and could not know of the deletion."""
    with ExitStack() as beside:
        with transaction.atomic():
            forgetting.forget_user(7)
            beside.enter_context(being_told(7))
        assert finished() == 0
    finish_all(1)
    assert left_of(7, valkey) == set()


def test_a_user_who_comes_back_is_left_alone(tmp_path: Path) -> None:
    """Earlier notifications are deleted, even while Redis cannot be reached; later ones belong to the new user."""
    inbox.notify_many([7, 8], "news", "to the old user")
    forgetting.forget_user(7)
    inbox.notify(7, "news", "to the old user, who was deleted")
    with redis_out_of_reach(tmp_path):
        for titles in ([], ["to the new user"]):
            with pytest.raises(counters.RedisUnreachable):
                forgetting.finish()
            assert list(Notification.objects.filter(user_id=7).values_list("title", flat=True)) == titles
            inbox.notify(7, "news", "to the new user")
    assert finished() == 0
    assert not ForgottenUser.objects.exists()
    reconciled()
    assert inbox.unread_counts([7, 8]) == {7: 2, 8: 1}
    assert_exact(7, 8)


def test_a_user_who_comes_back_may_be_deleted_again(tmp_path: Path, valkey: redis.Redis) -> None:
    """Rows that were written since are deleted, too, and so are those being written."""
    forgetting.forget_user(7)
    with redis_out_of_reach(tmp_path), pytest.raises(counters.RedisUnreachable):
        forgetting.finish()
    inbox.notify(7, "news", "to the new user")
    with being_told(7):
        forgetting.forget_user(7)
        assert finished() == 0
    finish_all(1)
    assert left_of(7, valkey) == set()


def test_a_notification_of_before_goes_whatever_is_done_to_it(
    monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis
) -> None:
    """A request that began before the user was deleted may mark one as unread."""
    monkeypatch.setattr(forgetting, "BATCH", 1)
    ids = [inbox.notify(7, "news", "Hello").pk for _ in range(2)]
    inbox.mark_read(7, ids)
    forgetting.forget_user(7)
    assert forgetting.finish(within_s=0.0) == 0
    assert inbox.mark_unread(7, ids) == 1
    finish_all(1)
    assert left_of(7, valkey) == set()


def test_ids_of_another_clusters_transactions_hold_up_nothing(tmp_path: Path) -> None:
    """pg_restore brought the note; it may take years until transaction ids are that high here."""
    forgetting.forget_user(7)
    with redis_out_of_reach(tmp_path), pytest.raises(counters.RedisUnreachable):
        forgetting.finish()
    sql("UPDATE weir_notifications_forgottenuser SET until_xid = '900000000000'")
    finish_all(1)


def test_users_who_have_to_wait_hold_up_nobody(monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis) -> None:
    """However many there are, a run looks at all."""
    monkeypatch.setattr(forgetting, "USERS_AT_ONCE", 2)
    inbox.notify_many(range(1, 6), "news", "Hello")
    flush.flush_sealed()
    with lost():
        for user in (1, 2, 4):
            forgetting.forget_user(user)
    forgetting.forget_user(3)
    forgetting.forget_user(5)
    finish_all(2)
    assert left_of(3, valkey) == left_of(5, valkey) == set()


def test_read_marks_and_forgotten_users_wait_for_each_other_no_longer_than_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has work for more than a run, and makes progress in each run."""
    monkeypatch.setattr(tasks, "SETTLING_S", 0.4)
    monkeypatch.setattr(tasks, "FORGETTING_S", 0.2)
    monkeypatch.setattr(forgetting, "BATCH", 1)
    monkeypatch.setattr(read_marks, "BATCH", 1)
    sql(
        "INSERT INTO weir_notifications_notification (user_id, kind, title, body, url)"
        " SELECT 7 + n % 2, 'news', 'Hello', '', '' FROM generate_series(1, 6000) AS n"
    )
    inbox.mark_all_read(7)
    forgetting.forget_user(8)
    tasks.settle_unread()
    assert 0 < Notification.objects.filter(user_id=7, read_at=None).count() < 3_000
    assert 0 < Notification.objects.filter(user_id=8).count() < 2_999


def test_what_is_no_users_key_is_refused() -> None:
    """It is refused before anything is written."""
    with pytest.raises(ValueError, match="whole number, but is 'seven'"):
        forgetting.forget_user("seven")
