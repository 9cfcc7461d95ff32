"""What operators change is in the audit trail, and what is in it stays as it is."""

import inspect
import json
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DataError, IntegrityError, connection
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import InThreads
from weir.notifications import actions as unread
from weir.notifications.inbox import notify
from weir.notifications.models import UnreadCount
from weir.notifications.removal.bulk import Meant
from weir.ratelimit import site_settings
from weir.ratelimit.changing.declared import SETTINGS
from weir.ratelimit.models import PAUSED_FOREVER, Site
from weir.workers.audit import acting, retention
from weir.workers.audit.acting import Actor, NotPermitted
from weir.workers.audit.models import Door, Entry
from weir.workers.effects import actions as effects
from weir.workers.effects.models import Act as EffectAct
from weir.workers.fetches.actions import batches, fetches, sites
from weir.workers.fetches.batches.counts import batch_counts
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.retrying import MoreFetchesThanExpected
from weir.workers.mail.actions import addresses, emails, kinds
from weir.workers.mail.models import Act, Email, PausedKind
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
from weir.workers.watches import actions as watches
from weir.workers.watches.models import Watch

pytestmark = pytest.mark.django_db(transaction=True)

ADA = Actor(name="ada", door=Door.API, may=lambda _: True)
HOST = "a.example"


@pytest.fixture
def site() -> str:
    site_settings.set_rate(HOST, "3/s")
    return HOST


def last() -> Entry:
    return Entry.objects.latest("pk")


def test_a_change_of_settings_says_what_they_were(site: str) -> None:
    sites.set_rate(ADA, site, "5/s", burst=2, why="They told us to.")
    entry = last()
    assert (entry.actor, entry.door, entry.action, entry.target) == ("ada", "api", "sites.set", site)
    assert entry.why == "They told us to."
    assert entry.before
    assert entry.after
    assert (entry.before["rate"], entry.before["burst"]) == ("3/s", 1)
    assert (entry.after["rate"], entry.after["burst"]) == ("5/s", 2)


def test_each_setting_is_in_the_trail_and_in_the_version() -> None:
    """Or it could be changed without an entry, and past somebody who has seen another one."""
    settings = inspect.signature(site_settings.set_rate).parameters.keys() - {"site", "rate", "within"}
    assert settings == {setting.name for setting in SETTINGS}


def test_a_new_site_was_not_there_before() -> None:
    sites.set_rate(ADA, HOST, "5/s")
    assert last().before is None


def test_what_changes_nothing_is_no_entry(site: str) -> None:
    sites.set_rate(ADA, site, "3/s")
    sites.resume(ADA, site)
    assert not Entry.objects.exists()


def test_a_pause_and_its_end(site: str) -> None:
    sites.pause(ADA, site, why="The owner called.")
    assert (last().after or {})["paused_until"] == PAUSED_FOREVER.isoformat().replace("+00:00", "Z")
    sites.resume(ADA, site)
    assert (last().after or {})["paused_until"] is None


def test_of_two_who_have_seen_the_same_settings_one_is_refused(site: str) -> None:
    seen = sites.version_of(Site.objects.get(name=site))
    sites.set_rate(ADA, site, "4/s", seen=seen)
    with pytest.raises(acting.Changed, match="changed meanwhile"):
        sites.set_rate(ADA, site, "5/s", seen=seen)
    assert Site.objects.get(name=site).rate == "4/s"
    assert Entry.objects.count() == 1


def test_nothing_is_changed_where_the_entry_cannot_be_written(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "LONGEST_ACTOR", 1_000)
    nobody = Actor(name="x" * 300, door=Door.API, may=lambda _: True)
    for change in (sites.pause, sites.delete, partial(sites.set_rate, rate="5/s")):
        with pytest.raises(DataError, match="too long"):
            change(nobody, site)
    assert Site.objects.filter(name=site, paused_until=None).get().rate == "3/s"


def test_only_one_who_may(site: str) -> None:
    stranger = Actor(name="eve", door=Door.PAGE, may=lambda permission: permission == "weir_ops.view")
    for change in (
        lambda: sites.set_rate(stranger, site, "5/s"),
        lambda: sites.pause(stranger, site),
        lambda: sites.resume(stranger, site),
        lambda: sites.delete(stranger, site),
        lambda: sites.ask_robots(stranger, []),
        lambda: fetches.cancel(stranger, 1),
        lambda: fetches.retry(stranger, Fetch.objects.all(), {}),
        lambda: batches.cancel(stranger, 1),
        lambda: batches.retry(stranger, 1),
        lambda: batches.close(stranger, 1),
        lambda: watches.add(stranger, "https://a.example/", every=timedelta(hours=1)),
        lambda: watches.remove(stranger, 1),
        lambda: watches.pause(stranger, 1),
        lambda: watches.resume(stranger, 1),
        lambda: emails.resolve(stranger, 1, Act.ARRIVED, why="It did."),
        lambda: emails.resolve(stranger, 1, Act.CORRECT, why="It is.", to="kim@example.com"),
        lambda: kinds.pause(stranger, "order.shipped", why="It is wrong."),
        lambda: kinds.resume(stranger, "order.shipped", why="It is right."),
        lambda: addresses.suppress(stranger, "kim@example.com", why="Asked."),
        lambda: addresses.release(stranger, "0", why="Asked."),
        lambda: addresses.forget(stranger, "kim@example.com", why="Asked."),
        lambda: effects.resolve(stranger, 1, EffectAct.DONE, why="It did."),
        lambda: effects.pause(stranger, "stripe.refund", why="It is wrong."),
        lambda: effects.resume(stranger, "stripe.refund", why="It is right."),
        lambda: effects.forget(stranger, 8, why="Asked."),
        lambda: unread.reconcile_user(stranger, 1),
        lambda: unread.reconcile_users(stranger, None),
        lambda: unread.delete_notifications(stranger, Meant()),
        lambda: unread.forget_user(stranger, 1, why="Asked."),
    ):
        with pytest.raises(acting.NotPermitted, match="eve lacks the permission"):
            change()
    assert not Entry.objects.exists()


def test_a_watch_that_is_added_paused_resumed_and_removed() -> None:
    """Each once: what changes nothing is no entry."""
    every = timedelta(hours=1)
    row, _ = (watches.add(ADA, "https://a.example/", every=every) for _ in range(2))
    for act in (watches.pause, watches.pause, watches.resume, watches.resume):
        act(ADA, row.pk, why="They asked.")
    assert Watch.objects.due().exists()
    watches.add(ADA, "https://a.example/", every=2 * every)
    watches.remove(ADA, row.pk)
    entries = Entry.objects.order_by("pk")
    acts = ["watches.add", "watches.pause", "watches.resume", "watches.add", "watches.remove"]
    assert [entry.action for entry in entries] == acts
    assert {entry.target for entry in entries} == {f"watch {row.pk}"}
    assert [(entry.before or {}).get("every_s") for entry in entries] == [None, None, None, 3600, 7200]


def test_read_only_is_for_everybody(site: str, settings: Settings) -> None:
    settings.WEIR_OPS_READ_ONLY = True
    with pytest.raises(acting.ReadOnly):
        sites.pause(ADA, site)
    with pytest.raises(CommandError, match="WEIR_OPS_READ_ONLY is set"):
        call_command("sites", "pause", site)
    assert Site.objects.get(name=site).paused_until is None


def test_a_command_says_who_typed_it_and_why(site: str) -> None:
    call_command("sites", "pause", site, "--who", "Grace", "--why", "Too many errors.")
    entry = last()
    assert (entry.actor, entry.door, entry.why) == ("Grace", "command", "Too many errors.")


def test_a_deleted_site(site: str) -> None:
    sites.delete(ADA, site)
    entry = last()
    assert entry.before
    assert entry.before["rate"] == "3/s"
    assert entry.after is None


def test_fetches_are_cancelled_and_retried() -> None:
    queued, failed = request_fetches([f"http://{HOST}/{number}" for number in range(2)])
    assert fetches.cancel(ADA, queued.pk)
    assert (last().target, last().after) == (f"fetch {queued.pk}", {"state": "cancelled"})
    assert not fetches.cancel(ADA, queued.pk)
    Fetch.objects.filter(pk=failed.pk).update(state=FetchState.FAILED, error="lost", finished_at=Now())
    assert fetches.retry(ADA, Fetch.objects.all(), {"site": HOST, "status": None}).queued == 1
    assert (last().target, last().after) == (f"fetches site {HOST}", {"queued": 1})
    assert Entry.objects.count() == 2


def test_a_retry_of_a_put_takes_the_permission_to_send_one() -> None:
    """What Weir itself sends, for an access token, is not retried, and takes none; nor does a webhook."""
    operator = Actor(name="kim", door=Door.PAGE, may=lambda permission: permission == fetches.MAY_CHANGE)
    put = request_fetch(f"http://{HOST}/", method="PUT", repeatable=True, batch="import-7")
    request_fetches([f"http://{HOST}/{number}" for number in range(2)], batch="import-7")
    batch_id = batch_counts("import-7").id
    Fetch.objects.update(state=FetchState.FAILED, error="lost", finished_at=Now())
    with pytest.raises(NotPermitted, match=f"weir_fetches.send_fetch, which a retry of a PUT takes: fetch {put.pk} is"):
        fetches.retry(operator, Fetch.objects.all(), {})
    with pytest.raises(NotPermitted, match="which a retry of a PUT takes"):
        batches.retry(operator, batch_id)
    Fetch.objects.filter(pk=put.pk).update(token_client="SHOP")  # noqa: S106  no secret
    assert fetches.retry(operator, Fetch.objects.all(), {}).queued == 2
    Fetch.objects.update(state=FetchState.FAILED, error="lost", finished_at=Now(), token_client="")
    Fetch.objects.filter(pk=put.pk).update(endpoint_id=1)
    assert fetches.retry(operator, Fetch.objects.all(), {}).queued == 3
    Fetch.objects.update(state=FetchState.FAILED, error="lost", finished_at=Now(), endpoint_id=None)
    assert fetches.retry(ADA, Fetch.objects.all(), {}).queued == 3
    Fetch.objects.update(state=FetchState.FAILED, error="lost", finished_at=Now())
    assert batches.retry(ADA, batch_id).queued == 3


def test_never_more_than_expected() -> None:
    request_fetches([f"http://{HOST}/{number}" for number in range(3)])
    Fetch.objects.update(state=FetchState.FAILED, error="lost", finished_at=Now())
    assert fetches.would_retry(Fetch.objects.all()) == 3
    with pytest.raises(MoreFetchesThanExpected, match="More than 2 fetches would be queued again"):
        fetches.retry(ADA, Fetch.objects.all(), {}, expected=2)
    with pytest.raises(CommandError, match="More than 2"):
        call_command("fetches", "retry", "--all", "--expect", "2")
    assert Fetch.objects.filter(state=FetchState.FAILED).count() == 3
    call_command("fetches", "retry", "--all", "--expect", "3")
    assert not Fetch.objects.filter(state=FetchState.FAILED).exists()


def test_a_dry_run_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    request_fetches([f"http://{HOST}/{number}" for number in range(3)])
    Fetch.objects.update(state=FetchState.FAILED, error="lost", finished_at=Now())
    call_command("fetches", "retry", "--all", "--dry-run", "--json")
    assert json.loads(capsys.readouterr().out) == {"would_retry": 3}
    assert Fetch.objects.filter(state=FetchState.FAILED).count() == 3
    assert not Entry.objects.exists()


@pytest.fixture
def email() -> Email:
    order = Order.objects.create(number="1", customer_email="kim@example.com")
    shipping.ship(order.pk)
    return Email.objects.get()


def test_an_email_is_cancelled_with_a_reason_that_names_nobody(email: Email) -> None:
    emails.resolve(ADA, email.pk, Act.CANCEL, why="kim@example.com has called.")
    entry = last()
    assert (entry.action, entry.target) == ("emails.cancel", f"e-mail {email.pk}")
    assert entry.before
    assert entry.after
    assert (entry.before["state"], entry.after["state"]) == ("pending", "cancelled")
    assert "kim@" not in entry.why


def test_a_decision_wants_a_reason(email: Email) -> None:
    with pytest.raises(acting.NoReason, match="wants a reason"):
        emails.resolve(ADA, email.pk, Act.CANCEL, why=" ")
    assert Email.objects.get().state == "pending"


def test_kinds_and_addresses() -> None:
    assert kinds.pause(ADA, "order.shipped", why="It is wrong.")
    assert kinds.resume(ADA, "order.shipped", why="It is right.")
    assert addresses.suppress(ADA, "kim@example.com", why="kim@example.com asked.")
    addresses.forget(ADA, "kim@example.com", why="kim@example.com asked.")
    assert [entry.action for entry in Entry.objects.order_by("pk")] == [
        *("emails.pause_kind", "emails.resume_kind", "emails.suppress", "emails.forget")
    ]
    kept = "".join(f"{row}" for row in Entry.objects.values_list())
    assert "kim@" not in kept


@pytest.mark.parametrize("statement", ["UPDATE weir_audit_entry SET why = 'another'", "DELETE FROM weir_audit_entry"])
def test_nobody_edits_it(site: str, statement: str) -> None:
    sites.pause(ADA, site)
    with pytest.raises(IntegrityError, match="The audit trail is not edited"), connection.cursor() as cursor:
        cursor.execute(statement)
    assert Entry.objects.count() == 1


def test_old_entries_are_deleted_and_young_ones_never(site: str, settings: Settings) -> None:
    settings.WEIR_AUDIT_RETENTION = 1.0
    for days in (0, 29, 31, 400):
        entry = Entry(actor="ada", door=Door.API, action="sites.set", target=site, at=Now() - timedelta(days=days))
        entry.save()
    assert retention.purge() == 2
    assert Entry.objects.count() == 2


def test_two_who_pause_a_kind_leave_one_entry(in_threads: InThreads) -> None:
    """That of the one who did it."""
    paused = in_threads(2, lambda number: kinds.pause(replace(ADA, name=f"ada{number}"), "order.shipped", why="Wrong."))
    assert sorted(paused) == [False, True]
    assert last().actor == PausedKind.objects.get().who
    assert Entry.objects.count() == 1


def test_a_corrected_address_is_not_in_the_trail() -> None:
    order = Order.objects.create(number="1", customer_email="kim@example.com")
    shipping.ship(order.pk)
    emails.resolve(ADA, Email.objects.get().pk, Act.CORRECT, why="It is new@example.com now.", to="new@example.com")
    assert "new@example.com" not in last().why


@pytest.mark.usefixtures("valkey")
def test_numbers_are_reconciled_by_hand_with_an_entry(settings: Settings) -> None:
    notify(7, "news", "Hello")
    call_command("flush_unread", verbosity=0)
    UnreadCount.objects.update(unread_count=6)
    settings.WEIR_OPS_READ_ONLY = True
    with pytest.raises(CommandError, match="WEIR_OPS_READ_ONLY"):
        call_command("reconcile_unread", "--user", "7")
    settings.WEIR_OPS_READ_ONLY = False
    call_command("reconcile_unread", "--user", "7", "--who", "ada", "--why", "She asked.")
    entry = last()
    assert (entry.actor, entry.target, entry.why) == ("ada", "user 7", "She asked.")
    assert entry.after == {"repaired": 1, "changed_by": {"7": -5}}


@pytest.mark.usefixtures("valkey")
def test_numbers_that_were_repaired_before_an_error_have_an_entry() -> None:
    """Such as a reader of the output who has gone."""
    notify(7, "news", "Hello")
    call_command("flush_unread", verbosity=0)
    UnreadCount.objects.update(unread_count=6)

    def gone(_user: object, _drift: int) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        unread.reconcile_users(ADA, [7], on_drift=gone)
    assert last().after == {"repaired": 1, "changed_by": {"7": -5}}
    assert unread.reconcile_users(ADA, [7]).users == 0
    assert Entry.objects.count() == 1


def test_who_and_why_are_text() -> None:
    with pytest.raises(CommandError, match="must be text in UTF-8"):
        call_command("reconcile_unread", "--user", "7", "--why", "\udcff")
    assert not Entry.objects.exists()
