"""Whether PostgreSQL has forgotten something."""

from datetime import UTC, datetime
from typing import Any

from tests.cases import for_each
from weir.postgres.timeline.seen import Seen
from weir.workers.recovery.verdict import verdict

SAME = Seen(
    timeline="00000001",
    cluster="1/5",
    generation=100,
    numbered_at=datetime(2026, 11, 24, 12, tzinfo=UTC),
    is_synchronous=False,
    closed_because="",
    actual_timeline="00000001",
    actual_cluster="1/5",
    clock_s=0.0,
    steps=0,
    known=100,
)
PROMOTED: dict[str, Any] = {"actual_timeline": "00000002"}


@for_each("known", [0, 99, 100])
def test_the_same_history_has_forgotten_nothing(known: int) -> None:
    assert not verdict(SAME._replace(known=known))


def test_a_number_that_somebody_has_seen_was_forgotten() -> None:
    assert "has forgotten what was committed after 2026-11-24 12:00:00 UTC" in verdict(SAME._replace(known=101))


def test_a_standby_for_which_commits_waited_has_them_all() -> None:
    assert not verdict(SAME._replace(**PROMOTED, is_synchronous=True))


def test_one_for_which_they_did_not_wait_may_lack_the_last() -> None:
    assert "may be missing" in verdict(SAME._replace(**PROMOTED))


def test_without_a_witness_nothing_is_certain() -> None:
    assert "nothing is known" in verdict(SAME._replace(**PROMOTED, is_synchronous=True, known=0))


def test_a_synchronous_standby_that_lacks_what_was_seen_has_forgotten_it() -> None:
    assert "has forgotten" in verdict(SAME._replace(**PROMOTED, is_synchronous=True, known=101))


def test_a_copy_may_have_forgotten_anything() -> None:
    assert "is a copy" in verdict(SAME._replace(actual_cluster="2/5", is_synchronous=True))
