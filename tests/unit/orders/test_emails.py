"""What the e-mail says that tells a customer of a shipped order."""

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from workers.mail.message import Message
from workers.mail.models import Email
from workers.mail.rendering import CannotBeWritten, message_id, write
from workers.orders.emails import OrderShipped
from workers.orders.models import Order

PLACED = datetime(2026, 11, 3, 12, tzinfo=UTC)


def written(number: str = "A-17") -> Message:
    """Return the e-mail about the order of this number."""
    order = Order(pk=17, number=number, customer_email="kim@customers.example", placed_at=PLACED)
    email = Email(kind="order.shipped", key="17", message_id=message_id("order.shipped", "17"))
    return write(email, OrderShipped(order))


def parsed(message: Message) -> EmailMessage:
    parsed_message = message_from_bytes(message.content, policy=policy.default)
    assert isinstance(parsed_message, EmailMessage)
    return parsed_message


def test_it_goes_to_the_customer_and_names_the_order() -> None:
    """The number is in the subject, the id in the Message-ID."""
    assert written().recipient == "kim@customers.example"
    message = parsed(written())
    assert message["To"] == "kim@customers.example"
    assert message["Subject"] == "Your order A-17 is on its way"
    assert message["Message-ID"].startswith("<order.shipped-17-")


def test_it_comes_as_text_and_as_html_that_say_the_same() -> None:
    """Both name the order and its day."""
    message = parsed(written("<A&B>"))
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert "your order <A&B> of 3 November 2026" in text.get_content()
    assert "&lt;A&amp;B&gt;" in html.get_content()


@pytest.mark.parametrize("number", ["17\nBcc: all@customers.example", "17\r\n\r\nHello", "17\u2028"])
def test_an_orders_number_cannot_add_a_header(number: str) -> None:
    """The subject that it stands in is refused."""
    with pytest.raises(CannotBeWritten, match="control character in the subject"):
        written(number)


@pytest.mark.parametrize(
    "template", ["{% if order %}", "{% load nothing %}", "{{ order.shipped_email.no }}{{ 1|add }}"]
)
def test_a_template_that_cannot_be_rendered_is_refused_with_the_reason(
    template: str, settings: LazySettings, tmp_path: Path
) -> None:
    """Whatever a template raises, this e-mail is to blame."""
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "shipped.html").write_text(template)
    engine: dict[str, Any] = {**settings.TEMPLATES[0], "DIRS": [tmp_path]}
    settings.TEMPLATES = [engine]
    with pytest.raises(CannotBeWritten, match="TemplateSyntaxError"):
        written()
