"""What a kind of e-mail says, as templates write it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.template import TemplateDoesNotExist
from pytest_django import Settings

from weir.workers.mail import kinds
from weir.workers.mail.kinds import Content

Write = Callable[..., None]


@pytest.fixture
def write(settings: Settings, tmp_path: Path) -> Write:
    """Return a function that writes templates, by their names' ends."""
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]

    def write_templates(**texts: str) -> None:
        for end, text in texts.items():
            (tmp_path / f"note{end.replace('_txt', '.txt').replace('_html', '.html')}").write_text(text)

    return write_templates


def test_three_templates_make_an_email(write: Write) -> None:
    """Each with the values, escaped in the HTML only; the file of the subject may end with a line break."""
    write(_subject_txt="To {{ name }}\n", _txt="Hello {{ name }}\n", _html="<p>Hello {{ name }}</p>\n")
    content = Content.from_templates("note", name="<Kim>")
    assert (content.subject, content.text, content.html) == ("To <Kim>", "Hello <Kim>\n", "<p>Hello &lt;Kim&gt;</p>\n")


def test_an_email_may_have_no_template_for_html(write: Write) -> None:
    """Then it is a text alone."""
    write(_subject_txt="Note", _txt="Hello")
    assert Content.from_templates("note") == Content(subject="Note", text="Hello", html="")


@pytest.mark.parametrize(("html", "missing"), [("{% include 'footer.html' %}", "footer.html"), (None, "note.txt")])
def test_any_other_template_must_be_there(html: str | None, missing: str, write: Write) -> None:
    """Nobody gets an e-mail without its HTML since that includes what is not there."""
    write(_subject_txt="Note", **({"_html": html, "_txt": "Hello"} if html else {}))
    with pytest.raises(TemplateDoesNotExist, match=missing):
        Content.from_templates("note")


def test_a_class_can_be_a_kind_and_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names come sorted, for lists of all kinds."""
    monkeypatch.setattr(kinds, "_kinds", {})

    @kinds.register("order.refunded")
    class Refunded:
        def __new__(cls, *, order_id: int) -> Content:  # type: ignore[misc]  # its call returns what the e-mail says
            return Content(subject=f"Order {order_id}", text="It is refunded.")

    kinds.register("login.new_device")(lambda: Content(subject="Hello", text="Was it you?"))
    assert isinstance(Refunded, type)
    assert kinds.get("order.refunded")(order_id=17).subject == "Order 17"
    assert kinds.names() == ["login.new_device", "order.refunded"]
