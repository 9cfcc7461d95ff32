"""Headers of each kind, to the byte; and what stands in none, with the reason."""

import base64
import json
import re
from email.utils import formataddr
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from django.utils.translation import gettext_lazy
from pydantic import SecretStr
from pytest_django import Settings

from tests.cases import for_each
from tests.unit.mail import mail_reader
from weir.workers.mail import addresses, kinds
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.kinds import Content, EmailAttachment
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email
from weir.workers.mail.phases import Phase
from weir.workers.mail.rendering import render
from weir.workers.mail.transports import extensions, resend
from weir.workers.mail.transports.base import Refused
from weir.workers.mail.transports.resend import ResendTransport

URL = "https://shop.example/u/7"
HOSTILE = "=?utf-8?q?Hi=0D=0ABcc:_x@z.example?="


@pytest.fixture(autouse=True)
def _shop(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DEFAULT_FROM_EMAIL = "The Shop <orders@shop.example>"
    monkeypatch.setattr(kinds, "_kinds", {})


def content_of(to: str = "kim@customers.example", **values: Any) -> bytes:
    """Return what is transmitted of an e-mail that says this."""
    kinds._kinds["note"] = lambda: Content(**{"subject": "Hello", "text": "Hello", **values})
    email = Email(kind="note", key="17", context={}, message_id="<note-17@shop.example>")
    email.recipient_name, email.recipient = addresses.split(to)
    return render(email).content


def header(name: str, **values: Any) -> str:
    """Return one header, on one line and not decoded."""
    return mail_reader.read(content_of(**values)).get(name)


def own(name: str, value: str) -> str:
    """Return a header that a kind has set, on one line."""
    return header(name, headers={name: value})


REPORTED = (
    "=?utf-8?q?Re:_your_order=0D=0AReply-To:_evil@z.example=0D=0AContent-Type:_text/html=0D=0A=0D=0A"
    "<a_href=3Dhttps://z.example>?= thank you for your message, which we have read"
)


@for_each("name", ["Subject", "X-Tag", "X-Ticket-Title"])
def test_encoded_words_that_a_customer_has_written_add_nothing(name: str) -> None:
    """They are the customer's text, longer than a line: no header, and no other body."""
    values = {"subject": REPORTED} if name == "Subject" else {"headers": {name: REPORTED}}
    came = mail_reader.read(content_of(**values))
    assert mail_reader.text(came.get(name)) == REPORTED
    assert "reply-to" not in {each.lower() for each, _ in came.headers}
    assert came.body == b"Hello\r\n"


@for_each(
    "text",
    [
        f"{HOSTILE} <kim@customers.example>",
        "=?utf-8?b?DQpCY2M6IHhAei5leGFtcGxl?= <kim@customers.example>",
        "=?utf-16be?q?=00K=00=0A?= <kim@customers.example>",
        "=?utf-8?q?Kim=00?= <kim@customers.example>",
        "=?utf-8?q?Kim=E2=80=A8Li?= <kim@customers.example>",
    ],
)
def test_a_name_is_looked_at_when_it_is_decoded(text: str) -> None:
    """A line break behind it is one."""
    with pytest.raises(CannotBeWritten, match="control character in the name of the address"):
        addresses.split(text)
    with pytest.raises(CannotBeWritten, match="control character in the name of the address"):
        own("Reply-To", text)


@for_each("name", ["Jürgen", "Jürgen von Münchhausen-Großkopf " * 4, "日本", "Li, Kim", 'Kim "The Cat" Li', "A=?B"])
def test_a_name_may_be_as_python_writes_it(name: str) -> None:
    """Callers join name and address by formataddr, which encodes and quotes."""
    assert addresses.split(formataddr((name, "kim@customers.example"))) == (name.strip(), "kim@customers.example")


@for_each(
    ("text", "name"),
    [
        ("Shop: Ltd <a@b.example>", "Shop: Ltd"),
        ("Li, Kim <a@b.example>", "Li, Kim"),
        ("Kim; Li <a@b.example>", "Kim; Li"),
        ("Kim (home) <a@b.example>", "Kim (home)"),
        ('Kim "The Cat" Li <a@b.example>', 'Kim "The Cat" Li'),
        (r'"Kim \"The\\ Cat\" Li" <a@b.example>', r'Kim "The\ Cat" Li'),
        ('"<kim@x.example>, Jo" <a@b.example>', "<kim@x.example>, Jo"),
        ("=?utf-8?q?Kim?= and =?utf-8?q?Li?= <a@b.example>", "=?utf-8?q?Kim?= and =?utf-8?q?Li?="),
        ('"=?utf-8?q?Kim?=" <a@b.example>', "=?utf-8?q?Kim?="),
        ("=?no-charset?q?Kim?= <a@b.example>", "=?no-charset?q?Kim?="),
        ("  Kim   Li  <a@b.example>", "Kim Li"),
    ],
)
def test_a_name_is_a_text(text: str, name: str) -> None:
    """Whatever signs it has; in quotes it may have all of them."""
    assert addresses.split(text) == (name, "a@b.example")
    came = mail_reader.read(content_of(to=text))
    assert mail_reader.mailboxes(came.get("To")) == [(name, "a@b.example")]


@for_each(
    "text",
    [
        "kim@a.example <kim@b.example>",
        "a@b.example, Jo <jo@b.example>",
        "Jo <a@b.example> <jo@b.example>",
        "Kim <kim@b.example",
        "Kim kim@b.example",
    ],
)
def test_what_may_be_several_addresses_is_refused(text: str) -> None:
    """Nobody guesses which one is meant."""
    with pytest.raises(CannotBeWritten, match="is not an e-mail address"):
        addresses.split(text)


@for_each(
    "text",
    [
        "=?utf-8?q?kim=40evil.example=3e?=@b.example",
        "kim=?x@b.example",
        '"=?utf-8?q?kim?="@b.example',
        '"kim>li"@b.example',
        '"kim<li"@b.example',
        '"kim\\ li"@b.example',
    ],
)
def test_addresses_that_some_read_as_others_are_refused(text: str) -> None:
    """By decoding them, or by ending them too soon."""
    with pytest.raises(CannotBeWritten, match="is not an e-mail address"):
        addresses.canonical(text)


@for_each("address", ['"kim"@x.example', '"a@b"@x.example', '"a,b"@x.example', r'"a\"b"@x.example', "o'x+1@x.example"])
@for_each("name", ["", "Kim", "Kîm, Li"])
def test_the_recipient_in_the_header_is_that_of_the_envelope(address: str, name: str) -> None:
    """Also a quoted one."""
    assert addresses.canonical(address) == address
    came = mail_reader.read(content_of(to=f"{name} <{address}>"))
    assert came.get("To").endswith(f"<{address}>" if name else address)


@for_each("name", ["From", "Reply-To", "Sender", "Disposition-Notification-To"])
@for_each(
    ("value", "written"),
    [
        ("a@bücher.example", "a@xn--bcher-kva.example"),
        ("Büro <a@BÜCHER.example>", "=?utf-8?q?B=C3=BCro?= <a@xn--bcher-kva.example>"),
        ("jörg@example.com", "jörg@example.com"),
        ("Jörg <jörg@bücher.example>", "=?utf-8?q?J=C3=B6rg?= <jörg@xn--bcher-kva.example>"),
        ('"Shop, The" <a@shop.example>', '"Shop, The" <a@shop.example>'),
    ],
)
def test_an_address_in_a_header_is_one_to_which_answers_go(name: str, value: str, written: str) -> None:
    """A domain in ASCII; letters before the @ as they are, which a relay must know how to take (RFC 6532)."""
    assert own(name, value) == written


@for_each("name", ["From", "Reply-To"])
def test_letters_before_the_at_need_a_relay_that_takes_them(name: str) -> None:
    """Also in the address of who is to be answered; all other texts are in ASCII."""
    content = content_of(subject="Grüße", headers={name: "Jörg <jörg@example.com>"})
    message = Message(from_address="a@b.example", recipient="c@d.example", content=content, idempotency_key="1")
    assert "SMTPUTF8" in extensions.parameters(message, {"smtputf8": "", "8bitmime": ""})
    with pytest.raises(extensions.CannotBeTaken, match="SMTPUTF8"):
        extensions.parameters(message, {"8bitmime": ""})
    assert content.replace("jörg@example.com".encode(), b"").isascii()


@for_each("name", ["From", "Reply-To", "reply-to", "Sender", "Errors-To"])
@for_each("value", ["nobody", "", " ", "not an address", "a@b.example <c@d.example>", "a@b", "Group: a@b.example;"])
def test_a_header_of_addresses_has_addresses(name: str, value: str) -> None:
    """Also where it is not the recipient's."""
    with pytest.raises(CannotBeWritten, match=f"The header {name}: .* is not an e-mail address"):
        own(name, value)


def test_answers_may_go_to_several_and_an_email_comes_from_one() -> None:
    """A name with a comma is in quotes there."""
    several = '"Help, please" <help@shop.example>, b@shop.example'
    assert own("Reply-To", several) == several
    with pytest.raises(CannotBeWritten, match="The header From"):
        own("From", several)


@for_each("names", [("From", "from"), ("X-Tag", "x-tag"), ("List-ID", "List-Id")])
def test_a_kind_sets_a_header_once(names: tuple[str, str]) -> None:
    """Names are the same in any case."""
    with pytest.raises(CannotBeWritten, match="twice"):
        content_of(headers=dict.fromkeys(names, "a@b.example"))


@for_each("name", ["Resent-To", "resent-bcc", "X" * 77, "X-Täg"])
def test_a_kind_cannot_set_a_header_that_names_recipients_or_is_none(name: str) -> None:
    """Nor one whose name leaves no room on its line."""
    with pytest.raises(CannotBeWritten, match="cannot set the header"):
        own(name, "a@b.example")


def ids(number: int, length: int = 60) -> list[str]:
    return [f"<{each}{'x' * (length - 3 - len(str(each)) - 9)}@b.example>" for each in range(number)]


@for_each("name", ["References", "In-Reply-To"])
@for_each(("number", "length"), [(1, 40), (3, 76), (16, 60), (17, 60), (400, 15), (400, 60), (400, 240)])
def test_of_many_message_ids_the_first_and_the_last_stay(name: str, number: int, length: int) -> None:
    """On lines of their own, and never encoded: mail programs find the discussion by them."""
    given = ids(number, length)
    raw = content_of(headers={name: " ".join(given)})
    came = mail_reader.read(raw).get(name)
    kept = came.split(" ")
    assert len(f"{name}: {came}") <= 998
    assert kept == [given[0], *given[-(len(kept) - 1) :]] if len(kept) > 1 else kept == given
    assert len(kept) == number or len(f"{name}: {came}") + 1 + length > 998
    assert all(len(line) <= 78 or b" " not in line.strip().partition(b": ")[2] for line in raw.split(b"\r\n"))


@for_each(
    ("value", "written"),
    [
        ("<1@b.example><2@b.example>", "<1@b.example> <2@b.example>"),
        ("<1@b.example>, <2@b.example>", "<1@b.example> <2@b.example>"),
        ("Your message of Monday <1@b.example>", "<1@b.example>"),
        (f"<{HOSTILE}@b.example> <1@b.example> <ü@b.example>", "<1@b.example>"),
        (f"<{'x' * 2_000}@b.example> <1@b.example>", "<1@b.example>"),
    ],
)
def test_what_is_no_message_id_is_left_out(value: str, written: str) -> None:
    """It comes from a customer's mail program."""
    assert own("References", value) == written


@for_each("value", ["", "17", "<17>", "ü"])
def test_a_reference_without_a_message_id_is_refused(value: str) -> None:
    """A kind has set it."""
    with pytest.raises(CannotBeWritten, match="The header References has Message-IDs"):
        own("References", value)


@for_each(
    "url",
    [
        URL, "HTTPS://shop.example", "https://shop.example:8443/u?a=1&b=%C3%BC#x", "https://[::1]/u",
        f"https://shop.example/{'x' * 870}", "https://shop.example/u?ids[]=1,2;(3)",
    ],
)  # fmt: skip
def test_an_unsubscribe_url_comes_as_it_is(url: str) -> None:
    """On one line, as programs look for it."""
    content = content_of(unsubscribe_url=url)
    assert f"\r\nList-Unsubscribe: <{url}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n".encode() in content


@for_each(
    "url",
    [
        "http://shop.example/u", "mailto:u@shop.example", "/u/7", "javascript:alert(1)", "https://", "https:///u",
        "https://shop.example/ u", "https://shop.example/>", "https://shop.example/<", 'https://shop.example/"',
        "https://shop.example/ü", "https://bücher.example/", "https://shop.example/%", "https://u:p@shop.example/",
        "https://shop.example:x/", f"https://shop.example/{'x' * 900}", f"https://shop.example/?{HOSTILE}",
    ],
)  # fmt: skip
def test_an_unsubscribe_url_that_no_program_follows_is_refused(url: str) -> None:
    """The sentence says what it has to be."""
    with pytest.raises(CannotBeWritten, match="unsubscribe_url is an https URL"):
        content_of(unsubscribe_url=url)


@for_each("name", ["List-Unsubscribe", "list-unsubscribe", "List-Unsubscribe-Post"])
def test_there_is_one_way_to_unsubscribe(name: str) -> None:
    """With two, programs take none."""
    with pytest.raises(CannotBeWritten, match=rf"unsubscribe_url makes a header {name}"):
        content_of(unsubscribe_url=URL, headers={name: "<mailto:u@shop.example>"})
    both = f"<{URL}>, <mailto:u@shop.example>"
    assert own("List-Unsubscribe", both) == both


@for_each(
    ("value", "written"),
    [
        ("<news.shop.example>", "<news.shop.example>"),
        ("The news <news.shop.example>", "The news <news.shop.example>"),
        ("Bücher <news.shop.example>", "=?utf-8?q?B=C3=BCcher?= <news.shop.example>"),
        ('"News, all" <news.shop.example>', '"News, all" <news.shop.example>'),
    ],
)
def test_a_list_may_have_a_name(value: str, written: str) -> None:
    """Its id is never encoded."""
    assert own("List-Id", value) == written


@for_each(
    ("name", "value"),
    [
        ("List-Help", "<https://shop.example/ü>"),
        ("List-Post", f"<https://shop.example/{'x' * 990}>"),
        ("List-Id", "N <ü.example>"),
        ("List-Id", HOSTILE),
    ],
)
def test_what_no_program_finds_in_a_header_of_a_list_is_refused(name: str, value: str) -> None:
    """Nothing is decoded there."""
    with pytest.raises(CannotBeWritten, match=f"The header {name} has ASCII characters only"):
        own(name, value)


@for_each(
    ("name", "parameter"),
    [
        ("a b.pdf", 'filename="a b.pdf"'),
        ("Ä.pdf", "filename*=utf-8''%C3%84.pdf"),
        ('a"b\\c.pdf', "filename*=utf-8''a%22b%5Cc.pdf"),
        ("100%.pdf", "filename*=utf-8''100%25.pdf"),
        ("=?utf-8?q?x?=.pdf", "filename*=utf-8''%3D%3Futf-8%3Fq%3Fx%3F%3D.pdf"),
        ("x" * 200, f'filename="{"x" * 200}"'),
    ],
)
def test_a_file_has_its_name_as_programs_read_it(name: str, parameter: str) -> None:
    """In quotes where nobody reads it otherwise, else as RFC 2231 has it."""
    *_, (part, _) = mail_reader.leaves(content_of(attachments=[EmailAttachment(name, b"x", "application/pdf")]))
    assert part.get("Content-Disposition") == f"attachment; {parameter}"


@for_each("name", ["日本" * 30, "\N{GRINNING FACE}x" * 60, "ü" * 255, '"' * 255])
def test_a_long_name_of_a_file_stands_on_several_lines(name: str) -> None:
    """No letter is cut."""
    content = content_of(attachments=[EmailAttachment(name, b"x", "application/pdf")])
    *_, (part, _) = mail_reader.leaves(content)
    assert mail_reader.value_and_parameters(part.get("Content-Disposition"))[1] == {"filename": name}
    sections = re.findall(rb"\r\n filename\*\d+\*=(?:utf-8'')?([^;\r]+)", content)
    assert [unquote_to_bytes(section).decode() for section in sections]
    assert max(map(len, content.split(b"\r\n"))) <= 78


@for_each(
    "content_type",
    [
        "image/png",
        "text/csv",
        "text/calendar; method=REQUEST",
        'text/plain; charset="utf-8"; x=1',
        "application/vnd.ms-excel",
        "image/svg+xml",
    ],
)
def test_a_file_has_the_type_that_it_was_given(content_type: str) -> None:
    """With its parameters."""
    *_, (part, came) = mail_reader.leaves(content_of(attachments=[EmailAttachment("x", b"x", content_type)]))
    assert (part.get("Content-Type"), came) == (content_type, b"x")


@for_each(
    "content_type",
    [
        "",
        "text",
        "a/b/c",
        "/",
        "a/",
        "/b",
        "text /plain",
        "text/plain;",
        "text/plain; x",
        "text/plain; name=Ä",
        "text/plain; name=a b",
        "ä/b",
        HOSTILE,
    ],
)
def test_a_type_that_is_none_is_refused(content_type: str) -> None:
    """The sentence says what one looks like."""
    with pytest.raises(CannotBeWritten, match=r"cannot be attached as .*: write a type such as image/png"):
        content_of(attachments=[EmailAttachment("x", b"x", content_type)])


@for_each(
    ("attachment", "words"),
    [
        (EmailAttachment("x" * 256, b"x"), "255 characters at most"),
        (EmailAttachment("x", b"x", "image/png\r\nBcc: a@b.example"), "control character in the type"),
        (EmailAttachment("x", b"x", "image/png", "a b"), "ASCII letters, .* no blanks"),
        (EmailAttachment("x", b"x", "image/png", "ü"), "ASCII letters, such as logo"),
        (EmailAttachment("x", b"x", "image/png", "<x>"), "ASCII letters, .* without < and >"),
        (EmailAttachment("x\x00", b"x"), "control character in the name"),
        (EmailAttachment("x\ud800", b"x"), "control character in the name"),
    ],
)
def test_a_file_that_programs_do_not_take_is_refused(attachment: EmailAttachment, words: str) -> None:
    """With a sentence."""
    with pytest.raises(CannotBeWritten, match=words):
        content_of(attachments=[attachment], html="<p>Hello")


@for_each("field", ["text", "html"])
def test_half_a_letter_is_refused(field: str) -> None:
    """With a sentence, and not with Python's words."""
    with pytest.raises(CannotBeWritten, match="half of a surrogate pair"):
        content_of(**{field: "Hello \ud83d"})


STORED = {
    "Subject": HOSTILE,
    "X-Tag": HOSTILE,
    "Reply-To": f"{HOSTILE} <a@b.example>",
    "From": f"{HOSTILE} <a@b.example>",
    "Content-Disposition": "attachment; filename*=utf-8''a%0D%0ABcc",
    "Content-ID": HOSTILE,
}


@for_each("name", STORED)
def test_what_was_stored_before_is_looked_at_on_its_way_to_an_api(name: str) -> None:
    """An API might write the line break into a header: the e-mail is refused before anything is begun."""
    content = "".join(f"{each}: {value}\r\n" for each, value in {"From": "a@b.example", name: STORED[name]}.items())
    content += "Content-Type: image/png\r\nMIME-Version: 1.0\r\n\r\nx\r\n"
    message = Message(
        from_address="a@b.example", recipient="c@d.example", content=content.encode(), idempotency_key="1"
    )
    for way_out in (message.parts, message.as_django):
        with pytest.raises(CannotBeWritten, match="control character"):
            way_out()


def test_a_subject_may_be_translated_when_it_is_used() -> None:
    """As Django's models and forms have texts."""
    assert header("Subject", subject=gettext_lazy("Hello"), headers={"X-Tag": gettext_lazy("Hello")}) == "Hello"


@for_each("subject", ["1 + 1 =?", "?= and =?", "a=?b?c"])
def test_a_subject_that_nobody_decodes_stays_as_it_is(subject: str) -> None:
    """A person may read it in a log."""
    assert header("Subject", subject=subject) == subject


def test_a_provider_is_not_asked_for_what_could_add_a_header() -> None:
    """The e-mail is failed, with the reason."""
    content = f"From: a@b.example\r\nSubject: {HOSTILE}\r\n\r\nx\r\n".encode()
    message = Message(from_address="a@b.example", recipient="c@d.example", content=content, idempotency_key="1")
    with pytest.raises(Refused, match="control character in Subject") as refused:
        ResendTransport("127.0.0.1", 9, SecretStr("key")).submit(message, pytest.fail)
    assert (refused.value.phase, refused.value.is_permanent) == (Phase.NOT_BEGUN, True)


def test_a_provider_gets_a_text_as_a_text() -> None:
    """What looks encoded is not decoded, nor encoded twice."""
    message = Message(
        from_address="a@b.example",
        recipient="c@d.example",
        content=content_of(subject=HOSTILE, headers={"X-T": HOSTILE}),
        idempotency_key="1",
    )
    asked = json.loads(json.dumps(resend._request(message)))
    assert (asked["subject"], asked["headers"]["X-T"]) == (HOSTILE, HOSTILE)


@pytest.mark.parametrize(
    ("sender", "words"),
    [
        ("jörg@example.com", "letters beyond ASCII before the @"),
        (f"{HOSTILE} <a@b.example>", "control character"),
        ("Shop <a@b.example>, b@c.example", "not an e-mail address"),
    ],
)
def test_the_setting_is_one_address_that_each_server_takes(sender: str, words: str, settings: Settings) -> None:
    """So that manage.py check says so, and no e-mail fails for it."""
    settings.DEFAULT_FROM_EMAIL = sender
    with pytest.raises(CannotBeWritten, match=words):
        addresses.from_address()


@pytest.mark.parametrize(
    ("sender", "written"),
    [
        ("Shop: Ltd <a@b.example>", '"Shop: Ltd" <a@b.example>'),
        ("Shop, Ltd <a@BÜCHER.example>", '"Shop, Ltd" <a@xn--bcher-kva.example>'),
        ("Büro <a@b.example>", "=?utf-8?q?B=C3=BCro?= <a@b.example>"),
        ("=?utf-8?q?B=C3=BCro?= <a@b.example>", "=?utf-8?q?B=C3=BCro?= <a@b.example>"),
        ("a@b.example", "a@b.example"),
    ],
)
def test_the_sender_comes_as_the_setting_says(sender: str, written: str, settings: Settings) -> None:
    """With all of its name."""
    settings.DEFAULT_FROM_EMAIL = sender
    assert header("From") == written


ATTACHED = [
    b"Subject: \xff =?utf-8?q?a=0D=0ABcc:_x@z.example?= " + b"word " * 30,
    b"Subject: a\x0cBcc: x@z.example",
    b"Subject: a\x1cBcc: x@z.example\x00",
    b"From: \xff\xfe <a@b.example>, =?utf-8?q?=0D=0ABcc:_y?= <c@d.example>",
    b'Content-Disposition: attachment; filename="\xc3\xbc=?utf-8?q?=0D=0ABcc:_y?="',
]


@for_each("line", ATTACHED)
def test_nothing_is_added_to_an_attached_email(line: bytes) -> None:
    """Its headers are not decoded; what cannot be transmitted in them is encoded."""
    file = EmailAttachment("x.eml", line + b"\r\nX-Next: 1\r\n\r\nHello\x00\r\n", "message/rfc822")
    *_, (_, came) = mail_reader.leaves(content_of(attachments=[file]))
    inner = mail_reader.read(came)
    assert [name for name, _ in inner.headers] == [
        line.partition(b":")[0].decode(), "X-Next", "Content-Transfer-Encoding"
    ]  # fmt: skip
    assert inner.headers[0][1].isascii()
    assert base64.b64decode(inner.body) == b"Hello\x00\r\n"


@for_each(
    ("given", "written"),
    [
        (
            "Jörg Müller <a@b.example>, Käthe <c@d.example>",
            "=?utf-8?q?J=C3=B6rg_M=C3=BCller?= <a@b.example>, =?utf-8?q?K=C3=A4the?= <c@d.example>",
        ),
        ("Grüße aus Köln", "=?utf-8?q?Gr=C3=BC=C3=9Fe?= aus =?utf-8?q?K=C3=B6ln?="),
        ('attachment; filename="der Käse"', 'attachment; filename="der =?utf-8?q?K=C3=A4se?="'),
    ],
)
def test_letters_of_an_attached_email_come_as_letters(given: str, written: str) -> None:
    """They are in UTF-8, as today's mail programs write them, or in ISO 8859-1."""
    for charset in ("utf-8", "iso-8859-1"):
        file = EmailAttachment("x.eml", f"X-Tag: {given}\r\n\r\nHello\r\n".encode(charset), "message/rfc822")
        *_, (_, came) = mail_reader.leaves(content_of(attachments=[file]))
        assert mail_reader.read(came).get("X-Tag") == written
