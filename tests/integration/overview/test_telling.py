"""Operators are told by e-mail what begins to need somebody: once, by several runs, and by one that is killed, too."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import InThreads
from weir.workers.mail import kinds
from weir.workers.mail.models import Email
from weir.workers.orders import shipping
from weir.workers.orders.models import SHIPPED, Order
from weir.workers.overview import checks, emails, telling
from weir.workers.overview.models import OpenProblem
from weir.workers.overview.problems import PersonNeeded, Section, Target, TargetKind

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

OPERATORS = ["ann@example.com", "Ben <ben@example.com>"]
UNKNOWN = "WeirEmailsUnknown e-mails unknown"


@pytest.fixture(autouse=True)
def _operators(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR_OPERATORS = OPERATORS
    monkeypatch.setitem(kinds._kinds, telling.KIND, emails.needs_somebody)


@pytest.fixture
def email() -> None:
    unknown()


def unknown() -> None:
    number = Order.objects.count()
    shipping.ship(Order.objects.create(number=str(number), customer_email=f"{number}@example.com").pk)
    Email.objects.filter(kind=SHIPPED).update(
        state="unknown", phase="after dot", last_reply="lost", claim_token=uuid4(), sending_since=Now(), ended_at=Now()
    )


def later(seconds: float = telling.LASTS_S) -> None:
    """Let this time pass, as far as problems know."""
    moved = {name: F(name) - timedelta(seconds=seconds) for name in ("since", "seen_at")}
    OpenProblem.objects.update(**moved)


def told() -> list[Email]:
    return list(Email.objects.filter(kind=telling.KIND).order_by("pk"))


@pytest.mark.usefixtures("email")
def test_each_operator_is_told_once() -> None:
    """When it has lasted for a minute, whatever its numbers do, and of all that began together by one e-mail."""
    assert telling.tell() == 0
    later()
    unknown()
    assert telling.tell() == OpenProblem.objects.count() > 1
    later()
    assert telling.tell() == 0
    assert [email.recipient for email in told()] == ["ann@example.com", "ben@example.com"]
    [rendering, _] = [bytes(email.rendering.content).decode() for email in told()]
    assert "2 e-mails may have arrived or not" in rendering
    assert "manage.py emails list" in rendering
    assert f"Subject: Weir: {OpenProblem.objects.count()} things need somebody" in rendering


@pytest.mark.usefixtures("email")
def test_what_comes_again_is_told_again_unless_it_was_gone_for_minutes_only() -> None:
    for gone_s, in_all in ((telling.FORGOTTEN_AFTER_S / 2, 1), (telling.FORGOTTEN_AFTER_S + 1, 2)):
        telling.tell()
        later()
        telling.tell()
        kept = list(Email.objects.filter(kind=SHIPPED).values_list("pk", flat=True))
        Email.objects.filter(pk__in=kept).update(state="sent", claim_token=None, sending_since=None, sent_at=Now())
        later(gone_s)
        telling.tell()
        Email.objects.filter(pk__in=kept).update(
            state="unknown", claim_token=uuid4(), sending_since=Now(), sent_at=None
        )
        telling.tell()
        later()
        telling.tell()
        of_unknown = [email for email in told() if "may have arrived or not" in str(email.context)]
        assert len(of_unknown) == in_all * len(OPERATORS)


@pytest.mark.usefixtures("email")
def test_of_runs_at_the_same_time_one_tells(in_threads: InThreads) -> None:
    telling.tell()
    later()
    numbers = in_threads(6, lambda _number: telling.tell())
    assert sorted(numbers)[:-1] == [0] * 5
    assert len(told()) == len(OPERATORS)


@pytest.mark.usefixtures("email")
def test_a_run_that_is_killed_has_told_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    telling.tell()
    later()
    send = telling._send

    def killed(*arguments: Any) -> None:
        send(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(telling, "_send", killed)
        with pytest.raises(KeyboardInterrupt):
            telling.tell()
    assert not told()
    assert telling.tell()
    assert len(told()) == len(OPERATORS)


@pytest.mark.usefixtures("email")
def test_without_operators_nothing_is_looked_at(settings: Settings) -> None:
    settings.WEIR_OPERATORS = []
    assert telling.tell() == 0
    assert not OpenProblem.objects.exists()


def test_a_problem_is_known_by_its_alarm_and_what_it_is_about() -> None:
    """Not by its words, which have numbers; nor by all of a stranger's."""
    section = Section("runbooks", "WeirEmailsUnknown")
    many = [Target(TargetKind.EMAILS, "unknown"), Target(TargetKind.EMAIL_KIND, "x")]
    assert telling.key(PersonNeeded("2 e-mails", "do", section, many)) == UNKNOWN
    assert telling.key(PersonNeeded("3 e-mails", "do", section, many[:1])) == UNKNOWN
    strange = telling.key(PersonNeeded("x", "y", section, [Target(TargetKind.SITE, "\0" + "ü" * 5_000)]))
    assert (len(strange), "\0" in strange) == (199, False)


@pytest.mark.parametrize("operator", ["nobody", "a@b@c", "ann@example.com\nBcc: x@example.com"])
def test_who_cannot_be_written_to_is_refused(settings: Settings, operator: str) -> None:
    assert checks.operators_can_be_told() == []
    settings.WEIR_OPERATORS = [operator]
    assert [error.id for error in checks.operators_can_be_told()] == ["weir.E036"]
