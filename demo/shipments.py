"""The warehouse's shipments: what has become of their e-mails, by the database and by the mail server's own list."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from demo import programs
from demo.fakes.mail_server import ACCEPTED, MailServer
from demo.figures import Emails
from demo.killer import Killer
from postgres import statements


@dataclass(kw_only=True)
class Shipments:
    """The shipments of a warehouse that is at work, or has stopped."""

    program: programs.Program
    killer: Killer
    _server: MailServer
    _offset: int = 0
    _received: Counter[str] = field(default_factory=Counter)  # Message-IDs

    def have_begun(self) -> bool:
        """Tell whether something was shipped. Raises RuntimeError where the warehouse ended by itself."""
        self.program.check()
        return self.look().shipped > 0

    def look(self) -> Emails:
        """Return what came of it so far; when the warehouse has stopped, also what is `sent` and never came."""
        row = statements.run("demo", "emails", {})[0]
        sent = statements.run("demo", "sent_emails", {}) if self.program.has_stopped else []
        twice = self.received_twice()  # reads the list after the database: all that is sent stands in it by now
        return Emails(
            shipped=row.shipped,
            emails_sent=row.sent,
            emails_failed=row.failed,
            emails_unknown=row.unknown,
            emails_received_twice=twice,
            emails_never_received=sum(not self._received[email.message_id] for email in sent),
            mailers_killed=self.killer.killed,
        )

    def received_twice(self) -> int:
        """Return how many e-mails the mail server has accepted more than once. Asks no server."""
        events, self._offset = self._server.events_since(self._offset)
        self._received.update(event.message_id for event in events if event.event == ACCEPTED)
        return sum(times > 1 for times in self._received.values())


@contextmanager
def running(log: Path, env: Mapping[str, str], server: MailServer, killer: Killer) -> Iterator[Shipments]:
    """Have the warehouse begin, with this environment; its output is appended to `log`. End it on leaving.

    RuntimeError if it ends with an error.
    """
    with programs.running("warehouse", log=log, env=env) as program:
        yield Shipments(program=program, killer=killer, _server=server)
