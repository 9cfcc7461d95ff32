"""What is sent, to the last byte; and what cannot be written, with the reason."""

import re
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from workers.orders import letter
from workers.orders.letter import CannotBeWritten
from workers.orders.models import Order, ShippedEmail

PLACED = datetime(2026, 11, 3, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _shop(settings: LazySettings) -> None:
    settings.DEFAULT_FROM_EMAIL = "The Shop <orders@shop.example>"


def email(number: str = "A-17", customer: str = "kim@customers.example") -> ShippedEmail:
    order = Order(pk=17, number=number, customer_email=customer, placed_at=PLACED)
    return ShippedEmail(order=order, message_id=letter.message_id(17))


def parsed(written: letter.Letter) -> EmailMessage:
    message = message_from_bytes(written.content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def test_it_says_who_sends_what_to_whom_and_that_nobody_need_answer() -> None:
    """The headers that a mail server and a mail program look at."""
    written = letter.write(email())
    message = parsed(written)
    assert (written.sender, written.recipient) == ("orders@shop.example", "kim@customers.example")
    assert message["From"] == "The Shop <orders@shop.example>"
    assert message["To"] == "kim@customers.example"
    assert message["Subject"] == "Your order A-17 is on its way"
    assert re.fullmatch(r"<order-17-shipped-[0-9a-f]{12}@shop\.example>", message["Message-ID"])
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Date"].datetime


def test_it_comes_as_text_and_as_html_that_say_the_same() -> None:
    """Both name the order and its day."""
    message = parsed(letter.write(email(number="<A&B>")))
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert "your order <A&B> of 3 November 2026" in text.get_content()
    assert "&lt;A&amp;B&gt;" in html.get_content()


def test_every_line_ends_as_smtp_wants_it() -> None:
    """No bare line feed, no bare carriage return."""
    content = letter.write(email(number="Ä-17")).content
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", content)


def test_the_domain_of_an_address_may_be_international() -> None:
    """The envelope has it in ASCII."""
    assert letter.write(email(customer="kim@bücher.example")).recipient == "kim@xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("customer", "words"),
    [
        ("", "no e-mail address"),
        ("kim", "no e-mail address"),
        ("kim@", "no e-mail address"),
        ("kim @customers.example", "no e-mail address"),
        ("jürgen@customers.example", "no e-mail address"),
        ("kim@customers.example, all@customers.example", "no e-mail address"),
        ("kim@customers.example\nBcc: all@customers.example", "line break"),
        ("kim@customers.example\r\n", "line break"),
        ("kim\x00@customers.example", "control character"),
        ("\u017fam@customers.example", "no e-mail address"),
        ("<kim@customers.example> SIZE=1", "no e-mail address"),
    ],
)
def test_an_address_that_cannot_be_written_to_is_refused_with_the_reason(customer: str, words: str) -> None:
    """Also one that would add a header or a recipient."""
    with pytest.raises(CannotBeWritten, match=words):
        letter.write(email(customer=customer))


@pytest.mark.parametrize(
    "number",
    ["17\nBcc: all@customers.example", "17\r\n\r\nHello", "17\rX: y", "17\x0bBcc : a@b.example", "17\u2028", "17\x85"],
)
def test_a_subject_with_a_line_break_is_refused(number: str) -> None:
    """An order's number cannot add a header."""
    with pytest.raises(CannotBeWritten, match="control character in the subject"):
        letter.write(email(number=number))


def test_a_sender_with_a_line_break_is_refused(settings: LazySettings) -> None:
    """Nor can the sender's name."""
    settings.DEFAULT_FROM_EMAIL = "The Shop\r\nBcc: all@customers.example <orders@shop.example>"
    with pytest.raises(CannotBeWritten, match="line break"):
        letter.write(email())


@pytest.mark.parametrize(
    "template", ["{% if order %}", "{% load nothing %}", "{{ order.shipped_email.no }}{{ 1|add }}"]
)
def test_a_template_that_cannot_be_rendered_is_refused_with_the_reason(
    template: str, settings: LazySettings, tmp_path: Path
) -> None:
    """Whatever a template raises, it is this e-mail's."""
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "shipped.html").write_text(template)
    engine: dict[str, Any] = {**settings.TEMPLATES[0], "DIRS": [tmp_path]}
    settings.TEMPLATES = [engine]
    with pytest.raises(CannotBeWritten, match="TemplateSyntaxError"):
        letter.write(email())


def test_the_message_id_is_that_of_the_row() -> None:
    """The same each time that it is written; another installation's order 17 has another one."""
    shipped = email()
    assert parsed(letter.write(shipped))["Message-ID"] == parsed(letter.write(shipped))["Message-ID"]
    assert letter.message_id(17) != letter.message_id(17)


def test_an_order_can_be_shipped_although_the_sender_is_none(settings: LazySettings) -> None:
    """The setting is to blame: writing the e-mail says so, making its Message-ID does not fail."""
    settings.DEFAULT_FROM_EMAIL = "The Shop"
    assert letter.message_id(17).endswith("@localhost>")
    with pytest.raises(CannotBeWritten, match="no e-mail address"):
        letter.write(email())
