"""Whatever a text holds: what comes at a mail server, and at an API, is exactly what was meant."""

import os
import re
from email.header import decode_header, make_header
from email.utils import unquote
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as property_test
from hypothesis import strategies as st
from pytest_django import Settings

from tests.unit.mail import mail_reader
from weir.workers.mail import addresses, kinds
from weir.workers.mail.kinds import Content, EmailAttachment
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email
from weir.workers.mail.rendering import render
from weir.workers.mail.transports import resend

AT_LENGTH = "WEIR_FAULTS" in os.environ
FULL = property_test(
    max_examples=3_000 if AT_LENGTH else 40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# What means something to somebody: to who folds, decodes, quotes, or takes a list apart.
TRAPS = (
    "=?utf-8?q?a=0D=0ABcc:_x@z.example?=", "=?utf-8?b?DQpCY2M6IHhAei5leGFtcGxl?=", "=?utf-8?q?=00?=",
    "=?us-ascii?q??=", "=?", "?=", "=?x?q?", "=0D=0A", "%0D%0A", "%", "=20", "_", '"', "\\", "'", ",", ":", ";", "<",
    ">", "(", ")", "@", "[", ".", "Re:", "word", "x" * 80, "x" * 1_200, "ü", "ß" * 40, "日本語", "\N{GRINNING FACE}",
    "e\u0301", "\u200b", "\u202e", "\xa0", "\u3000", " ", "  ", " " * 80,
)  # fmt: skip
LETTERS = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))
PIECES = st.one_of(st.sampled_from(TRAPS), st.text(LETTERS, max_size=30), st.sampled_from(["word ", "wörter "]))
TEXTS = st.lists(PIECES, max_size=8).map("".join)
LONG_TEXTS = st.one_of(TEXTS, st.lists(PIECES, min_size=20, max_size=60).map("".join))
NAMES = TEXTS.map(lambda name: " ".join(filter(None, name[:180].split(" "))))
BARE_NAMES = NAMES.filter(lambda name: not set(name) & set('<>@"') and not mail_reader.LOOKS_ENCODED.search(name))
FILE_NAMES = TEXTS.map(lambda name: name[:255])
ANY_LETTERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r", ".\n", "\x00"])
BODIES = st.lists(st.one_of(PIECES, ANY_LETTERS, LINE_ENDS), min_size=1, max_size=10).map("".join)
ADDRESSES = st.sampled_from(["kim@customers.example", '"kim"@customers.example', '"a@b, c"@x.example'.replace(" ", "")])


@pytest.fixture(autouse=True)
def _shop(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DEFAULT_FROM_EMAIL = "The Shop <orders@shop.example>"
    monkeypatch.setattr(kinds, "_kinds", {})


def named(name: str, address: str) -> str:
    """Return `Name <address>` with the name in quotes."""
    escaped = re.sub(r'(["\\])', r"\\\1", name)
    return f'"{escaped}" <{address}>'


def written(content: Content, to: str = "kim@customers.example") -> Message:
    """Return what is transmitted of an e-mail of this content."""
    kinds._kinds["note"] = lambda: content
    email = Email(kind="note", key="17", context={}, message_id="<note-17@shop.example>")
    email.recipient_name, email.recipient = addresses.split(to)
    rendered = render(email)
    return Message(
        from_address="a@b.example", recipient=rendered.recipient, content=rendered.content, idempotency_key="1"
    )


def read_leniently(value: str) -> str:
    """Return a header as a program reads it that looks for encoded words everywhere: Python's older package."""
    return str(make_header(decode_header(value)))


def api_fields(message: Message) -> dict[str, Any]:
    """Return what a provider is asked for."""
    return resend._request(message)


@FULL
@given(subject=LONG_TEXTS, tag=LONG_TEXTS)
@example(subject="", tag=" ")
def test_a_text_comes_as_it_was_given(subject: str, tag: str) -> None:
    """On the wire, in JSON, and to Django's backends; and it adds nothing."""
    message = written(Content(subject=subject, text="Hello", headers={"X-Tag": tag}))
    came = mail_reader.read(message.content)
    assert sorted(name for name, _ in came.headers) == [
        "Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "MIME-Version", "Message-ID",
        "Subject", "To", "X-Tag",
    ]  # fmt: skip
    for meant, name in ((subject, "Subject"), (tag, "X-Tag")):
        assert mail_reader.text(came.get(name)) == meant
        assert read_leniently(came.get(name)) == meant
    fields, django = api_fields(message), message.as_django()
    assert (fields["subject"], fields["headers"]["X-Tag"]) == (subject, tag)
    assert (django.subject, django.extra_headers["X-Tag"]) == (subject, tag)


@FULL
@given(names=st.tuples(NAMES, NAMES, NAMES, NAMES), address=ADDRESSES)
def test_a_name_comes_as_it_was_given_and_an_address_stays_the_same(names: tuple[str, ...], address: str) -> None:
    """Of the recipient, of the sender, and of those who are to be answered."""
    to, sender, first, second = names
    headers = {
        "From": named(sender, "billing@shop.example"),
        "Reply-To": f"{named(first, 'a@shop.example')}, {named(second, address)}",
    }
    message = written(Content(subject="Hello", text="Hello", headers=headers), named(to, address))
    came = mail_reader.read(message.content)
    assert mail_reader.mailboxes(came.get("To")) == [(to, address)]
    assert mail_reader.mailboxes(came.get("From")) == [(sender, "billing@shop.example")]
    assert mail_reader.mailboxes(came.get("Reply-To")) == [(first, "a@shop.example"), (second, address)]
    fields, django = api_fields(message), message.as_django()
    assert addresses.split(fields["from"]) == addresses.split(django.from_email) == (sender, "billing@shop.example")
    assert [*map(addresses.split, fields["reply_to"])] == [(first, "a@shop.example"), (second, address)]
    [told] = fields["to"]  # with the name, where that needs no quotes
    assert addresses.split(told) in {("", address), (to, address)}
    assert django.to == [address]


@FULL
@given(name=BARE_NAMES)
@example(name="Shop: Ltd")
@example(name="Li, Kim")
@example(name="Kim; Li (home)")
def test_a_name_need_not_be_in_quotes(name: str) -> None:
    """It is text, and not the grammar of RFC 5322."""
    message = written(Content(subject="Hello", text="Hello"), f"{name} <kim@customers.example>")
    ((came, _),) = mail_reader.mailboxes(mail_reader.read(message.content).get("To"))
    assert came == " ".join(filter(None, name.strip().split(" ")))


@FULL
@given(name=FILE_NAMES, content=st.binary(max_size=50), inline=st.booleans())
@example(name='""', content=b"", inline=True)
@example(name="<>", content=b"", inline=True)
def test_a_file_comes_by_the_name_that_it_was_given(name: str, content: bytes, inline: bool) -> None:
    """With its bytes, also as a picture in the HTML."""
    file = EmailAttachment(name, content, "image/png", "logo" if inline else "")
    message = written(Content(subject="Hello", text="Hello", html="<p>Hello", attachments=[file]))
    *_, (part, came) = mail_reader.leaves(message.content)
    assert came == content
    assert part.get("Content-Type") == "image/png"
    disposition, given = mail_reader.value_and_parameters(part.get("Content-Disposition"))
    assert (disposition, given.get("filename", "")) == ("inline" if inline else "attachment", name)
    assert {each.lower() for each, _ in part.headers} <= {
        "content-type", "content-transfer-encoding", "content-disposition", "content-id", "mime-version"
    }  # fmt: skip
    (sent,) = api_fields(message)["attachments"]
    assert sent["filename"] == (name or "attachment.png")
    assert message.parts().attachments[0].content == content
    (attached,) = message.as_django().attachments
    if inline:  # where Python takes blanks and quotes away that are a part of the name
        assert (attached.get_filename() or "") in {name.strip(), unquote(name).strip()}
    else:
        assert (attached[0] or "") == name


@FULL
@given(text=BODIES, html=BODIES.filter(bool))
@example(text="a\x00b", html="<p>\x0c\x1b")
def test_the_texts_come_as_they_were_given(text: str, html: str) -> None:
    """Each line; and what is no text in seven bits, such as NUL, is encoded."""
    message = written(Content(subject="Hello", text=text, html=html))
    (_, plain), (_, shown) = mail_reader.leaves(message.content)
    for meant, came in ((text, plain), (html, shown)):
        assert with_line_feeds(came.decode()) == with_line_feeds(meant)
    fields = api_fields(message)
    assert with_line_feeds(fields["text"]) == with_line_feeds(text)
    assert with_line_feeds(fields["html"]) == with_line_feeds(html)


def with_line_feeds(text: str) -> str:
    """Return the lines of a text, each with a line feed."""
    found = re.sub(r"\r\n|\r", "\n", text)
    return found if found.endswith("\n") else f"{found}\n"
