from typing import ClassVar

from workers.audit import acting
from workers.cli.actions import ActionCommand
from workers.mail.kinds import UnknownKind
from workers.mail.management.bounces import Bounces
from workers.mail.management.evidence import Evidence
from workers.mail.management.listing import List, Show
from workers.mail.management.pausing import Kinds, Pause, Resume
from workers.mail.management.previewing import PreviewAction
from workers.mail.management.resending import Resend
from workers.mail.management.resolving import Cancel, Correct, Resolve
from workers.mail.management.suppressing import Forget, Suppress, Suppressed, Unsuppress
from workers.mail.reports.previews import NothingToShow


class Command(ActionCommand):
    help = (
        "Count, list and show e-mails, say what became of those that are unknown, cancel and correct them, pause "
        "kinds, and look after the suppression list."
    )
    actions = (
        List(),
        Show(),
        Resolve(),
        Resend(),
        Cancel(),
        Correct(),
        Evidence(),
        Bounces(),
        Kinds(),
        Pause(),
        Resume(),
        PreviewAction(),
        Suppress(),
        Unsuppress(),
        Suppressed(),
        Forget(),
    )
    refusals: ClassVar = (ValueError, UnknownKind, NothingToShow, acting.Refused)
