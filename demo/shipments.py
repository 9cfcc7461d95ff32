"""The warehouse's process as the observer sees it: the state of its e-mails, by the database and the mail server."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from demo import programs
from demo.fakes.mail_server import ACCEPTED, MailServer
from demo.figures import Emails
from demo.killer import Killer
from weir.postgres.statements import Statement


class EmailCounts(NamedTuple):
    """How many e-mails were written, and how many of them have each final state."""

    shipped: int
    sent: int
    failed: int
    unknown: int


EMAILS = Statement("emails", row=EmailCounts, commits=True)
SENT_EMAILS = Statement("sent_emails", returns=str, commits=True)


@dataclass(kw_only=True)
class Shipments:
    """The shipments of the warehouse, while it ships or after it has stopped."""

    program: programs.Program
    killer: Killer
    _server: MailServer
    _offset: int = 0
    _received: Counter[str] = field(default_factory=Counter)  # Message-IDs

    def have_begun(self) -> bool:
        """Return whether an order was shipped. RuntimeError if the warehouse's process has ended by itself."""
        self.program.check()
        return self.look().shipped > 0

    def look(self) -> Emails:
        """Return the state so far; once the warehouse has stopped, also how many sent e-mails were never received."""
        [row] = EMAILS()
        sent = SENT_EMAILS() if self.program.has_stopped else []
        twice = self.received_twice()  # the list is read after the database: it holds all e-mails that are sent
        return Emails(
            shipped=row.shipped,
            emails_sent=row.sent,
            emails_failed=row.failed,
            emails_unknown=row.unknown,
            emails_received_twice=twice,
            emails_never_received=sum(not self._received[message_id] for message_id in sent),
            mailers_killed=self.killer.killed,
        )

    def received_twice(self) -> int:
        """Return how many e-mails the mail server has accepted more than once, by its list. Needs no server."""
        events, self._offset = self._server.events_since(self._offset)
        self._received.update(event.message_id for event in events if event.event == ACCEPTED)
        return sum(times > 1 for times in self._received.values())


@contextmanager
def running(log: Path, env: Mapping[str, str], server: MailServer, killer: Killer) -> Iterator[Shipments]:
    """Run the warehouse in this environment, with its output appended to `log`; stop it on leaving.

    RuntimeError if its process ends with an error.
    """
    with programs.running("warehouse", log=log, env=env) as program:
        yield Shipments(program=program, killer=killer, _server=server)
