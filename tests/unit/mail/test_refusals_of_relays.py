"""What a relay refuses in words about us: whom else it is asked about, and when."""

from itertools import pairwise

import pytest

from weir.workers.mail.sending.refusals import (
    FEW,
    LONGEST_PAUSE_S,
    MOST_DOMAINS,
    PAUSE_S,
    WORKS_FOR_S,
    Budget,
    Refusals,
)


def test_a_budget_is_twice_as_large_after_each_pause() -> None:
    budget, now = Budget(), 100.0
    for number in (FEW, 2 * FEW, 4 * FEW):
        for _ in range(number):
            assert budget.pause_s(now) == 0.0
            budget.spend(now)
        assert budget.pause_s(now) == PAUSE_S
        now += PAUSE_S


@pytest.mark.parametrize("domains", [1, 10_000], ids=["one domain", "many domains"])
def test_all_of_ten_thousand_are_tried_within_a_minute(domains: int) -> None:
    """By the pauses; and those behind a minute's worth of pauses are a dozen times as many as those behind none."""
    refusals, now, tried = Refusals(), 0.0, 0
    while tried < 10_000:
        domain = f"d{tried % domains}"
        if wait_s := refusals.enter("order", domain, now, is_new=True):
            now += wait_s
        else:
            refusals.refused("order", domain, "554 no", now)
            tried += 1
    assert now <= 60.0


def test_what_was_refused_is_tried_again_one_at_a_time_and_ever_more_seldom() -> None:
    """However many wait; a new one goes beside them."""
    refusals, now, tried = Refusals(), 0.0, []
    refusals.refused("order", "a", "554 no", now)
    while now < 600:
        for _ in range(100):
            if not refusals.enter("order", "a", now, is_new=False):
                tried.append(now)
                refusals.refused("order", "a", "554 no", now)
        now += 1
    assert tried[:5] == [5, 15, 35, 75, 135]
    assert {later - earlier for earlier, later in pairwise(tried[4:])} == {LONGEST_PAUSE_S}
    assert refusals.waits_s("order", "b", now, is_new=True) == 0.0


def test_a_kind_that_is_refused_before_the_recipient_is_known_waits_whatever_its_recipient() -> None:
    refusals = Refusals()
    refusals.refused("order", "", "553 no", 0.0)
    assert refusals.enter("order", "a", 1.0, is_new=True) == PAUSE_S - 1
    assert refusals.enter("note", "a", 1.0, is_new=True) == 0.0
    assert refusals.enter("order", "a", PAUSE_S, is_new=True) == 0.0
    assert refusals.enter("order", "b", PAUSE_S, is_new=True) == 2 * PAUSE_S


def test_a_relay_that_accepts_one_is_tried_with_all() -> None:
    """To look whether one waits is no try."""
    refusals = Refusals()
    assert not refusals.accepted("order", 0.0)
    for number in range(FEW):
        refusals.refused("order", f"d{number}", "554 no", 0.0)
    assert (refusals.pause_s(1.0), refusals.said) == (PAUSE_S - 1, "554 no")
    assert refusals.accepted("order", 1.0)
    assert (refusals.pause_s(1.0), refusals.said) == (0.0, "")
    for _ in range(2):
        assert refusals.waits_s("order", "d0", 1.0, is_new=False) == 0.0


@pytest.mark.parametrize("domains", [1, 10_000], ids=["one domain", "many domains"])
def test_each_of_many_that_it_takes_is_found_soon(domains: int) -> None:
    """What it takes among thousands that it does not take does not make it begin anew with a few."""
    refusals, now = Refusals(), 100.0
    for number in range(10_000):
        domain = f"d{number % domains}"
        while wait_s := refusals.enter("order", domain, now, is_new=True):
            now += wait_s
        if number % 1_000 == 999:
            refusals.accepted("order", now)
        else:
            refusals.refused("order", domain, "554 no", now)
    assert now - 100.0 <= 60.0
    later = now + WORKS_FOR_S + 1
    for number in range(FEW):
        assert refusals.pause_s(later) == 0.0
        refusals.refused("order", f"late{number}", "554 no", later)
    assert refusals.pause_s(later) == PAUSE_S


def test_a_kind_that_is_refused_waits_whatever_others_are_accepted() -> None:
    """Else one of it would be tried for each of the others that is accepted, for ever."""
    refusals, tried = Refusals(), 0
    for second in range(600):
        if not refusals.enter("order", "a", float(second), is_new=True):
            tried += 1
            refusals.refused("order", "", "553 no", float(second))
        assert not refusals.accepted("note", float(second))
        assert (refusals.said, refusals.waits_s("note", "a", float(second), is_new=True)) == ("553 no", 0.0)
    assert tried <= 15
    assert refusals.accepted("order", 600.0)
    assert refusals.waits_s("order", "a", 600.0, is_new=True) == 0.0


def test_only_so_many_domains_are_remembered() -> None:
    """The oldest is forgotten: who writes to it is one that was never refused."""
    refusals = Refusals()
    for number in range(MOST_DOMAINS + 1):
        refusals.refused("order", f"d{number}", "554 no", 0.0)
    assert refusals.waits_s("order", "d1", 1.0, is_new=False) > 0.0
    assert refusals.waits_s("order", "d0", 1.0, is_new=False) == 0.0
