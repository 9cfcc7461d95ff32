"""The commands of unread numbers do what they print, and print what they do."""

from io import StringIO

import pytest
import redis
from django.core.management import call_command

from tests.integration.conftest import StartPython
from tests.integration.notifications.unread import MARKS, assert_exact, kept, lost, make_wrong
from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.models import Doubt, UnreadCount
from weir.notifications.reconciliation import changed, drift, page, repairs

pytestmark = [*MARKS, pytest.mark.usefixtures("looks_at_once")]


def output_of(command: str, *arguments: str) -> list[str]:
    """Return the lines that the command prints."""
    out = StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue().splitlines()


@pytest.fixture
def wrong(valkey: redis.Redis) -> dict[int, int]:  # noqa: ARG001  first of all, it empties Redis
    """Make two of five numbers wrong; returns by how much the rows differ."""
    inbox.notify_many(range(1, 6), "news", "Hello")
    flush.flush_sealed()
    counters.add({2: 1_000, 4: -3})
    return {2: -1_000, 4: 3}


# --- flush_unread ---------------------------------------------------------------------------------


def test_flush_unread_says_how_many_numbers_it_wrote() -> None:
    """Deltas that waited in Redis are in PostgreSQL afterwards."""
    inbox.notify_many(range(1_234), "news", "Hello")
    assert output_of("flush_unread") == ["1,234 unread numbers written."]
    assert UnreadCount.objects.count() == 1_234
    assert output_of("flush_unread") == ["0 unread numbers written."]


# --- reconcile_unread -----------------------------------------------------------------------------


def test_reconcile_unread_repairs_and_prints_every_wrong_number(wrong: dict[int, int]) -> None:
    """One line a user, and how many there were."""
    assert output_of("reconcile_unread") == ["user 2: -1,000", "user 4: +3", f"{len(wrong)} unread numbers repaired."]
    assert output_of("reconcile_unread") == ["No unread number is wrong."]
    assert_exact()


@pytest.mark.usefixtures("wrong")
def test_reconcile_unread_looks_only_at_the_users_that_are_named() -> None:
    """--user may be repeated, and name users who are right or do not exist."""
    assert output_of("reconcile_unread", "--user", "1", "--user=99") == ["No unread number is wrong."]
    assert output_of("reconcile_unread", "--user=4", "--user=1", "--user=4") == [
        "user 4: +3",
        "1 unread number repaired.",
    ]
    assert kept([1, 2, 4]) == {1: 1, 2: 1_001, 4: 1}


@pytest.mark.usefixtures("wrong")
def test_a_dry_run_of_reconcile_unread_changes_nothing() -> None:
    """It prints what it would repair."""
    printed = ["user 2: -1,000", "user 4: +3", "2 unread numbers would be repaired."]
    numbers = list(UnreadCount.objects.order_by("pk").values())
    for _ in range(2):
        assert output_of("reconcile_unread", "--dry-run") == printed
    assert output_of("reconcile_unread", "--dry-run", "--user=2") == [printed[0], "1 unread number would be repaired."]
    assert list(UnreadCount.objects.order_by("pk").values()) == numbers
    assert not Doubt.objects.exists()


IN_A_TERMINAL = """
from django.core.management import call_command
from weir.notifications.reconciliation import drift
drift.APART_S = 0.0
reader, terminal = os.openpty()
os.dup2(terminal, 2)
call_command("reconcile_unread")
os.dup2(1, 2)
os.close(terminal)
shown = b""
try:
    while read := os.read(reader, 65_536):
        shown += read
except OSError:  # Linux says so where all is read, and nobody has the terminal any more
    pass
print("shown:", shown)
"""


@pytest.mark.usefixtures("wrong")
def test_reconcile_unread_shows_its_progress_in_a_terminal_only(
    start_python: StartPython, capfd: pytest.CaptureFixture[str]
) -> None:
    """A bar on stderr if that is a terminal, and otherwise nothing at all."""
    *_, last, shown = start_python(IN_A_TERMINAL).communicate()[0].splitlines()
    assert last == "2 unread numbers repaired."
    assert "Users" in shown
    assert "5/5" in shown
    output_of("reconcile_unread")
    assert capfd.readouterr().err == ""


# --- what the command calls -----------------------------------------------------------------------


@pytest.mark.parametrize("users", [None, [4, 2, 2, 77]], ids=["all", "some"])
def test_reconcile_users_repairs_returns_and_reports_its_progress(
    users: list[int] | None, wrong: dict[int, int]
) -> None:
    """Of all users or of some: the drifts are returned, and each user who was compared is counted once."""
    done: list[int] = []
    assert reconcile.reconcile_users(users, dry_run=True).first == wrong
    seen: list[tuple[int, int]] = []
    repaired = reconcile.reconcile_users(users, on_progress=done.append, on_drift=lambda *drift: seen.append(drift))
    assert dict(seen) == repaired.first == wrong
    assert sum(done) == (3 if users else 5)
    assert reconcile.reconcile_users(users).first == {}
    assert_exact()


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_reconcile_users_takes_slice_after_slice(
    at_once: int, wrong: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many users a slice has, and however many of these differ."""
    monkeypatch.setattr(page, "USERS", at_once)
    monkeypatch.setattr(repairs, "MOST", at_once)
    assert reconcile.reconcile_users().first == wrong
    assert_exact()


def test_a_report_names_the_first_users_only_and_counts_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement may make a million numbers wrong: a caller that wants to know each gets them one by one."""
    assert reconcile.run_pass()
    monkeypatch.setattr(changed, "SETTLED_S", 0.0)
    monkeypatch.setattr(repairs, "MOST", 2)
    monkeypatch.setattr(repairs, "FIRST", 3)
    monkeypatch.setattr(page, "USERS", 1)
    make_wrong(*range(5))
    seen: list[int] = []
    dry_run = reconcile.reconcile_users(dry_run=True, on_drift=lambda user_id, _drift: seen.append(user_id))
    assert seen == [0, 1, 2, 3, 4]
    assert (dry_run.users, dry_run.first) == (5, {0: 1, 1: 1, 2: 1})
    report = reconcile.run_pass()
    assert report
    assert report.repaired == dry_run
    assert_exact()


def test_a_user_who_cannot_be_judged_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that differs and changes too fast to decide is left to the next pass, and its rows are counted."""

    def moved(_looked_at: float) -> None:
        with lost():
            inbox.notify(1, "news", "lost")

    cannot = (
        "1 user changed too fast, or lost touch with Redis, and cannot be judged now: "
        "the schedule looks again, every ten seconds, and those who differ have their rows counted until then."
    )
    undecided = ["No unread number is known to be wrong.", cannot]
    make_wrong(1)
    with monkeypatch.context() as patched:
        patched.setattr(drift, "_wait_until_apart", moved)
        assert output_of("reconcile_unread", "--user=1", "--dry-run") == undecided
        assert not Doubt.objects.exists()
        assert output_of("reconcile_unread", "--user=1") == undecided
        assert Doubt.objects.get().pk == 1
    assert output_of("reconcile_unread", "--user=2") == ["No unread number is wrong.", cannot]
    assert reconcile.run_pass()
    assert output_of("reconcile_unread") == ["No unread number is wrong."]
    assert_exact(1)
