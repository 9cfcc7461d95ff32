"""What processes do that queue e-mails of three kinds, and send them by one relay or two, to be killed.

`die_at` names a step at which a process kills itself, with SIGKILL, whichever relay it talks to.
"""

import random
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.acceptance.processes import die_around, goes_on  # isort: skip  first, as it sets Django up

from django.db import transaction

from tests.acceptance.mail.mail_processes import END
from weir.postgres import statements
from weir.workers.mail import kinds, outbox
from weir.workers.mail.kinds import Content, EmailAttachment
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import leases, outcomes, routes, runner
from weir.workers.mail.sending.circuit_breaker import CircuitBreaker
from weir.workers.mail.transports import connection, http, smtp

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ("kill.order", "kill.invoice", "kill.note")
INVOICE = b"%PDF-1.7\n" + bytes(range(256)) * 8
# Where a mailer can be killed, and whether an e-mail that it is sending may be begun by then.
STEPS = {
    "after claim": False,
    "before begin": False,
    "after begin": True,
    "before request": True,
    "after request": True,
    "after answer": True,
    "before record": True,
    "after record": True,
}
CLERK_STEPS = ("before queue", "after queue")  # the statement may commit by itself, or come before the COMMIT
AGAIN = 20  # e-mails that a clerk queues once more when it starts
LONGEST_WAIT_S = 0.5  # between attempts, and between questions about an unknown outcome
BREAKER = partial(CircuitBreaker, most_failures=3, first_s=0.2, longest_s=0.5)


def queue_emails(stop: Path, words: dict[str, int], die_at: str = "") -> None:
    """Queue e-mails until `stop` exists. Each process queues the same ones, so that each key is queued many times.

    Half of them are queued in a transaction. The process begins AGAIN e-mails before the last one that there is: all
    up to that one are queued.
    """
    _register_kinds()
    if die_at:
        when, step = die_at.split(" ")
        die_around(statements, "execute", when, lambda arguments, _: arguments[0].name == step)
    number = max(0, Email.objects.count() - AGAIN)
    while goes_on(stop):
        kind, key = KINDS[number % len(KINDS)], str(number)
        with transaction.atomic() if number % 2 else nullcontext():
            outbox.send_once(kind, key, to=address(words, number), context={"number": number}, language="en")
        number += 1


def keep_sending(stop: Path, die_at: str = "") -> None:
    """Send what is due again and again, until `stop` exists, with waits that are short."""
    setattr(outcomes, "LONGEST_RETRY_S", LONGEST_WAIT_S)  # noqa: B010  in this process only
    setattr(outcomes, "LONGEST_ASKING_S", LONGEST_WAIT_S)  # noqa: B010
    outcomes.asked_in_vain.__defaults__ = (LONGEST_WAIT_S,)  # it was LONGEST_ASKING_S when the function was defined
    setattr(routes, "CircuitBreaker", lambda **_: BREAKER())  # noqa: B010
    if die_at:
        _die_at(*die_at.split(" "))
    while goes_on(stop):
        runner.send_due()
        time.sleep(0.02)


def address(words: dict[str, int], number: int) -> str:
    """Return the address of an e-mail, always the same: the words are drawn by their weights."""
    chance = random.Random(number)  # noqa: S311  not for secrets
    (word,) = chance.choices(tuple(words), tuple(words.values()))
    return f"{word}.{number}@customers.example"


def _register_kinds() -> None:
    """Register the three kinds, in this process only: the processes of other tests do not know them."""
    order, invoice, note = KINDS
    kinds.register(order)(lambda number: Content.from_templates("weir/orders/shipped", order={"number": number}))
    kinds.register(invoice)(
        lambda number: Content(
            subject=f"Invoice {number}",
            text="It is attached.\n",
            html="<p>It is attached.</p>\n",
            attachments=[EmailAttachment(f"{number}.pdf", INVOICE, "application/pdf")],
        )
    )
    kinds.register(note)(lambda number: Content(subject=f"Note {number}", text="Your seat is reserved.\n" * 30))


def _die_at(when: str, step: str) -> None:
    around: dict[str, list[tuple[Any, str, Callable[[tuple[Any, ...], Any], object]]]] = {
        "claim": [(leases, "claim", lambda _, claimed: claimed)],
        "begin": [(leases, "begin", lambda *_: True)],
        "request": [
            (http.ApiConnection, "_write", lambda *_: True),
            (connection.SmtpConnection, "send", _is_content),
        ],
        "answer": [
            (http.ApiConnection, "_read", lambda *_: True),
            (smtp.EmailBackend, "_transmit", lambda *_: True),
        ],
        "record": [(leases, "record", lambda arguments, _: arguments[1].state == EmailState.SENT)],
    }
    for owner, name, counts in around[step]:
        die_around(owner, name, when, counts)


def _is_content(arguments: tuple[Any, ...], _: object) -> bool:
    return isinstance(arguments[1], bytes) and arguments[1].endswith(END)
