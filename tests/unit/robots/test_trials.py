"""Rules that take long to apply: in turns, at the cost of an allowance, and to an end.

Times are counted in steps of rules, each of which takes STEP_S at least: what else the machine does to this process
makes steps longer, so that there are fewer of them.
"""

import time
from collections.abc import Iterator

import pytest

from weir.ratelimit import clock
from weir.workers.fetches.robots import trials as robots_trials
from weir.workers.fetches.robots.rules import Rules
from weir.workers.fetches.robots.trials import (
    FREE_S,
    LONGEST_S,
    MOST_S,
    PART,
    SOON_S,
    TURN_S,
    Allowance,
    TakesTooLong,
    Trials,
)

SITE = "https://site.example"
STEP_S = 0.001  # seconds of processor time
QUICK = Rules("user-agent: *\ndisallow: /private\ndisallow: /*.gif$", "weir")


class Slow(Rules):
    """Rules that take so many steps, each of which takes STEP_S, and that note which site's was done."""

    def __init__(self, steps: int = 10, done: list[str] | None = None, *, fails: bool = False) -> None:
        super().__init__("", "weir")
        self.steps, self.done, self.fails = steps, [] if done is None else done, fails

    def trial(self, url: str) -> Iterator[bool | None]:
        for _ in range(self.steps - 1):
            self.done.append(url)
            began_at = time.thread_time()
            while time.thread_time() - began_at < STEP_S:
                pass
            yield None
        if self.fails:
            raise RuntimeError
        yield False


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list with the time of the process' clock, which stands still until a test changes it."""
    at = [1_000.0]
    monkeypatch.setattr(clock, "now", lambda: at[0])
    return at


def spent(allowance: Allowance) -> Allowance:
    """Return it with nothing left, and nothing owed."""
    allowance.spend(MOST_S)
    return allowance


def test_an_allowance_is_a_part_of_the_time(now: list[float]) -> None:
    """It does not grow beyond what may be spent at once; what was overspent is waited for."""
    allowance = Allowance()
    for elapsed, spending, is_left in [
        (0.0, MOST_S, True),
        (0.1, 0.11 * PART, True),
        (0.0, 0.0, False),
        (3_600.0, MOST_S + PART, True),
        (0.9, 0.0, False),
        (0.2, 0.0, True),
    ]:
        now[0] += elapsed
        assert allowance.is_left() is is_left
        allowance.spend(spending)


def test_what_is_quick_needs_no_allowance() -> None:
    """Those that are decided in one step, whatever others have spent."""
    trials = Trials(spent(Allowance()))
    verdicts = {
        path: trials.begin(f"{SITE}/{path}", QUICK).is_allowed for path in ("", "a", "private/x", "a.gif", "a.gift")
    }
    assert verdicts == {"": True, "a": True, "private/x": False, "a.gif": False, "a.gift": True}


@pytest.mark.usefixtures("now")
def test_what_is_quick_takes_a_bounded_time_of_a_claim() -> None:
    """However many sites' rules take as long as is free: the rest waits for the next claim, or for the allowance."""
    done: list[str] = []
    allowance, rules = spent(Allowance()), [Slow(steps=2, done=done) for _ in range(300)]
    trials = Trials(allowance)
    per_claim: list[int] = []
    while len(done) < len(rules) and len(per_claim) < 100:
        allowance.begin_claim()
        before = len(done)
        sites = [f"{SITE}/{number}" for number in range(len(rules))]
        begun = [trials.begin(site, each) for site, each in zip(sites, rules, strict=True) if site not in done]
        trials.go_on(begun)
        per_claim.append(len(done) - before)
    assert sorted(done) == sorted(sites)
    assert min(per_claim) > 0
    assert max(per_claim) <= FREE_S / STEP_S + 1


def test_what_takes_long_goes_on_where_it_stopped(now: list[float]) -> None:
    """With each claim, as far as the allowance lasts; a claim takes no longer than that, and one turn."""
    allowance, rules = spent(Allowance()), Slow(steps=80)
    trials = Trials(allowance)
    per_claim: list[int] = []
    is_allowed = None
    while is_allowed is None:
        before = len(rules.done)
        trial = trials.begin(SITE, rules)
        trials.go_on([trial])
        is_allowed = trial.is_allowed
        per_claim.append(len(rules.done) - before)
        now[0] += 1.0
    assert (is_allowed, len(rules.done)) == (False, 79), "each step was done once"
    assert len(per_claim) > 2
    assert max(per_claim) <= 1 + (MOST_S + TURN_S) / STEP_S


def test_what_is_nearly_done_goes_first(now: list[float]) -> None:
    """Many that take for ever do not keep one waiting that takes a moment."""
    trials, endless = Trials(Allowance()), [Slow(steps=10_000) for _ in range(20)]
    begun = [trials.begin(f"{SITE}/{number}", rules) for number, rules in enumerate(endless)]
    for _ in range(10):
        trials.go_on(begun)
        now[0] += 1.0
    moment = trials.begin(f"{SITE}/moment", Slow(steps=10))
    trials.go_on([*begun, moment])
    assert moment.is_allowed is False
    assert {trial.is_allowed for trial in begun} == {None}


def test_many_that_take_for_ever_end_one_after_the_other(now: list[float]) -> None:
    """Each gets a stated error when it has taken LONGEST_S; the first of them does not wait for the last."""
    trials, ends = Trials(Allowance()), list[float]()
    rules = [Slow(steps=10_000) for _ in range(10)]
    while len(ends) < len(rules):
        now[0] += 1.0
        begun = [trials.begin(f"{SITE}/{number}", each) for number, each in enumerate(rules)]
        trials.go_on(begun)
        over = [type(trial.error) for trial in begun if not trial.goes_on]
        assert over == [TakesTooLong] * len(over)
        ends += [now[0] - 1_000.0] * (len(over) - len(ends))
    assert ends[0] < 10 * SOON_S / PART + 2 * LONGEST_S / PART
    assert ends[-1] < 10 * LONGEST_S / PART * 1.3


@pytest.mark.usefixtures("now")
def test_what_fails_is_over() -> None:
    """It is neither tried for ever, nor in the way of others."""
    trials = Trials(Allowance())
    first, second = trials.begin(f"{SITE}/1", Slow(steps=3, fails=True)), trials.begin(f"{SITE}/2", Slow(steps=3))
    trials.go_on([first, second])
    assert (type(first.error), first.is_allowed, second.is_allowed) == (RuntimeError, None, False)
    assert not first.goes_on


@pytest.mark.usefixtures("now")
def test_new_rules_begin_anew() -> None:
    """What was found out by others does not count."""
    trials = Trials(Allowance())
    trials.go_on([trials.begin(SITE, Slow(steps=3))])
    assert trials.begin(SITE, QUICK).is_allowed is True


@pytest.mark.usefixtures("now")
def test_what_was_decided_need_not_be_decided_again() -> None:
    """A fetch that missed its slot is claimed again, and need not wait again."""
    rules = Slow(steps=20)
    trials = Trials(Allowance())
    trials.go_on([trials.begin(SITE, rules)])
    assert trials.begin(SITE, rules).is_allowed is False
    assert len(rules.done) == 19


def test_no_more_are_kept_than_there_is_room_for(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """New ones do not have those forgotten that have gone on for long; what is not claimed again is forgotten."""
    monkeypatch.setattr(robots_trials, "MOST_KEPT", 2)
    trials, rules = Trials(spent(Allowance())), Slow(steps=10)
    kept = [trials.begin(f"{SITE}/{number}", rules) for number in range(3)]
    assert [trials.begin(f"{SITE}/{number}", rules) is trial for number, trial in enumerate(kept)] == [
        True,
        True,
        False,
    ]
    now[0] += robots_trials.KEPT_FOR - 1
    trials.begin(f"{SITE}/1", rules)
    now[0] += 2
    new = trials.begin(f"{SITE}/3", rules)
    assert trials.begin(f"{SITE}/3", rules) is new
    assert trials.begin(f"{SITE}/1", rules) is kept[1]
    assert trials.begin(f"{SITE}/0", rules) is not kept[0]
