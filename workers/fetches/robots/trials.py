"""Trials: rules that take long are applied in turns, and delay only the fetches that they concern.

A site writes the rules and chooses the redirects, so it determines how long applying the rules to a URL takes. The
first step of each trial is free, until a claim has used FREE_S for such short work. All longer work shares an
allowance: PART of the time that passes, however many trials wait. The trial that has had least of the allowance goes
first, so that one that is nearly done is soon done. Trials that have had SOON_S go in the order in which they began, so
that many do not wait for each other. A trial that is not over is kept, and goes on with a later claim of its fetch. A
trial that has taken LONGEST_S fails: otherwise it would take the allowance from others for minutes. The time for
parsing files is limited in the same way (files.py).

For the claimer's thread only.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from weir.ratelimit import clock
from weir.workers.fetches.robots.rules import Rules

FREE_S = 0.05  # seconds of processor time that one claim has for short work
PART = 0.05  # seconds of the claimer's processor time that long work gets for each second that passes
MOST_S = 0.05  # seconds of processor time: the most that the allowance grows to
TURN_S = 0.005  # seconds of processor time that a trial has before another one may go on
SOON_S = 0.03  # seconds of processor time: what the costliest rules take for a URL of a hundred characters
LONGEST_S = 0.1  # seconds of processor time that a trial may take
MOST_KEPT = 200  # trials, each with its URL, and its path
KEPT_FOR = 60.0  # seconds for which a trial is kept whose fetch is not claimed again


class TakesTooLong(Exception):
    """The rules take longer to apply to this URL than is allowed."""


class Allowance:
    """The processor time that is left: in each claim for short work, and for work that takes long."""

    def __init__(self) -> None:
        self._free_s = FREE_S
        self._left_s = MOST_S
        self._at = clock.now()

    def begin_claim(self) -> None:
        self._free_s = FREE_S

    def is_free(self) -> bool:
        """Return whether this claim may do one more piece of short work."""
        return self._free_s > 0

    def spend_free(self, seconds: float) -> None:
        self._free_s -= seconds

    def is_left(self) -> bool:
        now = clock.now()
        self._left_s = min(MOST_S, self._left_s + PART * (now - self._at))
        self._at = now
        return self._left_s > 0

    def spend(self, seconds: float) -> None:
        """Take `seconds` away, even if that is more than is left: then the next trial waits for it."""
        self._left_s -= seconds


@dataclass(eq=False, kw_only=True, slots=True)
class Trial:
    """Whether these rules allow one URL: `is_allowed` is None as long as that is not known, or if the trial failed."""

    rules: Rules
    steps: Iterator[bool | None]
    began_at: float
    touched_at: float
    spent_s: float = 0.0
    is_allowed: bool | None = None
    error: Exception | None = None

    @property
    def goes_on(self) -> bool:
        return self.is_allowed is None and self.error is None

    def step(self) -> None:
        """Do one step of work."""
        began_at = time.thread_time()
        try:
            self.is_allowed = next(self.steps)
        except Exception as error:  # noqa: BLE001  after any error, neither the job nor the claim is dropped
            self.error = error
        self.spent_s += time.thread_time() - began_at
        if self.goes_on and self.spent_s > LONGEST_S:
            self.error = TakesTooLong()


class Trials:
    """The trials that are not over, by URL."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._kept: OrderedDict[str, Trial] = OrderedDict()  # the one that was touched last stands last

    def begin(self, url: str, rules: Rules) -> Trial:
        """Return the trial of this URL: a kept or a new one. A new one makes its free step, if the claim has time."""
        now = clock.now()
        trial = self._kept.get(url)
        if trial is None or trial.rules is not rules:
            trial = Trial(rules=rules, steps=rules.trial(url), began_at=now, touched_at=now)
        if trial.spent_s == 0.0 and self._allowance.is_free():
            trial.step()
            self._allowance.spend_free(trial.spent_s)
        if trial.goes_on:
            self._keep(url, trial, now)
        trial.touched_at = now
        if url in self._kept:
            self._kept.move_to_end(url)
        return trial

    def go_on(self, trials: Iterable[Trial]) -> None:
        """Work on these trials as long as the allowance lasts."""
        waiting = [trial for trial in trials if trial.goes_on]
        while waiting and self._allowance.is_left():
            trial = min(waiting, key=lambda trial: (min(trial.spent_s, SOON_S), trial.began_at))
            had_s = trial.spent_s
            while trial.goes_on and trial.spent_s - had_s < TURN_S:
                trial.step()
            self._allowance.spend(trial.spent_s - had_s)
            waiting = [trial for trial in waiting if trial.goes_on]

    def forget_but(self, is_known: Callable[[str, Rules], bool]) -> None:
        """Forget the trials for which `is_known` is false: each trial keeps its rules in memory."""
        for url in [url for url, trial in self._kept.items() if not is_known(url, trial.rules)]:
            del self._kept[url]

    def _keep(self, url: str, trial: Trial, now: float) -> None:
        """Keep the trial, if there is room: trials that have gone on for long are not forgotten for new ones."""
        while self._kept and next(iter(self._kept.values())).touched_at < now - KEPT_FOR:
            self._kept.popitem(last=False)
        if len(self._kept) < MOST_KEPT or url in self._kept:
            self._kept[url] = trial
