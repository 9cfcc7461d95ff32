"""Trials: rules that take long are applied in turns, and hold up no fetches but those that they are about.

The site that wrote the rules, and that redirects, determines how long it takes to apply them to a URL. So one step is
free, as long as a claim has taken no more than FREE_S for what is short, whatever its number. What takes longer shares
an allowance: PART of the time that passes, whatever waits. A trial that has had less of it goes first, up to SOON_S, so
that what is nearly done is soon done; beyond, the one that began first, so that many do not wait for each other. One
that is not over is kept, and goes on with a later claim of its fetch. One that has taken LONGEST_S fails: it would take
the allowance from others for minutes. To read a file is paid in the same way (files.py).

For the claimer's thread only.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from weir.ratelimit import clock
from weir.workers.fetches.robots.rules import Rules

FREE_S = 0.05  # seconds of processor time that one claim has for what is short
PART = 0.05  # of the time that passes, as processor time: what is long may take so much of the claimer
MOST_S = 0.05  # seconds of processor time: and no more at once
TURN_S = 0.005  # seconds of processor time that a trial has before another one may go on
SOON_S = 0.03  # seconds of processor time: as the costliest rules take for a URL of a hundred characters
LONGEST_S = 0.1  # seconds of processor time that a trial may take
MOST_KEPT = 200  # trials, each with its URL, and its path
KEPT_FOR = 60.0  # seconds for which a trial is kept whose fetch is not claimed again


class TakesTooLong(Exception):
    """The rules take longer to apply to this URL than they may."""


class Allowance:
    """The processor time that is left: of each claim for what is short, and for what takes long."""

    def __init__(self) -> None:
        self._free_s = FREE_S
        self._left_s = MOST_S
        self._at = clock.now()

    def begin_claim(self) -> None:
        self._free_s = FREE_S

    def is_free(self) -> bool:
        """Tell whether this claim may do one more thing that is short."""
        return self._free_s > 0

    def spend_free(self, seconds: float) -> None:
        self._free_s -= seconds

    def is_left(self) -> bool:
        now = clock.now()
        self._left_s = min(MOST_S, self._left_s + PART * (now - self._at))
        self._at = now
        return self._left_s > 0

    def spend(self, seconds: float) -> None:
        """Take so much away: also more than is left, for which the next one waits."""
        self._left_s -= seconds


@dataclass(eq=False, kw_only=True, slots=True)
class Trial:
    """Whether these rules allow one URL: `is_allowed` is None as long as that is not known, or where that failed."""

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
        except Exception as error:  # noqa: BLE001  whatever it is: neither the job is dropped, nor the claim
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
        """Return the trial of this URL, or the one that was kept, where it is; it has made its free step, if it may."""
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
        """Work on these as long as the allowance lasts."""
        waiting = [trial for trial in trials if trial.goes_on]
        while waiting and self._allowance.is_left():
            trial = min(waiting, key=lambda trial: (min(trial.spent_s, SOON_S), trial.began_at))
            had_s = trial.spent_s
            while trial.goes_on and trial.spent_s - had_s < TURN_S:
                trial.step()
            self._allowance.spend(trial.spent_s - had_s)
            waiting = [trial for trial in waiting if trial.goes_on]

    def forget_but(self, is_known: Callable[[str, Rules], bool]) -> None:
        """Forget those of a URL and rules of which this is not so: each keeps its rules in memory."""
        for url in [url for url, trial in self._kept.items() if not is_known(url, trial.rules)]:
            del self._kept[url]

    def _keep(self, url: str, trial: Trial, now: float) -> None:
        """Keep it, if there is room: those that have gone on for long are not forgotten for new ones."""
        while self._kept and next(iter(self._kept.values())).touched_at < now - KEPT_FOR:
            self._kept.popitem(last=False)
        if len(self._kept) < MOST_KEPT or url in self._kept:
            self._kept[url] = trial
