"""What is transmitted, to the last byte; and what cannot be written, with the reason."""

import re
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.utils import timezone
from pytest_django import Settings

from tests.cases import for_each
from weir.workers.mail import kinds
from weir.workers.mail.addresses import CannotBeWritten, canonical
from weir.workers.mail.kinds import Content, EmailAttachment
from weir.workers.mail.models import Email
from weir.workers.mail.rendering import Rendered, message_id, render

TEXT = "Hello <Kim>,\nÄ\n"
HTML = "<p>Hello &lt;Kim&gt;,</p>\n"
PNG = b"\x89PNG\r\n\x1a\n\x00"


@pytest.fixture(autouse=True)
def _shop(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the sender, and have an app registered `note`, which says what it is told."""
    settings.DEFAULT_FROM_EMAIL = "The Shop <orders@shop.example>"
    monkeypatch.setattr(kinds, "_kinds", {})
    kinds.register("note")(note)


def note(**values: Any) -> Content:
    return Content(**{"subject": "Hello", "text": TEXT, "html": HTML, **values})


def email(context: dict[str, Any] | None = None, **changes: Any) -> Email:
    values = {"kind": "note", "key": "17", "recipient": "kim@customers.example", "message_id": message_id("note", "17")}
    return Email(context=context or {}, **{**values, **changes})


def parsed(rendered: Rendered) -> EmailMessage:
    message = message_from_bytes(rendered.content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def test_it_says_who_sends_what_to_whom_and_that_nobody_need_answer() -> None:
    """The headers that a mail server and a mail program look at."""
    rendered = render(email())
    message = parsed(rendered)
    assert message["From"] == "The Shop <orders@shop.example>"
    assert message["To"] == "kim@customers.example"
    assert message["Subject"] == rendered.subject == "Hello"
    assert re.fullmatch(r"<note-17-[0-9a-f]{12}@shop\.example>", message["Message-ID"])
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Date"].datetime


def test_it_comes_as_text_and_as_html() -> None:
    """Each as its kind has rendered it."""
    message = parsed(render(email()))
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert text.get_content().splitlines() == ["Hello <Kim>,", "Ä"]
    assert html.get_content().splitlines() == ["<p>Hello &lt;Kim&gt;,</p>"]


def test_a_text_alone_is_one_part() -> None:
    """Without an HTML that says nothing."""
    assert parsed(render(email({"html": ""}))).get_content_type() == "text/plain"


def test_files_go_along_and_pictures_stand_in_the_html() -> None:
    """Byte for byte, with their names and types."""
    content = note(
        html='<img src="cid:logo">',
        attachments=[
            EmailAttachment("Rechnung Ä.pdf", b"%PDF\r\n\x00", "application/pdf"),
            EmailAttachment("l.png", PNG, "image/png", "logo"),
        ],
    )
    kinds._kinds["note"] = lambda: content
    message = parsed(render(email()))
    (pdf,) = message.iter_attachments()
    assert (pdf.get_filename(), pdf.get_content_type(), pdf.get_content()) == (
        "Rechnung Ä.pdf",
        "application/pdf",
        b"%PDF\r\n\x00",
    )
    (picture,) = [part for part in message.walk() if part.get_content_type() == "image/png"]
    assert (picture["Content-ID"], picture.get_content()) == ("<logo>", PNG)


def test_a_picture_without_an_html_to_stand_in_goes_along() -> None:
    """As any other file."""
    kinds._kinds["note"] = lambda: note(html="", attachments=[EmailAttachment("l.png", PNG, "image/png", "logo")])
    (picture,) = parsed(render(email())).iter_attachments()
    assert (picture.get_filename(), picture.get_content()) == ("l.png", PNG)


ATTACHED = (
    b"From: Jo <jo@customers.example>\nSubject: =?utf-8?q?R=C3=A9?= a\n long   subject of "
    + b"many words " * 6
    + b"\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nNa\xefve, " + b"x" * 1_500
    + b"\n--b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n\xc3\x84\r\n--b--\n"
)  # fmt: skip


@pytest.mark.parametrize("content_type", ["message/rfc822", "Message/RFC822"])
@pytest.mark.parametrize("recipient", ["kim@customers.example", "jürgen@customers.example"])
def test_an_email_goes_along_as_an_email(content_type: str, recipient: str) -> None:
    """Not in base64 (RFC 2046, 5.2.1), but in seven bits like all else, and its headers as they were."""
    kinds._kinds["note"] = lambda: note(attachments=[EmailAttachment("x.eml", ATTACHED, content_type)])
    content = render(email(recipient=recipient)).content
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", content)
    assert content.replace(f"To: {recipient}".encode(), b"").isascii()
    assert max(map(len, content.split(b"\r\n"))) <= 998
    assert ATTACHED.partition(b"\n\n")[0].replace(b"\n", b"\r\n") in content
    (part,) = message_from_bytes(content, policy=policy.default).iter_attachments()
    assert (part.get_filename(), part.get_content_type()) == ("x.eml", "message/rfc822")
    assert part["Content-Transfer-Encoding"] == "7bit"
    first, second = part.get_content().iter_parts()
    assert first.get_payload(decode=True) == b"Na\xefve, " + b"x" * 1_500
    assert second.get_content().strip() == "Ä"


def test_an_email_in_the_html_goes_along_as_an_email() -> None:
    """As a picture would, by its name."""
    kinds._kinds["note"] = lambda: note(
        attachments=[EmailAttachment("x.eml", b"Subject: Re\n\nHi", "message/rfc822", "x")]
    )
    (part,) = [part for part in parsed(render(email())).walk() if part.get_content_type() == "message/rfc822"]
    assert (part["Content-ID"], part.get_content()["Subject"]) == ("<x>", "Re")


@for_each("content", [b"", b"%PDF-1.7\n\x00", b"\nSubject: Re\n\n"])
def test_what_is_no_email_does_not_go_along_as_one(content: bytes) -> None:
    """Mail programs would show nothing of it."""
    kinds._kinds["note"] = lambda: note(attachments=[EmailAttachment("x.eml", content, "message/rfc822")])
    with pytest.raises(CannotBeWritten, match=r"'x\.eml' has no headers, so it is not an e-mail: .*/octet-str"):
        render(email())


@for_each(
    "content_type",
    ["message/global", "message/delivery-status", "message/partial; id=1", "MULTIPART/mixed", "multipart/report"],
)
def test_types_that_are_made_of_parts_are_refused(content_type: str) -> None:
    """They must not be in base64: the sentence says which type to give instead."""
    kinds._kinds["note"] = lambda: note(attachments=[EmailAttachment("x.eml", ATTACHED, content_type)])
    with pytest.raises(CannotBeWritten, match=r"'x\.eml' cannot be attached as .*: give .*message/rfc822"):
        render(email())


@for_each(
    ("attachment", "where"),
    [
        (EmailAttachment("l.png\r\nBcc: a@b.example", PNG, "image/png"), "the name of an attachment"),
        (EmailAttachment("l.png\nX: y", PNG, "image/png", "logo"), "the name of an attachment"),
        (EmailAttachment("l.png", PNG, "image/png", "logo>\r\nBcc: a@b.example"), "the id of an attachment"),
    ],
)
def test_nor_can_a_file_that_goes_along_add_a_header(attachment: EmailAttachment, where: str) -> None:
    """Whatever a customer calls it."""
    kinds._kinds["note"] = lambda: note(attachments=[attachment])
    with pytest.raises(CannotBeWritten, match=f"control character in {where}"):
        render(email())


@for_each("error", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_not_the_emails_fault(error: type[Exception]) -> None:
    """It can be rendered later, so that nobody may call it failed."""

    def ask() -> Content:
        raise error("the connection is lost")

    kinds._kinds["note"] = ask
    with pytest.raises(error, match="the connection is lost"):
        render(email())


@for_each(
    ("subject", "text"),
    [("Ä-17 " * 30, "Ä" * 5_000), ("Ä" * 100, "Ä\n" * 3), ("x" * 2_000, "x" * 2_000), ("Hello", "Hello\r\nKim\r")],
)
def test_every_line_ends_as_smtp_wants_it_and_all_is_in_seven_bits(subject: str, text: str) -> None:
    """No bare line feed, no bare carriage return, nothing that a relay might have to convert."""
    content = render(email({"subject": subject, "text": text, "headers": {"X-Tag": subject}})).content
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", content)
    assert content.isascii()
    assert max(map(len, content.split(b"\r\n"))) <= 998
    message = message_from_bytes(content, policy=policy.default)
    assert message["Subject"] == message["X-Tag"] == subject


def test_a_long_word_in_a_header_stays_what_it_is() -> None:
    """Programs that read a Message-ID, or follow a link, decode nothing there."""
    url = "https://shop.example/unsubscribe/" + "x" * 200
    identity = message_id("note", "k" * 100)
    content = render(email({"unsubscribe_url": url}, message_id=identity)).content
    assert f"\r\nMessage-ID: {identity}\r\n".encode() in content
    assert f"\r\nList-Unsubscribe: <{url}>\r\n".encode() in content
    assert b"\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n" in content


def test_a_kind_sets_headers_of_its_own() -> None:
    """Also another name and address to answer to; bounces go where they always go."""
    headers = {"From": "Billing <billing@shop.example>", "Reply-To": "help@shop.example", "X-Tag": "17"}
    rendered = render(email({"headers": headers}))
    message = parsed(rendered)
    assert {name: message[name] for name in headers} == headers
    assert len(message.get_all("From", [])) == 1


@for_each("name", ["To", "bcc", "Cc", "Message-ID", "Content-Type", "Subject", "a b", "X:"])
def test_a_kind_cannot_set_the_headers_that_weir_writes(name: str) -> None:
    """Nor add a recipient of whom there is no row."""
    with pytest.raises(CannotBeWritten, match="cannot set the header"):
        render(email({"headers": {name: "all@customers.example"}}))


def test_it_is_dated_when_it_is_to_be_sent() -> None:
    """Not when it was queued, weeks before; and where its time is over, now."""
    later = datetime(2100, 1, 1, tzinfo=UTC)
    assert parsed(render(email(next_attempt_at=later)))["Date"].datetime == later
    before = timezone.now().replace(microsecond=0)
    assert parsed(render(email(next_attempt_at=datetime(2020, 1, 1, tzinfo=UTC))))["Date"].datetime >= before


def test_it_is_written_in_its_language() -> None:
    """Whatever the language of the process."""
    kinds._kinds["note"] = lambda: note(subject=_month())
    assert render(email(language="de")).subject == "Oktober"
    assert render(email(language="en")).subject == "October"


def _month() -> str:
    from django.utils.dates import MONTHS  # noqa: PLC0415  lazy translations

    return str(MONTHS[10])


def test_the_domain_of_an_address_may_be_international_and_so_may_the_rest() -> None:
    """The domain is written in ASCII and lower case; what stands before the @ is the recipient's own."""
    assert canonical("Kim@Bücher.example") == "Kim@xn--bcher-kva.example"
    assert canonical("jürgen@customers.example") == "jürgen@customers.example"
    assert "To: jürgen@customers.example\r\n".encode() in render(email(recipient="jürgen@customers.example")).content


@for_each(
    ("recipient", "words"),
    [
        ("", "not an e-mail address"),
        ("kim", "not an e-mail address"),
        ("kim@", "not an e-mail address"),
        ("kim @customers.example", "not an e-mail address"),
        ("kim@customers.example, all@customers.example", "not an e-mail address"),
        ("kim@customers.example\nBcc: all@customers.example", "line break"),
        ("kim@customers.example\r\n", "line break"),
        ("kim\x00@customers.example", "control character"),
        ("ü kim@customers.example", "not an e-mail address"),
        ("<kim@customers.example> SIZE=1", "not an e-mail address"),
    ],
)
def test_an_address_that_cannot_be_written_to_is_refused_with_the_reason(recipient: str, words: str) -> None:
    """Also one that would add a header or a recipient."""
    with pytest.raises(CannotBeWritten, match=words):
        canonical(recipient)


def test_an_email_whose_recipient_was_forgotten_cannot_be_written() -> None:
    """The sentence says what to do."""
    with pytest.raises(CannotBeWritten, match=r"no recipient: .*--to ADDRESS"):
        render(email(recipient=""))


@for_each(
    "subject",
    [
        "17\nBcc: all@customers.example",
        "17\r\n\r\nHello",
        "17\rX: y",
        "17\x0bBcc : a@b.example",
        "17\u2028",
        "17\u2029",
        "17\x85",
    ],
)
def test_a_subject_with_a_line_break_is_refused(subject: str) -> None:
    """It cannot add a header."""
    with pytest.raises(CannotBeWritten, match="control character in the subject"):
        render(email({"subject": subject}))


def test_the_row_says_how_the_subject_begins() -> None:
    """As much as its column takes; what is transmitted has all of it."""
    rendered = render(email({"subject": "Hello " * 50 + "Kim"}))
    assert rendered.subject == ("Hello " * 50)[:200]
    assert parsed(rendered)["Subject"] == "Hello " * 50 + "Kim"


@for_each(
    "values", [{"headers": {"X-Tag": "1\nBcc: a@b.example"}}, {"unsubscribe_url": "https://x\r\nBcc: a@b.example"}]
)
def test_nor_can_any_other_header(values: dict[str, Any]) -> None:
    """Whatever a kind says."""
    with pytest.raises(CannotBeWritten, match="control character in the header"):
        render(email(values))


def test_a_from_address_with_a_line_break_is_refused(settings: Settings) -> None:
    """Nor can the shop's name add one."""
    settings.DEFAULT_FROM_EMAIL = "The Shop\r\nBcc: all@customers.example <orders@shop.example>"
    with pytest.raises(CannotBeWritten, match="line break"):
        render(email())


def test_a_text_that_cannot_be_rendered_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a kind of e-mail raises, this e-mail is to blame."""

    def fail() -> Content:
        raise ZeroDivisionError("in a template tag")

    monkeypatch.setitem(kinds._kinds, "note", fail)
    with pytest.raises(CannotBeWritten, match=r"^ZeroDivisionError: in a template tag$"):
        render(email())


def test_the_message_id_is_that_of_the_row() -> None:
    """The same each time that it is rendered; another installation's e-mail about 17 has another one."""
    queued = email()
    assert parsed(render(queued))["Message-ID"] == parsed(render(queued))["Message-ID"] == queued.message_id
    assert message_id("note", "17") != message_id("note", "17")


def test_a_message_id_has_no_character_that_would_end_it() -> None:
    """Whatever the key is."""
    made = message_id("note", "A 17>\r\n@ä.")
    assert re.fullmatch(r"<note-A_17______-[0-9a-f]{12}@shop\.example>", made)


def test_an_email_can_be_queued_although_the_from_address_is_none(settings: Settings) -> None:
    """The setting is to blame: rendering the e-mail says so, making its Message-ID does not fail."""
    settings.DEFAULT_FROM_EMAIL = "The Shop"
    assert message_id("note", "17").endswith("@localhost>")
    with pytest.raises(CannotBeWritten, match="not an e-mail address"):
        render(email())


def test_the_parts_are_written_as_python_writes_them() -> None:
    """Their headers are kept from one e-mail to the next, and only boundaries are Weir's own, new ones each time."""
    logo = EmailAttachment("logo.png", PNG, "image/png", content_id="logo")
    receipt = EmailAttachment("receipt.txt", b"Thank you!", "text/plain")
    for text, html, files in (
        (TEXT, "", []),
        (TEXT, HTML, []),
        ("Plain\n", HTML, [logo]),
        (TEXT, HTML, [logo, receipt]),
    ):
        ours = parsed(render(email({"text": text, "html": html, "attachments": files})))
        theirs = EmailMessage(policy.SMTP.clone(cte_type="7bit"))
        theirs.set_content(text)
        if html:
            theirs.add_alternative(html, subtype="html")
        shown: Any = theirs.get_payload(1) if html else theirs
        for file in files:
            main, _, sub = file.content_type.partition("/")
            if file.content_id:
                shown.add_related(file.content, main, sub, cid="<logo>", filename=file.name)
            else:
                theirs.add_attachment(file.content, main, sub, filename=file.name)
        wanted = message_from_bytes(theirs.as_bytes(), policy=policy.default)
        assert [described(part) for part in ours.walk()] == [described(part) for part in wanted.walk()]
        boundaries = [found for part in ours.walk() if (found := part.get_boundary())]
        assert len({*boundaries}) == len(boundaries) == sum(part.is_multipart() for part in ours.walk())
        assert all(re.fullmatch("=_[0-9a-f]{32}", boundary) for boundary in boundaries)


def described(part: Any) -> tuple[object, ...]:
    """Return what a part says of itself, without its boundary, and what it has."""
    parameters = {name: value for name, value in part["Content-Type"].params.items() if name != "boundary"}
    content = None if part.is_multipart() else part.get_content()
    return part.get_content_type(), parameters, part["Content-Transfer-Encoding"], part.get_filename(), content
