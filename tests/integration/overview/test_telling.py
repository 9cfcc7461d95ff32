"""Operators are told by e-mail what begins to need somebody: once, by several runs, and by one that is killed, too."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import InThreads
from tests.unit.overview.test_problems import process, seen
from weir.workers.mail import kinds
from weir.workers.mail.models import Email
from weir.workers.orders import shipping
from weir.workers.orders.models import SHIPPED, Order
from weir.workers.overview import checks, emails, telling
from weir.workers.overview.models import OpenProblem
from weir.workers.overview.overview import Overview
from weir.workers.overview.problems import PersonNeeded, Section, problems

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

OPERATORS = ["ann@example.com", "Ben <ben@example.com>"]


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
    assert "See docs/runbooks.md#weiremailsunknown" in rendering
    assert re.search(r"Since: \d{4}-\d\d-\d\d \d\d:\d\d UTC", rendering)
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


def test_what_a_mail_server_says_controls_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it keep operators from being told of anything."""
    said = "550 \x1b[31mNo\u202e\0"
    monkeypatch.setattr(
        telling, "overview", lambda: seen(failing=30, failing_of=99, failing_kind="news", failing_reply=said)
    )
    telling.tell()
    later()
    telling.tell()
    assert "550 \ufffd[31mNo\ufffd\ufffd" in {problem["text"][-14:-1] for problem in told()[0].context["problems"]}


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


def test_without_operators_nothing_is_looked_at(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR_OPERATORS = []
    monkeypatch.setattr(telling, "overview", lambda: pytest.fail("It looked."))
    assert telling.tell() == 0
    assert not OpenProblem.objects.exists()


STOPPED: dict[str, Any] = {"processes": [], "broker_error": "refused", "missing_migrations": 1}
WRONG: dict[str, Any] = {
    "stalled": 1,
    "stalled_fetch": 17,
    "stalled_sites": ["a.example"],
    "halted": 1,
    "halted_site": "b.example",
    "halted_sites": ["b.example"],
    "missed": 900,
    "missed_of": 4_000,
    "uncalled": 1,
    "uncalled_task": "shop.tasks.arived",
    "uncalled_as": "on_done",
    "broken_endpoints": 1,
    "broken_endpoint": 7,
    "broken_endpoint_name": "orders",
    "broken_endpoint_error": "the site answered 503",
    "unknown": 1,
    "unknown_kinds": ["news"],
    "failing": 30,
    "failing_of": 99,
    "failing_kind": "news",
    "failing_reply": "550 No",
    "oldest_pending_s": 601.0,
}
LATER = {
    "stalled": 2,
    "stalled_fetch": 18,
    "stalled_sites": ["c.example", "a.example"],
    "halted": 2,
    "halted_sites": ["d.example", "b.example"],
    "broken_endpoints": 2,
    "broken_endpoint_error": "no answer in time",
    "missed": 901,
    "unknown": 2,
    "unknown_kinds": ["note", "news"],
    "failing": 31,
    "failing_reply": "551 No",
    "oldest_pending_s": 602.0,
}


def keys(overview: Overview) -> list[str]:
    return [telling.key(problem) for problem in problems(overview)]


def test_each_problem_is_told_by_itself() -> None:
    """No other one with the same runbook hides it: not another process that is missing, nor another queue."""
    silent = [process("mailer", "silent")._replace(name=f"mailer.{number}@host") for number in range(3)]
    alone = [replace(seen(), processes=[process("worker"), process("fetcher"), *silent]), replace(seen(), **STOPPED)]
    waiting = {"weir.fetch": 9_000, "weir.ticks": 9_000, "default": 90_000}
    for overview in [*alone, replace(seen(**WRONG), messages=waiting)]:
        found = keys(overview)
        assert len(found) > 2
        assert len({*found}) == len(found)


def test_a_problem_is_the_same_while_its_numbers_change() -> None:
    """Nor do other sites, kinds or fetches make it a new one, of which operators would be told again."""
    assert keys(seen(**WRONG)) == keys(seen(**WRONG | LATER))


def test_a_key_has_room_for_whatever_a_problem_is_about() -> None:
    strange = telling.key(PersonNeeded("x", "y", Section("runbooks", "WeirEmailsFail"), about="\0" + "ü" * 5_000))
    assert (len(strange), "\0" in strange) == (199, False)


@pytest.mark.parametrize("operator", ["nobody", "a@b@c", "ann@example.com\nBcc: x@example.com"])
def test_who_cannot_be_written_to_is_refused(settings: Settings, operator: str) -> None:
    assert checks.operators_can_be_told() == []
    settings.WEIR_OPERATORS = [operator]
    assert [error.id for error in checks.operators_can_be_told()] == ["weir.E036"]
