"""The demo's figures: when a site had a backlog, how much of its rate was used meanwhile, and what was broken."""

from dataclasses import replace

import pytest

from demo.fakes.site_log import Arrival
from demo.figures import Backlog, Emails, Figures, Totals, Unread, measure, used_share, windows
from tests.cases import for_each

S = 1_000_000_000


def looks(*hosts_at: set[str]) -> list[Backlog]:
    """Return one look a second, each with the hosts that had a backlog then."""
    return [Backlog(at_ns=second * S, hosts=frozenset(hosts)) for second, hosts in enumerate(hosts_at)]


def test_a_window_goes_from_the_first_to_the_last_look_that_saw_a_backlog() -> None:
    """A look without a backlog in between ends a window; other hosts do not matter."""
    seen = looks({"a"}, {"a", "b"}, {"a"}, {"b"}, {"a"}, set())
    assert windows(seen, "a") == [(0, 2 * S), (4 * S, 4 * S)]
    assert windows(seen, "b") == [(1 * S, 1 * S), (3 * S, 3 * S)]
    assert windows(seen, "c") == []


def test_a_site_asked_at_every_interval_used_all_of_its_rate() -> None:
    """The first request and one an interval after it, to the end of the window, are 100 %."""
    times = {"a": [S // 2 + k * S for k in range(5)]}
    assert used_share(times, {"a": 1.0}, looks(*[{"a"}] * 6)) == 1.0


def test_a_site_that_stops_with_work_to_do_is_counted_to_the_end() -> None:
    """Two requests in the first two of ten seconds, with a backlog all the time, are a fifth."""
    times = {"a": [0, S]}
    assert used_share(times, {"a": 1.0}, looks(*[{"a"}] * 10)) == pytest.approx(0.2)


def test_a_site_without_a_backlog_is_not_expected_to_do_anything() -> None:
    """Requests count, and are expected, within windows only."""
    times = {"a": [0, S, 2 * S], "b": [0]}
    assert used_share(times, {"a": 1.0, "b": 1.0}, looks({"a"}, {"a"}, {"a"}, set(), set(), set())) == 1.0


def test_faster_sites_weigh_more() -> None:
    """The share is of requests: 11 of 11 at ten a second, and 1 of 2 at one a second, are 12 of 13."""
    times = {"fast": [k * S // 10 for k in range(11)], "slow": [0]}
    share = used_share(times, {"fast": 0.1, "slow": 1.0}, looks(*[{"fast", "slow"}] * 2))
    assert share == pytest.approx(12 / 13)


def measured(*arrived_at_ns: int, **emails: int) -> Figures | None:
    """Return the figures of a run in which host `a` was asked at these times."""
    return measure(
        [Arrival(at_ns=at_ns, host="a", path="/") for at_ns in arrived_at_ns],
        {"a": 1.0, "b": 1.0},
        looks(*[{"a"}] * 4),
        totals=Totals(fetched=3, failed=1, lateness_p50_ms=1.23456, lateness_p99_ms=2.0),
        unread=Unread(notified=5, unread_drift=2),
        emails=Emails(**emails),
    )


def test_figures_come_from_the_sites_log_and_the_totals() -> None:
    """Early starts and the shortest gap are the sites' word, the rest is what others counted."""
    figures = measured(0, S, S + S // 2, 3 * S, shipped=7, emails_sent=4, emails_unknown=1, mailers_killed=2)
    assert figures is not None
    assert (figures.fetched, figures.failed, figures.sites) == (3, 1, 2)
    assert (figures.early_starts, figures.shortest_gap_ratio, figures.used_share) == (1, 0.5, 1.0)
    assert (figures.lateness_p50_ms, figures.lateness_p99_ms) == (1.235, 2.0)
    assert (figures.notified, figures.marked_read, figures.unread_drift) == (5, 0, 2)
    assert (figures.shipped, figures.emails_sent, figures.emails_unknown, figures.mailers_killed) == (7, 4, 1, 2)


@for_each("times", [[], [0]])
def test_without_a_gap_there_is_nothing_to_judge(times: list[int]) -> None:
    """No figures are better than invented ones."""
    assert measured(*times) is None


@for_each("broken", ["early_starts", "unread_drift", "emails_received_twice", "emails_never_received"])
def test_each_promise_can_be_broken(broken: str) -> None:
    """One early request, wrong number, e-mail that came twice, or e-mail that is sent and never came is enough."""
    figures = measured(0, S, 2 * S, shipped=9, emails_sent=5, emails_failed=1, emails_unknown=3, mailers_killed=7)
    assert figures is not None
    kept = replace(figures, unread_drift=0)
    assert not kept.broken
    assert replace(kept, **{broken: 1}).broken


def test_emails_are_pending_until_they_have_an_end() -> None:
    """Sent, failed and unknown ones are not on their way any more."""
    assert Emails(shipped=9, emails_sent=5, emails_failed=1, emails_unknown=2).pending == 1
