from typing import ClassVar

from weir.workers.audit import acting
from weir.workers.cli.actions import ActionCommand
from weir.workers.events.ended import REFUSALS, Ended
from weir.workers.events.models import Subject
from weir.workers.mail.kinds import UnknownKind
from weir.workers.mail.management.bounces import Bounces
from weir.workers.mail.management.evidence import Evidence
from weir.workers.mail.management.listing import List, Show
from weir.workers.mail.management.pausing import Kinds, Pause, Resume
from weir.workers.mail.management.previewing import PreviewAction
from weir.workers.mail.management.resending import Resend
from weir.workers.mail.management.resolving import Cancel, Correct, Resolve
from weir.workers.mail.management.suppressing import Forget, Suppress, Suppressed, Unsuppress
from weir.workers.mail.reports.previews import NothingToShow


class Command(ActionCommand):
    help = (
        "Count, list and show e-mails, say what became of those that are unknown, cancel and correct them, pause "
        "kinds, and look after the suppression list."
    )
    actions = (
        List(),
        Ended(Subject.EMAIL),
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
    refusals: ClassVar = (*REFUSALS, ValueError, UnknownKind, NothingToShow, acting.ActRefused)
