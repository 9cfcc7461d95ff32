"""By which channel a user is told: the kind's own, or the one that the user has chosen."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from tests.cases import for_each
from tests.integration.digests.digested import (
    ALARM,
    CHAT,
    KIM,
    MARKS,
    NEWS,
    OWN,
    ROBIN,
    Relay,
    address,
    due,
    kinds_of_test,
    lines,
    relay,
    send,
    tell,
    the_email,
    told,
    unread,
)
from weir.digests import checks, gathering
from weir.notifications import checks as notification_checks
from weir.notifications import inbox, user_keys
from weir.notifications.channels import kinds, preferences, telling
from weir.notifications.channels.kinds import UnknownNotificationKind
from weir.notifications.maintenance import forgetting
from weir.notifications.models import Channel, Notification, Preference
from weir.postgres import weir_apps
from weir.workers import task_names
from weir.workers.beat import work
from weir.workers.mail import suppression
from weir.workers.mail.models import Email
from weir.workers.mail.phases import Phase
from weir.workers.mail.sending import runner
from weir.workers.mail.transports.base import Refused

pytestmark = MARKS
__all__ = ["kinds_of_test", "relay"]
ORIGIN = "https://shop.example"


def test_each_kind_has_its_channel_and_each_user_may_choose_another(relay: Relay) -> None:
    """One call for many users tells each by the user's own channel; so do calls for one."""
    assert preferences.preferences(KIM) == OWN
    preferences.set_preference(KIM, NEWS, "none")
    preferences.set_preference(KIM, CHAT, "digest")
    preferences.set_preference(KIM, CHAT, "email")
    assert preferences.preferences(KIM) == {NEWS: Channel.NONE, ALARM: Channel.EMAIL, CHAT: Channel.EMAIL}
    assert (preferences.preference(ROBIN, CHAT), Preference.objects.count()) == (Channel.PAGE, 2)
    assert inbox.notify_many([KIM, ROBIN], NEWS, "news") == 1
    assert inbox.notify_many([KIM, ROBIN], CHAT, "chat", dedupe_key="1") == 2
    assert inbox.notify_many([KIM, ROBIN], CHAT, "chat", dedupe_key="1") == 0
    assert tell("none", KIM).pk is None
    assert inbox.notify(KIM, CHAT, "again", dedupe_key="1").title == "chat"
    assert (unread(), unread(ROBIN)) == ({"chat"}, {"news", "chat"})
    runner.send_due()
    assert [(email["To"], email["Subject"]) for email in relay.came] == [("plain.7@customers.example", "chat")]
    assert (unread(), unread(ROBIN)) == (set(), {"news", "chat"})
    send()
    assert [lines(email) for email in relay.came[1:]] == [["news"]]
    assert unread(ROBIN) == {"chat"}


def test_an_email_of_its_own_is_sent_at_once_unless_it_is_read_before(relay: Relay) -> None:
    first, second = tell("fire", kind=ALARM), tell("flood", kind=ALARM)
    assert unread() == {"fire", "flood"}
    assert inbox.mark_read(KIM, [first.pk]) == 1
    runner.send_due()
    assert [email["Subject"] for email in relay.came] == ["flood"]
    assert unread() == set()
    assert sorted(Email.objects.values_list("state", flat=True)) == ["cancelled", "sent"]
    assert inbox.mark_unread(KIM, [second.pk]) == 1
    send()
    assert (len(relay.came), unread()) == (1, {"flood"})


def test_who_chooses_the_page_is_not_told_by_what_was_queued(relay: Relay) -> None:
    tell("a"), tell("b")
    due()
    gathering.gather_due(0.0)
    preferences.set_preference(KIM, NEWS, "page")
    send()
    the_email("cancelled")
    assert (relay.came, unread()) == ([], {"a", "b"})


def later() -> None:
    raise Refused("452 Later", Phase.AFTER_DOT, is_permanent=False)


def test_an_email_of_its_own_outlives_what_is_chosen_about_digests(relay: Relay) -> None:
    """Who saves `email` again, or wants no more digests, still gets it, also after an attempt that was refused."""
    tell("fire", kind=ALARM)
    tell("waits")
    preferences.set_preference(KIM, ALARM, "email")
    preferences.set_preference(KIM, NEWS, "email")
    relay.after.append(later)
    runner.send_due()
    the_email("pending")
    preferences.stop_digests(KIM)
    preferences.set_preference(KIM, ALARM, "email")
    send()
    assert ([email["Subject"] for email in relay.came], unread()) == (["fire"], {"waits"})
    tell("flood", kind=ALARM)
    preferences.set_preference(KIM, ALARM, "page")
    runner.send_due()
    assert (len(relay.came), unread()) == (1, {"waits", "flood"})


def test_who_has_no_address_is_told_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_addresses", [lambda users: dict.fromkeys(users, "")])
    tell("a"), tell("fire", kind=ALARM)
    send()
    assert (Email.objects.count(), unread()) == (0, {"a", "fire"})
    assert not work._questions[task_names.GATHER_DIGESTS].has_work()


def test_who_is_on_the_suppression_list_is_told_on_the_page(relay: Relay) -> None:
    """The next digest is tried later and later; whoever is taken off the list gets it."""
    suppression.suppress(address(KIM), "It bounced.")
    row = tell("a")
    send()
    assert (relay.came, the_email("suppressed").attempts, unread()) == ([], 0, {"a"})
    row.refresh_from_db()
    assert row.digest_id is None
    assert not work._questions[task_names.GATHER_DIGESTS].has_work()
    suppression.release_hash(suppression.address_hash(address(KIM)))
    send()
    assert (told(relay), unread()) == ({"a": 1}, set())


def test_who_gathers_does_not_wait_for_a_reader(relay: Relay) -> None:
    """What somebody has locked is left to the next digest, and makes no empty one."""
    first, second = tell("a"), tell("robin's", ROBIN)
    due()

    def gather() -> int:
        try:
            return gathering.gather_due(1.0)
        finally:
            connection.close()

    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        assert inbox.mark_read(KIM, [first.pk]) == 1
        assert pool.submit(gather).result(20) == 1
    the_email("pending")
    runner.send_due()
    assert (told(relay), unread(ROBIN), second.user_id) == ({"robin's": 1}, set(), ROBIN)


def test_a_forgotten_user_leaves_no_preference_and_no_digest(relay: Relay) -> None:
    preferences.set_preference(KIM, NEWS, "digest")
    tell("a")
    due()
    gathering.gather_due(0.0)
    forgetting.forget_user(KIM)
    send()
    assert (relay.came, Preference.objects.count(), Notification.objects.count()) == ([], 0, 0)
    the_email("cancelled")


def test_one_digest_tells_so_many_and_the_next_the_others(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "MOST_TOLD", 4)
    for title in "abcdef":
        tell(title)
    send()
    send()
    assert [email["Subject"] for email in relay.came] == ["4 unread notifications", "2 unread notifications"]
    assert told(relay) == dict.fromkeys("abcdef", 1)


def test_who_has_very_many_gets_one_digest_of_what_is_due_and_an_hour_later_another(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long one run gathers. What is due comes first, also behind older ones that are not."""
    monkeypatch.setattr(telling, "MOST_TOLD", 4)
    for title in "abcdefghij":
        tell(title)
    Notification.objects.filter(title__in="efghij").order_by().update(digest_due_at=Now())
    assert gathering.gather_due(20.0) == 1
    runner.send_due()
    assert (told(relay), unread()) == (dict.fromkeys("efgh", 1), set("abcdij"))
    in_an_hour = Notification.objects.filter(title__in="ij", digest_due_at__gt=Now() + timedelta(minutes=59))
    assert in_an_hour.count() == 2


def test_while_mailers_stand_still_a_user_has_one_digest(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has become due meanwhile is told by the digest that waits; one that a mailer has claimed gets no more."""
    monkeypatch.setattr(telling, "MOST_TOLD", 4)

    def gather(*titles: str) -> None:
        for title in titles:
            tell(title)
        due()
        gathering.gather_due(20.0)

    gather("a")
    gather("b", "c")
    the_email("pending")
    relay.at_begin.append(lambda: gather("d"))
    runner.send_due()
    runner.send_due()
    assert ([lines(email) for email in relay.came], unread()) == ([["a", "b", "c"], ["d"]], set())
    gather("e", "f", "g")
    gather("h", "i")
    gather("k")
    runner.send_due()
    assert (lines(relay.came[-1]), unread()) == (["e", "f", "g", "h"], {"i", "k"})


def test_what_has_expired_is_not_told_though_it_is_not_deleted_yet(relay: Relay) -> None:
    """Neither if it expires after the digest was drafted."""
    for title in "abc":
        tell(title)
    expire = Notification.objects.filter(title="b")
    Notification.objects.filter(title="a").update(expires_at=Now())
    relay.at_begin.append(lambda: expire.update(expires_at=Now()))
    send()
    send()
    assert (told(relay), unread()) == ({"c": 1}, {"a", "b"})


@for_each(
    "call, error, says",
    [
        (lambda: preferences.set_preference(KIM, "new", "page"), UnknownNotificationKind, "Did you mean news?"),
        (lambda: preferences.set_preference(KIM, NEWS, "sms"), ValueError, "write page, email, digest, none"),
        (lambda: preferences.set_preference("kim", NEWS, "page"), ValueError, "must be a whole number"),
        (lambda: kinds.register("a b"), ValueError, "such as order.shipped"),
        (lambda: kinds.register(NEWS), ValueError, "two kinds"),
        (lambda: kinds.register("x", channel="fax"), ValueError, "no channel 'fax'"),
        (lambda: kinds.register("x", digest_after=timedelta()), ValueError, "above 0"),
    ],
)
def test_bad_wishes_say_what_to_write(call: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        call()  # type: ignore[operator]


def test_checks_say_what_digests_lack(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """weir.E044: no app that tells, or no addresses; weir.W046: no link to unsubscribe."""

    def found() -> list[str]:
        told = notification_checks.what_is_told_by_email_has_an_address()
        return [check.id for check in (*told, *checks.users_can_unsubscribe()) if check.id]

    assert found() == ["weir.W046"]
    settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN = ORIGIN
    assert found() == []
    monkeypatch.setattr(kinds, "_addresses", [])
    assert found() == []
    monkeypatch.setattr(user_keys, "are_of_accounts", lambda: False)
    assert found() == ["weir.E044"]
    monkeypatch.setattr(weir_apps, "is_installed", lambda _name: False)
    assert found() == ["weir.E044"]
    monkeypatch.setattr(kinds, "_kinds", {})
    assert found() == []
