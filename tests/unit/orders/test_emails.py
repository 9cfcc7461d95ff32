"""What the e-mail says that tells a customer of a shipped order."""

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.models import Email
from weir.workers.mail.rendering import message_id, render
from weir.workers.orders.models import Order

PLACED = datetime(2026, 11, 3, 12, tzinfo=UTC)


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> Order:
    """The order that is found, in memory."""
    found = Order(pk=17, number="A-17", customer_email="kim@customers.example", placed_at=PLACED)
    monkeypatch.setattr(Order.objects, "get", lambda pk: {17: found}[pk])
    return found


def parsed() -> EmailMessage:
    """Return the e-mail about the order."""
    identity = message_id("order.shipped", "17")
    email = Email(
        kind="order.shipped", message_id=identity, recipient="kim@customers.example", context={"order_id": 17}
    )
    message = message_from_bytes(render(email).content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


@pytest.mark.usefixtures("order")
def test_it_goes_to_the_customer_and_names_the_order() -> None:
    """The number is in the subject, the id in the Message-ID."""
    message = parsed()
    assert message["To"] == "kim@customers.example"
    assert message["Subject"] == "Your order A-17 is on its way"
    assert message["Message-ID"].startswith("<order.shipped-17-")


def test_it_comes_as_text_and_as_html_that_say_the_same(order: Order) -> None:
    """Both name the order and its day."""
    order.number = "<A&B>"
    message = parsed()
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert "your order <A&B> of 3 November 2026" in " ".join(text.get_content().split())
    assert "&lt;A&amp;B&gt;" in html.get_content()


@pytest.mark.parametrize("number", ["17\nBcc: all@customers.example", "17\r\n\r\nHello", "17\u2028"])
def test_an_orders_number_cannot_add_a_header(number: str, order: Order) -> None:
    """The subject that it stands in is refused."""
    order.number = number
    with pytest.raises(CannotBeWritten, match="control character in the subject"):
        parsed()


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("template", ["{% if order %}", "{% load nothing %}", "{{ order.number }}{{ 1|add }}"])
def test_a_template_that_cannot_be_rendered_is_refused_with_the_reason(
    template: str, settings: Settings, tmp_path: Path
) -> None:
    """Whatever a template raises, this e-mail is to blame."""
    folder = tmp_path / "weir" / "orders"
    folder.mkdir(parents=True)
    (folder / "shipped.html").write_text(template)
    engine: dict[str, Any] = {**settings.TEMPLATES[0], "DIRS": [tmp_path]}
    settings.TEMPLATES = [engine]
    with pytest.raises(CannotBeWritten, match="TemplateSyntaxError"):
        parsed()
