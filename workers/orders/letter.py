"""What is sent: a ShippedEmail rendered to the last byte, before any connection is opened."""

from dataclasses import dataclass
from email.generator import BytesGenerator
from email.utils import parseaddr
from io import BytesIO
from unicodedata import category
from uuid import uuid4

import idna
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.validators import validate_email
from django.db import InterfaceError, OperationalError
from django.template.loader import render_to_string

from workers.orders.models import Order, ShippedEmail

# What could end a header for somebody: all control characters, and the separators of lines and paragraphs.
CONTROLS = {"Cc", "Zl", "Zp"}


class CannotBeWritten(ValueError):
    """This e-mail cannot be written, whenever it is tried; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Letter:
    """An e-mail to one recipient: what the SMTP envelope says, the bytes, and the same for other mail backends."""

    sender: str
    recipient: str
    content: bytes
    message: EmailMessage


def write(email: ShippedEmail) -> Letter:
    """Render the e-mail from its order and the templates `orders/shipped*`.

    Raises CannotBeWritten where the address, a header or a template is no good: nothing else may fail for it. A
    template that asks the database may raise django.db's OperationalError and InterfaceError.
    """
    order = email.order
    try:
        message = _message(order, email.message_id)
        return Letter(
            sender=sender(),
            recipient=address(order.customer_email),
            content=_content(message),
            message=message,
        )
    except (CannotBeWritten, OperationalError, InterfaceError):
        raise
    except Exception as error:  # a template may call any code, which may raise anything
        raise CannotBeWritten(f"{type(error).__name__}: {error}") from error


def sender() -> str:
    """Return the bare address of DEFAULT_FROM_EMAIL, such as `Name <name@example.com>`. Raises CannotBeWritten."""
    _refuse_controls(settings.DEFAULT_FROM_EMAIL, "DEFAULT_FROM_EMAIL")
    return address(parseaddr(settings.DEFAULT_FROM_EMAIL)[1])


def address(text: str) -> str:
    """Return the address with its domain in ASCII. Raises CannotBeWritten."""
    _refuse_controls(text, "the address")
    local, _, domain = text.rpartition("@")
    try:
        validate_email(text)
        local.encode("ascii")  # Django lets a few letters pass that are none of ASCII's in another case
    except (ValidationError, UnicodeEncodeError) as error:
        raise CannotBeWritten(f"{text!r} is no e-mail address.") from error
    try:
        return f"{local}@{domain if domain.isascii() else idna.encode(domain, uts46=True).decode()}"
    except idna.IDNAError as error:
        raise CannotBeWritten(f"{text!r} is no e-mail address: {error}.") from error


def message_id(order_id: int) -> str:
    """Return a Message-ID for the order's e-mail, to be kept in its row: whoever sees it twice knows.

    Another installation, or a database made anew, has orders of the same ids: chance keeps them apart.
    """
    try:
        domain = sender().rpartition("@")[2]
    except CannotBeWritten:  # the e-mail will say so: an order can be shipped all the same
        domain = "localhost"
    return f"<order-{order_id}-shipped-{uuid4().hex[:12]}@{domain}>"


def _message(order: Order, identity: str) -> EmailMessage:
    subject = render_to_string("orders/shipped_subject.txt", {"order": order}).rstrip("\n")
    _refuse_controls(subject, "the subject")
    message = EmailMultiAlternatives(
        subject=subject,
        body=render_to_string("orders/shipped.txt", {"order": order}),
        to=[order.customer_email],
        headers={"Message-ID": identity, "Auto-Submitted": "auto-generated"},
    )
    message.attach_alternative(render_to_string("orders/shipped.html", {"order": order}), "text/html")
    return message


def _refuse_controls(text: str, where: str) -> None:
    if any(category(character) in CONTROLS for character in text):
        raise CannotBeWritten(f"There is a line break or a control character in {where}: {text!r}.")


def _content(message: EmailMessage) -> bytes:
    built, written = message.message(), BytesIO()
    built.set_boundary(uuid4().hex)  # one that Python chooses is looked for in the whole content
    BytesGenerator(written, mangle_from_=False).flatten(built, linesep="\r\n")
    return written.getvalue()
