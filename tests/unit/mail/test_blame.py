"""Whom a relay means that refuses e-mails for good, in words of nobody: it, or one e-mail."""

from datetime import UTC, datetime

import pytest

from weir.workers.mail.sending.blame import MOST_REMEMBERED, Blame, Suspects
from weir.workers.mail.sending.refusals import FEW

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ODD = 1


def refused(suspects: Suspects, email: int, *, is_doubtful: bool = True) -> Blame:
    """Return what it pays."""
    return suspects.refused(email, is_doubtful=is_doubtful, was_due_before=False)


def test_one_that_is_refused_again_although_another_was_accepted_is_to_blame() -> None:
    suspects = Suspects()
    assert [refused(suspects, ODD) for _ in range(2)] == [Blame.PERHAPS] * 2
    suspects.accepted(NOW)
    assert refused(suspects, ODD) == Blame.EMAIL


def test_one_that_is_refused_again_is_not_to_blame_when_few_in_a_row_are_refused_with_it() -> None:
    """Though it was refused alone before: an attempt, and no more."""
    suspects = Suspects()
    refused(suspects, ODD)
    suspects.accepted(NOW)
    for other in range(FEW - 1):
        refused(suspects, ODD + 1 + other)
    assert refused(suspects, ODD) == Blame.PERHAPS


def test_where_a_reply_says_that_we_are_meant_it_is_an_attempt() -> None:
    suspects = Suspects()
    assert refused(suspects, ODD, is_doubtful=False) == Blame.NOBODY
    suspects.accepted(NOW)
    assert [refused(suspects, ODD, is_doubtful=False) for _ in range(2)] == [Blame.PERHAPS, Blame.NOBODY]
    suspects.accepted(NOW)
    assert refused(suspects, ODD) == Blame.PERHAPS  # once in words of us is not once in words of nobody


def test_a_relay_that_refuses_all_costs_nobody_anything_however_often_each_is_asked_about() -> None:
    suspects = Suspects()
    paid = [refused(suspects, email) for email in range(100)]
    assert paid == [Blame.PERHAPS] * (FEW - 1) + [Blame.NOBODY] * (101 - FEW)
    assert {refused(suspects, email) for email in range(100)} == {Blame.NOBODY}


@pytest.mark.parametrize("taken", [1, 50])
def test_a_relay_that_takes_some_and_then_refuses_all_the_rest_again_fails_none(taken: int) -> None:
    """Such as one with a limit by the hour, in words that nobody knows: each hour is an attempt.

    The last two alone look as odd ones do.
    """
    suspects, left, paid = Suspects(), list(range(1_000)), dict.fromkeys(range(1_000), 0)
    hours = 0
    while len(left) >= taken + FEW:
        hours += 1
        for email in left[taken:]:
            blame = refused(suspects, email)
            assert blame < Blame.EMAIL
            paid[email] += blame
        for _ in left[:taken]:
            suspects.accepted(NOW)
        del left[:taken]
    assert max(paid.values()) <= hours


def test_many_odd_ones_among_those_that_are_accepted_all_fail() -> None:
    suspects, failed, odd = Suspects(), set(), range(100)
    for _ in range(2):
        for email in odd:
            if refused(suspects, email) == Blame.EMAIL:
                failed.add(email)
            suspects.accepted(NOW)
    assert failed == set(odd)


def test_only_so_many_are_remembered() -> None:
    """One that is forgotten is asked about once more."""
    suspects = Suspects()
    for email in range(MOST_REMEMBERED + 1):
        refused(suspects, email)
        suspects.accepted(NOW)
    assert refused(suspects, MOST_REMEMBERED) == Blame.EMAIL
    suspects.accepted(NOW)
    assert [refused(suspects, 0), len(suspects._at_last_refusal)] == [Blame.PERHAPS, MOST_REMEMBERED]


def test_what_another_process_was_refused_is_an_attempt() -> None:
    assert Suspects().refused(ODD, is_doubtful=False, was_due_before=True) == Blame.PERHAPS
