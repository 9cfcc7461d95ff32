import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workers.orders import letter, shipping
from workers.orders.models import ShippedEmail
from workers.terminal import printable

AT_ONCE = 1_000  # rows that a dry run keeps in memory
STOPPING = b"Stopping after the e-mails that are under way. Once more cuts them off: they may become unknown.\n"

SENTENCES = {  # the fields of a SendReport, as it is said of one and of many
    "sent": ("e-mail was sent", "e-mails were sent"),
    "postponed": ("was refused for now, and is tried again later", "were refused for now, and are tried again later"),
    "failed": (
        "failed: `manage.py shipped_emails --state failed` says why",
        "failed: `manage.py shipped_emails --state failed` says why",
    ),
    "unknown": (
        "may have arrived, or not: `manage.py shipped_emails` shows what is known",
        "may have arrived, or not: `manage.py shipped_emails` shows what is known",
    ),
    "given_back": ("was taken and not tried: it waits as before", "were taken and not tried: they wait as before"),
}


class Stopped(BaseException):
    """Somebody wants the command to end."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Command(BaseCommand):
    help = (
        "Send the shipped e-mails that are due, in this process, and say what became of them. The schedule does it "
        "every two seconds. Ctrl-C ends it after the e-mails that are in flight; a second one cuts these off."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be sent, and what cannot be written; send nothing"
        )

    def handle(self, *_args: object, **options: Any) -> None:
        if options["dry_run"]:
            self._rehearse()
        else:
            self._send()

    def _send(self) -> None:
        """Send everything that is due, until somebody wants it to stop."""
        try:
            with _stopped_by_signals():
                report = shipping.send_due()
        except Stopped as stopped:
            self.stderr.write(f"Stopped: {_waiting()}.")
            sys.exit(128 + stopped.signal_number)  # as the shell says it
        became = {name: getattr(report, name) for name in SENTENCES}
        for name, (one, many) in SENTENCES.items():
            if number := became[name]:
                self.stdout.write(f"1 {one}." if number == 1 else f"{number:,} {many}.")
        if not any(became.values()):
            self.stdout.write("No e-mail was sent." if report.stopped_because else "No shipped e-mail is due.")
        if report.stopped_because:
            raise CommandError(f"{printable(report.stopped_because)} {_waiting()}.")

    def _rehearse(self) -> None:
        """Write each e-mail that is due, and throw it away."""
        counted: Counter[bool] = Counter()
        for email in ShippedEmail.objects.due().select_related("order").iterator(AT_ONCE):
            what = f"{email.pk}: order {printable(email.order.number)} to {printable(email.order.customer_email)}"
            try:
                letter.write(email)
            except letter.CannotBeWritten as error:
                counted[False] += 1
                self.stdout.write(f"cannot be written: {what}: {printable(str(error))}")
            else:
                counted[True] += 1
                self.stdout.write(f"would be sent: {what}")
        self.stdout.write(f"{_emails(counted[True])} would be sent, {counted[False]:,} cannot be written.")


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Raise Stopped at the first SIGINT or SIGTERM; a second one does what it always does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python hands signals to the main thread only
        return

    def stop(number: int, _frame: object) -> NoReturn:
        restore()
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, STOPPING)  # print() may not be interrupted by itself
        raise Stopped(number)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()


def _waiting() -> str:
    number = ShippedEmail.objects.due().count()
    return f"{_emails(number)} {'waits' if number == 1 else 'wait'}"


def _emails(number: int) -> str:
    return f"{number:,} {'e-mail' if number == 1 else 'e-mails'}"
