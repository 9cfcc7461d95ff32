"""A loss beside something else: another clock, a person who acted, a pass, a second recovery, many threads."""

import threading
from datetime import timedelta
from functools import partial

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import accepted, ship
from weir.notifications import inbox, reconcile
from weir.notifications.models import Reconciliation, UnreadCount
from weir.notifications.reconciliation import full_scan
from weir.notifications.reconciliation.page import Pages
from weir.postgres.timeline import gate
from weir.postgres.timeline.models import KnownTimeline
from weir.ratelimit import site_settings, sites, slots
from weir.ratelimit.models import Site
from weir.workers.ledger import recovering as of_effects
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import runner
from weir.workers.recovery import recovering, stepping, watch, witness
from weir.workers.recovery.models import Recovery

pytestmark = pytest.mark.usefixtures("valkey")
HOUR_S = 3600.0


@pytest.fixture(autouse=True)
def _settled_by_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread settles anything meanwhile."""
    monkeypatch.setattr(gate._memory, "settle", None)


def went_back() -> None:
    """Let Redis know more than PostgreSQL."""
    watch.look("test")
    witness.exchange(KnownTimeline.objects.get().generation + 5)
    gate.forget()


def restore(email: Email, **columns: object) -> None:
    """Restore the e-mail, and what is transmitted of it, as they were before it was sent."""
    fields = {field.attname: getattr(email, field.attname) for field in email._meta.concrete_fields}
    Email.objects.filter(pk=email.pk).update(**{**fields, **columns})


def test_an_email_that_was_sent_is_not_due_by_the_clock_of_a_snapshot(mail: MailServer) -> None:
    """The snapshot's clock is an hour behind; when it is set right, the e-mail would be due."""
    email = ship()
    watch.look("test")
    assert runner.send_due().sent == 1
    reading = gate._memory.reading
    assert reading
    gate._memory.reading = reading._replace(database_s=reading.database_s + HOUR_S)
    gate.remember(KnownTimeline.objects.get().generation + 5)
    restore(email, next_attempt_at=email.next_attempt_at + timedelta(seconds=HOUR_S))
    for _ in range(3):  # the loss, the step, and whatever is left
        watch.settle("test")
    assert Email.objects.get().state == EmailState.UNKNOWN
    runner.send_due()
    assert accepted(mail, email) == 1


def test_more_emails_than_a_batch_become_unknown_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_effects, "BATCH", 2)
    emails = [ship() for _ in range(5)]
    went_back()
    watch.settle("test")
    replies = dict(Email.objects.filter(state=EmailState.UNKNOWN).values_list("pk", "last_reply"))
    assert replies.keys() == {email.pk for email in emails}
    assert not [reply for reply in replies.values() if "Before that" in reply]
    assert Recovery.objects.get().emails == len(emails)


def test_an_email_that_waits_after_an_attempt_may_have_been_corrected(mail: MailServer) -> None:
    email = ship()
    Email.objects.update(attempts=1, next_attempt_at=Now() + timedelta(days=1))
    email.refresh_from_db()
    resolving.resolve(email.pk, Act.CORRECT, "ada", "The template was wrong.")
    assert runner.send_due().sent == 1
    went_back()
    restore(email)
    watch.settle("test")
    assert Email.objects.get().state == EmailState.UNKNOWN
    assert accepted(mail, email) == 1


def test_a_correction_sends_nothing_sooner_than_was_asked() -> None:
    """Or PostgreSQL, if it forgot the correction, would not know that the e-mail was due."""
    ship()
    Email.objects.update(next_attempt_at=Now() + timedelta(days=1))
    due = Email.objects.get().next_attempt_at
    resolving.resolve(Email.objects.get().pk, Act.CORRECT, "ada", "The template was wrong.")
    assert Email.objects.get().next_attempt_at == due


def test_a_pass_that_goes_on_meanwhile_trusts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its full scan had come further than what was forgotten."""
    for user in (1, 2, 3):
        inbox.notify(user, "news", "Hello")
    call_command("flush_unread", verbosity=0)
    reconcile.run_pass()
    assert Reconciliation.objects.get().trusted
    Reconciliation.objects.update(scanned_until=2)
    UnreadCount.objects.filter(user_id=1).update(unread_count=0)
    pages = full_scan.pages

    def recovering_meanwhile(*arguments: object) -> Pages:
        monkeypatch.setattr(full_scan, "pages", pages)
        went_back()
        watch.settle("another")
        yield from pages(*arguments)

    monkeypatch.setattr(full_scan, "pages", recovering_meanwhile)
    monkeypatch.setattr("weir.notifications.reconciliation.changed.pages", lambda *_: iter(()))
    reconcile.run_pass()
    assert not Reconciliation.objects.get().trusted
    assert inbox.unread_count(1) == 1


@pytest.mark.parametrize("went", [True, False], ids=["recovered", "nothing lost"])
def test_who_has_lost_the_lease_opens_nothing(went: bool) -> None:
    """One process takes it that nothing is lost, and is held up; another finds a loss."""
    watch.look("one")
    seen = gate.look()
    assert gate.close("It may be." if went else "", seen)
    late = gate._memory.lease
    KnownTimeline.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert gate.close("PostgreSQL has forgotten.", gate.look())
    gate._memory.lease = late
    assert not gate.renew()
    recover, open_gate = partial(recovering.recover, "It may be.", seen, "one"), partial(gate.open_gate, seen)
    with pytest.raises(gate.LeaseLost, match="Another process has taken the lease"):
        recover() if went else open_gate(went_back=False)
    assert KnownTimeline.objects.get().closed_because


def test_a_site_that_is_created_after_a_loss_and_a_step_rests_as_long(settings: Settings) -> None:
    """The loss is as long ago as before, by the new clock, too."""
    settings.WEIR_DEFAULT_RATE = "1/h"
    went_back()
    watch.settle("test")
    KnownTimeline.objects.update(went_back_at=F("went_back_at") - timedelta(seconds=HOUR_S))
    assert gate.close("PostgreSQL's clock was stepped by +3600.0 s.", gate.look(), HOUR_S)
    stepping.settle()
    sites.create_sites(["new.test"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM next_start - clock_timestamp()) FROM weir_ratelimit_site")
        assert cursor.fetchone()[0] > HOUR_S - 60


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
@pytest.mark.parametrize("options", [[], ["--nothing-lost"]], ids=["recover", "nothing lost"])
def test_a_recovery_by_hand_puts_the_times_of_a_step_right_first(step_s: float, options: list[str]) -> None:
    """A site that asked for half an hour has it. The process that would have settled the step was killed."""
    site_settings.set_rate("site.test", "1/s")
    step = timedelta(seconds=step_s)
    Site.objects.update(backed_off_until=Now() + timedelta(minutes=30) - step, next_start=Now() - step)
    assert gate.close(f"PostgreSQL's clock was stepped by {step_s:+.1f} s.", gate.look(), step_s)
    KnownTimeline.objects.update(lease_until=Now() - timedelta(seconds=1))
    call_command("recover", "--why", "status says so", *options)
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM backed_off_until - clock_timestamp()) FROM weir_ratelimit_site")
        assert 1_790 < cursor.fetchone()[0] < 1_802


def test_all_threads_wait_for_the_witness_where_the_process_was_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a fetcher that was frozen: the first one's question is not answered when the second one grants."""
    watch.look("test")
    slots.reserve("warm.test")
    witness.exchange(KnownTimeline.objects.get().generation + 50)
    asked, answers, granted = threading.Event(), threading.Event(), []
    ask = gate._memory.witness
    assert ask

    def slowly(number: int) -> int:
        asked.set()
        answers.wait(20)
        return ask(number)

    def reserve(site: str) -> None:
        try:
            granted.append(slots.reserve(site))
        except OperationalError:
            pass
        finally:
            connection.close()

    monkeypatch.setattr(gate._memory, "witness", slowly)
    gate._memory.asked_at = float("-inf")
    threads = [threading.Thread(target=reserve, args=(name,)) for name in ("a.test", "b.test")]
    threads[0].start()
    assert asked.wait(20)
    threads[1].start()
    threads[1].join(0.5)
    answers.set()
    for thread in threads:
        thread.join(20)
    assert granted == []
