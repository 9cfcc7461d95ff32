"""The source of a crew claims e-mails, hands them out one by one, and gives back e-mails that were not tried."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID, uuid4

from weir.conf import settings
from weir.workers.mail import suppression
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.sending import domains, leases

BATCH = 50
READ_AHEAD = 4 * 1024 * 1024  # bytes of content that a source keeps in memory
RENEWED = 0.25  # the share of its time after which a lease is renewed


@dataclass(slots=True)
class Held:
    """An e-mail that this process has claimed."""

    email: Email
    rendering: Rendering | None = None  # None if it is not rendered yet, or its rendering was not read yet
    suppressed_because: str = ""
    domain_site: str = ""  # the site that must give a slot, if the recipient's domain is paced


@dataclass(slots=True)
class ClaimAllowance:
    """How many e-mails the sources of a round may still claim together; None: any number.

    It is not thread-safe: the lock of the round guards it.
    """

    left: int | None


class Source:
    """The source of one stream, for one round. It is not thread-safe: the lock of the round guards it."""

    def __init__(
        self, allowed: ClaimAllowance, waits_s: Callable[[Email], float], kinds: Mapping[str, bool] = leases.ALL_KINDS
    ) -> None:
        """`waits_s` returns for how many seconds an e-mail is to wait untried; 0 if it may be tried."""
        self._allowed = allowed
        self._waits_s = waits_s
        self._kinds = kinds
        self._tokens: list[UUID] = []
        self._waiting: deque[Held] = deque()
        self._read: deque[Held] = deque()  # e-mails whose contents are in memory; handed out first
        self._renew_at = 0.0
        self.are_many = False  # whether the last batch was full

    def has_next(self) -> bool:
        """Return whether there is an e-mail to hand out. If there is none, claim some first."""
        while not self._waiting and not self._read:
            if not self._claim():
                return False
        return True

    def next(self) -> Held | None:
        """Hand out an e-mail; None if nothing is due."""
        if not self.has_next():
            return None
        if not self._read:
            self._read_contents()
        return self._read.popleft()

    def put_back(self, held: Held) -> None:
        """Take back an e-mail that was handed out. It is the next to be handed out."""
        self._read.appendleft(held)

    def give_back_waiting(self) -> int:
        """Give the e-mails that are not handed out back, so that other processes may claim them; return how many."""
        waiting = [held.email.pk for held in (*self._read, *self._waiting)]
        self._read.clear()
        self._waiting.clear()
        return leases.give_back(self._tokens, waiting) if waiting else 0

    def give_back_all(self) -> int:
        """Give all e-mails that were not begun back, so that other processes may claim them; return how many."""
        return leases.give_back(self._tokens) if self._tokens else 0

    def renew(self) -> None:
        """Renew the leases, if it is time: an e-mail may have to wait for its turn, or for a slow relay."""
        if self._tokens and time.monotonic() >= self._renew_at:
            self._renew_at = time.monotonic() + RENEWED * settings.WEIR_MAIL_LEASE
            leases.renew(self._tokens)

    def _claim(self) -> bool:
        """Claim a batch; return False if nothing was claimed.

        If a rate is set, the batch is one e-mail, because it may have to wait for its turn.
        """
        batch = 1 if settings.WEIR_MAIL_RATE else BATCH
        if self._allowed.left is not None:
            batch = min(batch, self._allowed.left)
        if not batch:
            return False
        if not self._tokens:
            self._renew_at = time.monotonic() + RENEWED * settings.WEIR_MAIL_LEASE
        self._tokens.append(uuid4())  # noted before the claim, so that whatever the claim takes is given back
        found = leases.claim(batch, self._tokens[-1], self._kinds)
        claimed = self._without_waiting(found)
        if not claimed:
            self._tokens.pop()
        because, sites = suppression.reasons_of(claimed), domains.paced({email.recipient for email in claimed})
        self._waiting.extend(
            Held(
                email,
                suppressed_because=because.get(email.pk, ""),
                domain_site=sites.get(email.recipient, ""),
            )
            for email in claimed
        )
        self.are_many = len(found) == BATCH
        if self._allowed.left is not None:
            self._allowed.left -= len(claimed)
        return bool(found)

    def _without_waiting(self, claimed: list[Email]) -> list[Email]:
        """Put off the e-mails that are to wait, in one statement, because there may be many. Return the others."""
        waiting = {email.pk: wait_s for email in claimed if (wait_s := self._waits_s(email))}
        if waiting:
            leases.put_off(waiting, self._tokens[-1])
        return [email for email in claimed if email.pk not in waiting]

    def _read_contents(self) -> None:
        """Read the contents of the next e-mails, as many as READ_AHEAD allows, and at least one."""
        size = 0
        while self._waiting and (not self._read or size + self._waiting[0].email.content_size <= READ_AHEAD):
            self._read.append(self._waiting.popleft())
            size += self._read[-1].email.content_size
        found = Rendering.objects.in_bulk([held.email.pk for held in self._read])
        for held in self._read:
            held.rendering = found.get(held.email.pk)
