import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NoReturn

from django.core.management.base import CommandError, CommandParser
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.utils.translation import ngettext

from weir.workers.cli.actions import ExactCommand
from weir.workers.cli.terminal import printable
from weir.workers.mail import suppression
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.rendering import render
from weir.workers.mail.sending import runner

AT_ONCE = 1_000  # e-mails that a dry run reads together
STOPPING = b"Stopping after the e-mails that are in flight. Once more cuts them off: they may become unknown.\n"

# What a dry run foresees.
SENT, SUPPRESSED, EXPIRED, NOT_WRITTEN = "would be sent", "would not be sent", "would expire", "cannot be written"
SENTENCES = {  # the fields of a SendReport, in words for one and for many
    "sent": ("e-mail was sent", "e-mails were sent"),
    "postponed": ("was refused for now, and is tried again later", "were refused for now, and are tried again later"),
    "suppressed": 2 * ("not sent: the recipient is on the suppression list",),
    "expired": ("has expired, and is not sent", "have expired, and are not sent"),
    "failed": 2 * ("failed: `manage.py emails list --state failed` says why",),
    "unknown": 2 * ("may have arrived, or not: `manage.py emails` shows what is known",),
    "given_back": ("was taken and not tried: it waits as before", "were taken and not tried: they wait as before"),
}


class Stopped(BaseException):
    """A signal asks the command to end."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Command(ExactCommand):
    help = (
        "Send the e-mails that are due, in this process, and say what became of them. The schedule does it "
        "every two seconds. Ctrl-C ends it after the e-mails that are in flight."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be sent, what would not, and why; send nothing"
        )

    def handle(self, *_args: object, **options: Any) -> None:
        if options["dry_run"]:
            self._rehearse()
        else:
            self._send()

    def _send(self) -> None:
        """Send everything that is due, until a signal asks to stop."""
        try:
            with _stopped_by_signals():
                report = runner.send_due()
        except Stopped as stopped:
            self.stderr.write(f"Stopped: {_waiting()}.")
            sys.exit(128 + stopped.signal_number)  # the status that a shell gives for a signal
        became = {name: getattr(report, name) for name in SENTENCES}
        for name, number in became.items():
            if number:
                self.stdout.write(f"{number:,} {ngettext(*SENTENCES[name], number)}.")
        if not any(became.values()):
            self.stdout.write("No e-mail was sent." if report.stopped_because else "No e-mail is due.")
        if report.stopped_because:
            raise CommandError(f"{printable(report.stopped_because)} {_waiting()}.")

    def _rehearse(self) -> None:
        """Print what would become of each e-mail that is due. Renders e-mails that are not rendered yet."""
        counted: Counter[str] = Counter()
        is_rendered = Exists(Rendering.objects.filter(pk=OuterRef("pk")))
        annotated = Email.objects.claimable().annotate(is_rendered=is_rendered, has_expired=Q(expires_at__lte=Now()))
        claimable = annotated.iterator(AT_ONCE)
        while emails := list(islice(claimable, AT_ONCE)):
            because = suppression.reasons_of(emails)
            for email in emails:
                fate, why = _fate(email, because.get(email.pk, ""))
                counted[fate] += 1
                what = printable(f"{email.pk}: {email.kind} {email.key} to {email.recipient}")
                self.stdout.write(f"{fate}: {what}{printable(f': {why}' if why else '')}")
        self.stdout.write(_foreseen(counted, Email.objects.due().count() - counted.total()))


def _fate(email: Email, suppressed_because: str) -> tuple[str, str]:
    """Return what would become of an e-mail that is due and, if it would not be sent, why."""
    if vars(email)["has_expired"]:
        return EXPIRED, f"its time is over since {email.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    if suppressed_because:
        return SUPPRESSED, suppressed_because
    try:
        if not vars(email)["is_rendered"]:
            render(email)
    except CannotBeWritten as error:
        return NOT_WRITTEN, str(error)
    return SENT, ""


def _foreseen(counted: Counter[str], paused: int) -> str:
    """Return the last line of a dry run."""
    numbers = [f"{counted[SENT]:,} {ngettext('e-mail', 'e-mails', counted[SENT])} {SENT}"]
    numbers.append(f"{counted[NOT_WRITTEN]:,} {NOT_WRITTEN}")
    if suppressed := counted[SUPPRESSED]:
        numbers.append(f"{suppressed:,} {ngettext('is', 'are', suppressed)} suppressed")
    if expired := counted[EXPIRED]:
        numbers.append(f"{expired:,} {EXPIRED}")
    if paused > 0:
        numbers.append(f"{paused:,} {ngettext('waits', 'wait', paused)}: paused")
    return f"{', '.join(numbers)}."


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Raise Stopped at the first SIGINT or SIGTERM; a second signal has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python hands signals to the main thread only
        return

    def stop(number: int, _frame: object) -> NoReturn:
        restore()
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, STOPPING)  # print() may not run inside of print()
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
    number = Email.objects.due().count()
    return f"{number:,} {ngettext('e-mail waits', 'e-mails wait', number)}"
