"""What the outside saw, and what the rows say of what was committed: nothing early, lost, wrong or twice."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from django.db import connection
from django.db.models import Count

from demo.fakes import judge, mail_server, site_log
from tests.acceptance import judging
from tests.acceptance.great_run.crowd import ON_THE_WAY, USERS
from tests.acceptance.great_run.stage import Stage
from tests.waiting import comes_true
from weir.notifications import counters
from weir.notifications.models import Notification, Reconciliation
from weir.notifications.reconciliation import drift
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders.models import SHIPPED
from weir.workers.recovery.models import Recovery

NANOSECONDS = 1_000_000_000
# What was committed after a number, and is not there any more.
VANISHED_FETCHES = """
    SELECT count(*) FROM great_run, unnest(fetches) AS asked (id)
    WHERE number > %s AND NOT EXISTS (SELECT FROM weir_fetches_fetch AS asked_for WHERE asked_for.id = asked.id)
"""
VANISHED_EMAILS = """
    SELECT count(*) FROM great_run, unnest(orders) AS shipped (id)
    WHERE number > %s AND NOT EXISTS (
        SELECT FROM weir_mail_email AS email WHERE email.kind = %s AND email.key = shipped.id::text
    )
"""
VANISHED_COMMITS = """
    SELECT count(*) FROM unnest(%s::bigint[]) AS noted (number)
    WHERE NOT EXISTS (SELECT FROM great_run WHERE great_run.number = noted.number)
"""
COMMITTED = (
    "SELECT count(*), coalesce(sum(cardinality(fetches)), 0), coalesce(sum(cardinality(orders)), 0) FROM great_run"
)
LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM great_run"
BACK_S = 120  # that each look goes back: transactions commit in another order than they begin


@dataclass(kw_only=True)
class Judge:
    """Looks at everything once a minute; `violations` has what it found, with the time."""

    stage: Stage
    arrivals: list[site_log.Arrival] = field(default_factory=list)
    accepted: list[mail_server.Event] = field(default_factory=list)
    twice: set[str] = field(default_factory=set)  # recipients
    violations: list[str] = field(default_factory=list)
    early: int = 0
    looked_at: int = 0
    _sites_offset: int = 0
    _mails_offset: int = 0
    _numbers: list[tuple[float, int]] = field(default_factory=list)

    def look(self) -> None:
        """Read what the sites and the mail server have noted since the last look, and what is gone in PostgreSQL."""
        self._look_at_sites()
        self._look_at_mails()
        lost = self.vanished(self._since())
        if any(lost.values()):
            self._found(f"lost: {lost}")
        if recoveries := self.stage.asked(lambda: list(Recovery.objects.values_list("why", flat=True))):
            self._found(f"took PostgreSQL for one that has forgotten: {recoveries}")

    def _look_at_sites(self) -> None:
        arrivals, self._sites_offset = site_log.read_arrivals(self.stage.sites.log, self._sites_offset)
        self.arrivals += arrivals
        early = judging.early(self.arrivals, self.stage.intervals)
        if early > self.early:
            self._found(f"early: {early}: {self._shortest()}")
        self.early = early

    def _shortest(self) -> list[str]:
        """Return the gaps that are too short, with the time at which each ended."""
        return [
            f"{_clock(later / NANOSECONDS)} {host} {(later - earlier) / NANOSECONDS:.6f} s instead of {interval} s"
            for host, times in judge.times_by_host(self.arrivals).items()
            for earlier, later in pairwise(times)
            if later - earlier < round((interval := self.stage.intervals[host]) * NANOSECONDS)
        ]

    def _look_at_mails(self) -> None:
        events, self._mails_offset = self.stage.mails.events_since(self._mails_offset)
        self.accepted += [event for event in events if event.event == mail_server.ACCEPTED]
        if (twice := judging.twice(self.accepted)) > self.twice:
            self._found(f"twice: {twice - self.twice}")
        self.twice = twice

    def _since(self) -> int:
        """Return the number of a transaction that began `BACK_S` before the last look."""
        now = time.monotonic()
        self._numbers.append((now, int(self._number(LAST_NUMBER))))
        return max((number for at, number in self._numbers if at < now - BACK_S), default=0)

    def vanished(self, since: int = 0) -> dict[str, int]:
        """Return how much of what was committed after a number is not there."""
        noted = [int(line) for line in self.stage.commits.read_text().splitlines()]
        return {
            "commits": self._number(VANISHED_COMMITS, [number for number in noted if number > since]),
            "fetches": self._number(VANISHED_FETCHES, since),
            "e-mails": self._number(VANISHED_EMAILS, since, SHIPPED),
        }

    def must(self, condition: Callable[[], bool], within_s: float, what: str) -> None:
        """Wait until it is true, and start meanwhile what ends by itself."""

        def is_true() -> bool:
            self.stage.tend()
            return condition()

        if not comes_true(is_true, within_s, every_s=0.5):
            self._found(f"waited {within_s:g} s in vain that {what}: {self.unfinished()}, {self.wrong()}")

    def _number(self, query: str, *parameters: Any) -> int:
        def ask() -> int:
            with connection.cursor() as cursor:
                cursor.execute(query, parameters)
                number: int = cursor.fetchone()[0]
                return number

        return self.stage.asked(ask)

    def _found(self, what: str) -> None:
        self.violations.append(f"{_clock(time.time())} VIOLATION {what}")
        print(self.violations[-1], flush=True)

    # --- figures ------------------------------------------------------------------------------------------------------

    def line(self) -> str:
        """Return the figures of now."""
        unread = self.stage.asked(Notification.objects.filter(read_at=None).count)
        return (
            f"{len(self.arrivals)} requests, {self.early} early, longest standstill {self.standstill_s():.1f} s; "
            f"{len(self.accepted)} e-mails accepted, {len(self.twice)} twice, {self.emails()}; "
            f"fetches {self.fetches()}; {unread} unread rows, {self.repaired()} numbers repaired by reconcile; "
            f"ended by themselves {dict(self.stage.restarts)}"
        )

    def standstill_s(self) -> float:
        """Return the longest time in which no site was asked."""
        times = sorted(arrival.at_ns for arrival in self.arrivals)
        return max((later - earlier for earlier, later in pairwise(times)), default=0) / NANOSECONDS

    def fetches(self) -> dict[str, int]:
        return self.stage.asked(lambda: dict(Fetch.objects.values_list("state").annotate(Count("pk"))))

    def emails(self) -> dict[str, int]:
        return self.stage.asked(lambda: dict(Email.objects.values_list("state").annotate(Count("pk"))))

    def repaired(self) -> int:
        """Return how many numbers reconciliation has repaired."""
        return self.stage.asked(lambda: sum(Reconciliation.objects.values_list("repaired_users", flat=True)))

    def wrong(self) -> dict[int, str]:
        """Return the users whose number is not that of their unread rows: the one shown, or the one that is stored.

        Where Redis is not trusted, rows are counted for what is shown, and only the stored number can be wrong.
        """
        shown = self.stage.asked(lambda: judging.shown_wrong(USERS))
        try:
            stored = self.stage.asked(lambda: drift.look(USERS))
        except counters.RedisUnreachable as error:
            return dict.fromkeys(USERS, str(error))
        return {
            **{int(str(user)): f"{found}" for user, found in stored.differing.items()},
            **{int(str(user)): "changes" for user in stored.moving},
            **{user: f"shows {number} of {rows}" for user, (number, rows) in shown.items()},
        }

    def unfinished(self) -> dict[str, int]:
        """Return what has not ended, of each job."""
        return {
            "fetches": self.stage.asked(Fetch.objects.unfinished().count),
            "e-mails": self.stage.asked(Email.objects.filter(state__in=ON_THE_WAY).count),
            "numbers": len(self.wrong()),
        }

    def found(self) -> dict[str, int]:
        """Return what must be 0 of everything, once all is at rest."""
        return {
            "early": self.early,
            "twice": len(self.twice),
            **{f"{what} unfinished": count for what, count in self.unfinished().items()},
            **{f"{what} vanished": count for what, count in self.vanished().items()},
            **self.stage.asked(lambda: judging.contradictions(self.accepted)),
            "wrong numbers": len(self.wrong()),
        }

    def work(self) -> dict[str, int]:
        """Return how much of each job there was to judge."""
        return {
            "requests": len(self.arrivals),
            "e-mails": len(self.accepted),
            "notifications": self.stage.asked(Notification.objects.count),
        }

    def failed(self) -> Counter[str]:
        """Return what failed, by job and by the reason that it states."""
        reasons: Counter[str] = Counter()
        for job, rows in (
            ("fetch", Fetch.objects.filter(state="failed").values_list("error", flat=True)),
            ("e-mail", Email.objects.filter(state=EmailState.FAILED).values_list("last_reply", flat=True)),
        ):
            reasons.update(self.stage.asked(lambda job=job, rows=rows: [f"{job}: {row[:60]}" for row in rows.all()]))  # type: ignore[misc]
        return reasons

    def committed(self) -> str:
        """Return how many transactions, fetches and orders were committed."""

        def ask() -> str:
            with connection.cursor() as cursor:
                cursor.execute(COMMITTED)
                return "{} transactions with {} fetches and {} orders".format(*cursor.fetchone())

        return self.stage.asked(ask)


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-3]
