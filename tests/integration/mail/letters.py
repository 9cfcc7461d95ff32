"""E-mails that need no row, for tests of transports."""

from email import policy
from email.message import EmailMessage
from itertools import count

from weir.workers.mail.message import Message

_numbers = count(1)


def letter(word: str = "plain", *, key: str = "", subject: str = "Hello, №1") -> Message:
    """Return an e-mail with text, HTML and headers; the word in its address says how the fake servers behave."""
    number = next(_numbers)
    written = EmailMessage(policy=policy.SMTP)
    recipient = f"{word}.l{number}@customers.example"  # not the address of an order
    written["Subject"], written["From"], written["To"] = subject, "The Shop <orders@shop.example>", recipient
    written["Message-ID"], written["Auto-Submitted"] = f"<note-{number}@shop.example>", "auto-generated"
    written["Reply-To"], written["Date"] = "help@shop.example", "Mon, 23 Nov 2026 18:00:00 +0000"
    written["List-Unsubscribe"] = "<https://shop.example/u/1>"
    written.set_content("Hello Kim\n")
    written.add_alternative("<p>Hello Kim</p>\n", subtype="html")
    return Message(
        from_address="orders@shop.example",
        recipient=recipient,
        content=written.as_bytes(),
        idempotency_key=key or f"note-{number}",
    )
