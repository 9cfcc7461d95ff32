"""What is transmitted, to the last byte; and what cannot be written, with the reason."""

import re
from collections.abc import Collection, Iterable, Mapping
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Self

import pytest
from django.conf import LazySettings

from workers.mail import kinds
from workers.mail.message import Message
from workers.mail.models import Email
from workers.mail.rendering import CannotBeWritten, message_id, write


class Note(kinds.Draft):
    """An e-mail that says what a test wants it to say."""

    kind = "note"

    def __init__(self, recipient: str = "kim@customers.example", subject: str = "Hello") -> None:
        self.label, self.recipient, self._subject = "17", recipient, subject

    @classmethod
    def find(cls, keys: Collection[str]) -> Mapping[str, Self]:
        return {key: cls() for key in keys}

    @classmethod
    def search(cls, beginning: str) -> Iterable[str]:
        return [beginning]

    def content(self) -> kinds.Content:
        return kinds.Content(subject=self._subject, text="Hello <Kim>,\nÄ\n", html="<p>Hello &lt;Kim&gt;,</p>\n")


class Broken(Note):
    """An e-mail whose text cannot be rendered."""

    def content(self) -> kinds.Content:
        raise ZeroDivisionError("in a template tag")


@pytest.fixture(autouse=True)
def _shop(settings: LazySettings) -> None:
    settings.DEFAULT_FROM_EMAIL = "The Shop <orders@shop.example>"


def email() -> Email:
    return Email(kind="note", key="17", message_id=message_id("note", "17"))


def parsed(written: Message) -> EmailMessage:
    message = message_from_bytes(written.content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def test_it_says_who_sends_what_to_whom_and_that_nobody_need_answer() -> None:
    """The headers that a mail server and a mail program look at."""
    written = write(email(), Note())
    message = parsed(written)
    assert (written.from_address, written.recipient) == ("orders@shop.example", "kim@customers.example")
    assert message["From"] == "The Shop <orders@shop.example>"
    assert message["To"] == "kim@customers.example"
    assert message["Subject"] == "Hello"
    assert re.fullmatch(r"<note-17-[0-9a-f]{12}@shop\.example>", message["Message-ID"])
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Date"].datetime


def test_it_comes_as_text_and_as_html() -> None:
    """Each as its kind has rendered it."""
    message = parsed(write(email(), Note()))
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert text.get_content().splitlines() == ["Hello <Kim>,", "Ä"]
    assert html.get_content().splitlines() == ["<p>Hello &lt;Kim&gt;,</p>"]


def test_every_line_ends_as_smtp_wants_it() -> None:
    """No bare line feed, no bare carriage return."""
    content = write(email(), Note(subject="Ä-17")).content
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", content)


def test_the_domain_of_an_address_may_be_international() -> None:
    """The envelope has it in ASCII."""
    assert write(email(), Note("kim@bücher.example")).recipient == "kim@xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("recipient", "words"),
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
def test_an_address_that_cannot_be_written_to_is_refused_with_the_reason(recipient: str, words: str) -> None:
    """Also one that would add a header or a recipient."""
    with pytest.raises(CannotBeWritten, match=words):
        write(email(), Note(recipient))


@pytest.mark.parametrize(
    "subject",
    ["17\nBcc: all@customers.example", "17\r\n\r\nHello", "17\rX: y", "17\x0bBcc : a@b.example", "17\u2028", "17\x85"],
)
def test_a_subject_with_a_line_break_is_refused(subject: str) -> None:
    """It cannot add a header."""
    with pytest.raises(CannotBeWritten, match="control character in the subject"):
        write(email(), Note(subject=subject))


def test_a_from_address_with_a_line_break_is_refused(settings: LazySettings) -> None:
    """Nor can the shop's name add one."""
    settings.DEFAULT_FROM_EMAIL = "The Shop\r\nBcc: all@customers.example <orders@shop.example>"
    with pytest.raises(CannotBeWritten, match="line break"):
        write(email(), Note())


def test_a_text_that_cannot_be_rendered_is_refused_with_the_reason() -> None:
    """Whatever a kind of e-mail raises, this e-mail is to blame."""
    with pytest.raises(CannotBeWritten, match=r"^ZeroDivisionError: in a template tag$"):
        write(email(), Broken())


def test_the_message_id_is_that_of_the_row() -> None:
    """The same each time that it is written; another installation's e-mail about 17 has another one."""
    queued = email()
    assert parsed(write(queued, Note()))["Message-ID"] == parsed(write(queued, Note()))["Message-ID"]
    assert message_id("note", "17") != message_id("note", "17")


def test_a_message_id_has_no_character_that_would_end_it() -> None:
    """Whatever the key is."""
    made = message_id("note", "A 17>\r\n@ä.")
    assert re.fullmatch(r"<note-A_17______-[0-9a-f]{12}@shop\.example>", made)


def test_an_email_can_be_queued_although_the_from_address_is_none(settings: LazySettings) -> None:
    """The setting is to blame: writing the e-mail says so, making its Message-ID does not fail."""
    settings.DEFAULT_FROM_EMAIL = "The Shop"
    assert message_id("note", "17").endswith("@localhost>")
    with pytest.raises(CannotBeWritten, match="no e-mail address"):
        write(email(), Note())
