"""Looks at pages of users, gathers those who differ, and repairs their numbers together.

It takes three seconds to decide whether a difference is drift, for one user or for many. So users who differ are
gathered over several pages, until there are many. How far the pages have come is stored only when all users up to there
have been judged, so a process that dies leaves no user out.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice

from weir.logs.loggers import get_logger
from weir.notifications import counters, watching
from weir.notifications.reconciliation import doubts, drift
from weir.notifications.reconciliation.drift import Drift, DriftLook
from weir.notifications.reconciliation.page import Pages, UserPage
from weir.notifications.user_keys import UserKey

MOST = 50_000  # users who differ, in memory: some tens of megabytes
MOST_ROWS = 2_000_000  # unread rows of these users, which each further look counts again
SHOWN = 20  # users that a line of the log names
FIRST = 1_000  # users that a report names

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedUsers:
    """What became of users who were looked at."""

    repaired: dict[UserKey, int]  # each repaired user's drift; in a dry run, of users who would have been repaired
    doubtful: Collection[UserKey]  # users who differed, and changed too fast to decide
    moving: Collection[UserKey]  # users who changed so fast that no look was possible


@dataclass(frozen=True, kw_only=True, slots=True)
class Repaired:
    """How many numbers were repaired; by how much, for the first 1,000 users. In a dry run, what would be repaired."""

    users: int = 0
    first: dict[UserKey, int] = field(default_factory=dict)  # each user's drift

    def plus(self, drifts: Mapping[UserKey, int]) -> "Repaired":
        """Return the sum of this and other drifts. It names at most FIRST users, however many numbers were wrong."""
        first = islice(chain(self.first.items(), drifts.items()), FIRST)
        return Repaired(users=self.users + len(drifts), first=dict(first))


@dataclass(kw_only=True, slots=True)
class _Gathered:
    """The users of some pages who differ, and what was seen of them."""

    looks: list[DriftLook] = field(default_factory=list)
    differing: set[UserKey] = field(default_factory=set)
    moving: set[UserKey] = field(default_factory=set)
    doubts: dict[UserKey, datetime] = field(default_factory=dict)  # when the doubts of users who differ were noted
    rows: int = 0  # unread rows of the users who differ

    def add(self, seen: DriftLook, noted: Mapping[UserKey, datetime]) -> None:
        """Add what a look saw of a page; `noted` has the times at which the page's doubts were noted."""
        self.moving |= seen.moving
        self.differing |= seen.differing.keys()
        self.doubts |= {user_id: noted[user_id] for user_id in seen.differing if user_id in noted}
        self.rows += sum(found.rows for found in seen.differing.values())
        if self.looks and len(self.looks[-1].differing) + len(seen.differing) <= counters.AT_ONCE:
            self.looks[-1].add(seen)
        else:
            self.looks.append(seen)

    def are_many(self) -> bool:
        """Return whether there are so many users or rows that the users must be judged now."""
        return len(self.differing) >= MOST or self.rows >= MOST_ROWS


@dataclass(kw_only=True, slots=True)
class Repairs:
    """Gathers the users who differ, and judges them.

    `keep` is called before each step; to end the work, it raises an exception. `store` is called with how far the pages
    have come.
    """

    incarnation: str
    keep: Callable[[], None] = lambda: None
    store: Callable[[Mapping[str, object]], None] = lambda _reached: None
    doubts_moving: bool = False  # not only users who differ become doubts, but also those that cannot be looked at
    dry_run: bool = False
    looked_at: int = 0
    _gathered: _Gathered = field(default_factory=_Gathered)
    _reached: dict[str, object] = field(default_factory=dict)

    def judge_all(self, pages: Pages) -> Iterator[JudgedUsers]:
        """Look at all pages. Each time that many users differ, and at the end, yield what became of the users."""
        for page in pages:
            self._look_at(page)
            if self._gathered.are_many():
                yield self._judge()
        yield self._judge()

    def _look_at(self, page: UserPage) -> None:
        gathered = self._gathered
        users = [user_id for user_id in page.users if user_id not in gathered.differing]
        seen = drift.look(users, incarnation=self.incarnation, before_each=self.keep)
        self.looked_at += len(users)
        gathered.add(seen, page.noted)
        if not self.dry_run:
            open_ = gathered.differing | seen.moving
            doubts.clear({user_id: at for user_id, at in page.noted.items() if user_id not in open_})
        self._reached |= page.reached
        if not gathered.differing and not (self.doubts_moving and gathered.moving):
            self._store()

    def _judge(self) -> JudgedUsers:
        """Look again at all users who differ, repair numbers whose drift stays the same, and note the other doubts."""
        gathered, self._gathered = self._gathered, _Gathered()
        standing, unsure = drift.stands(gathered.looks, incarnation=self.incarnation, before_each=self.keep)
        repaired = standing if self.dry_run else list(self._repair(standing))
        drifts = {wrong.user_id: wrong.drift for wrong in repaired}
        unsure |= {wrong.user_id for wrong in standing} - drifts.keys()
        if self.doubts_moving:
            unsure |= gathered.moving
        judged = JudgedUsers(repaired=drifts, doubtful=unsure, moving=gathered.moving - unsure)
        if not self.dry_run:
            self._note(judged, gathered.doubts)
        self._store()
        return judged

    def _repair(self, standing: list[Drift]) -> Iterator[Drift]:
        """Repair, and yield the repaired drifts. Transactions are short, because flushers wait for the locked rows."""
        drifts = iter(standing)
        while part := list(islice(drifts, counters.AT_ONCE)):
            self.keep()
            repaired = drift.repair(part)
            yield from (wrong for wrong in part if wrong.user_id in repaired)

    def _note(self, judged: JudgedUsers, noted: Mapping[UserKey, datetime]) -> None:
        if judged.repaired:
            watching.changed()
        self.keep()
        if judged.doubtful:
            doubts.note(judged.doubtful)
            watching.changed()
        # For users with a doubt, and while Redis is not trusted, readers count rows: no user was shown a wrong number.
        shown = {} if self.doubts_moving else {u: by for u, by in judged.repaired.items() if u not in noted}
        if shown:
            log.warning("unread_drift_repaired", users=len(shown), first=_first(shown))
        if unseen := {u: by for u, by in judged.repaired.items() if u not in shown}:
            log.info("unread_doubts_settled", users=len(unseen), first=_first(unseen))
        doubts.clear({user_id: at for user_id, at in noted.items() if user_id not in judged.doubtful})

    def _store(self) -> None:
        if self._reached:
            self.store(self._reached)
            self._reached = {}


def _first(drifts: Mapping[UserKey, int]) -> dict[str, int]:
    return {str(user_id): by for user_id, by in islice(drifts.items(), SHOWN)}
