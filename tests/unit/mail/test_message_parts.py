"""An e-mail for APIs and for Django's backends: nothing that was written is lost, and bytes stay what they are."""

import copy
from email import policy
from email.message import EmailMessage

from tests.cases import for_each
from weir.workers.mail.message import Message

PICTURE = b"\x89PNG\r\n\x1a\nnot really"
CALENDAR = "BEGIN:VCALENDAR\nEND:VCALENDAR\n"


def forwarded() -> EmailMessage:
    inner = EmailMessage(policy=policy.SMTP)
    inner["Subject"], inner["From"], inner["To"] = "Wörter " * 20, "kim@customers.example", "shop@shop.example"
    inner.set_content("Where is my order?\n")
    return inner


def everything() -> EmailMessage:
    """Return an e-mail with all that an e-mail may have."""
    written = EmailMessage(policy=policy.SMTP)
    written["Subject"], written["From"] = "Ihre Bestellung ist unterwegs, №17", '"Shöp, The" <orders@shop.example>'
    written["To"], written["Reply-To"] = "kim@customers.example", '"Help, please" <help@shop.example>, b@shop.example'
    written["Message-ID"], written["Auto-Submitted"] = "<order-17@shop.example>", "auto-generated"
    written["List-Unsubscribe"] = "<https://shop.example/u/17>"
    written.set_content("Hello <Kim>,\nÄ\n")
    written.add_alternative("<p>Hello <img src='cid:logo'></p>\n", subtype="html")
    written.get_payload()[1].add_related(PICTURE, "image", "png", cid="<logo>", filename="logo.png")  # type: ignore[index,union-attr]
    written.add_alternative(CALENDAR, subtype="calendar")
    written.add_attachment(b"%PDF-1.4\r\n\x00", maintype="application", subtype="pdf", filename="Rechnung №17.pdf")
    written.add_attachment("a,b\nÄ,2\n", subtype="csv", filename="table.csv")
    written.add_attachment(forwarded(), filename="question.eml")
    return written


def message(written: EmailMessage) -> Message:
    return Message(
        from_address="bounces@shop.example",
        recipient="kim@customers.example",
        content=written.as_bytes(),
        idempotency_key="17",
    )


def test_an_api_gets_each_part_of_an_email() -> None:
    """Texts, headers and files, as they were written."""
    parts = message(everything()).parts()
    assert parts.subject == "Ihre Bestellung ist unterwegs, №17"
    assert parts.sender == '"Shöp, The" <orders@shop.example>'
    assert parts.reply_to == ['"Help, please" <help@shop.example>', "b@shop.example"]
    assert (parts.text, parts.html) == ("Hello <Kim>,\nÄ\n", "<p>Hello <img src='cid:logo'></p>\n")
    assert parts.alternatives == [(CALENDAR, "text/calendar")]
    assert parts.headers == {
        "Message-ID": "<order-17@shop.example>",
        "Auto-Submitted": "auto-generated",
        "List-Unsubscribe": "<https://shop.example/u/17>",
    }


def test_an_api_gets_each_file_as_it_was() -> None:
    """Files, the picture that the HTML shows, and an attached e-mail to the byte."""
    files = {each.filename: each for each in message(everything()).parts().attachments}
    assert {name: file.content_type for name, file in files.items()} == {
        "logo.png": "image/png",
        "Rechnung №17.pdf": "application/pdf",
        "table.csv": "text/csv",
        "question.eml": "message/rfc822",
    }
    assert files["logo.png"].content == PICTURE
    assert {name: file.content_id for name, file in files.items() if file.content_id} == {"logo.png": "logo"}
    assert files["Rechnung №17.pdf"].content == b"%PDF-1.4\r\n\x00"
    assert files["table.csv"].content.decode().splitlines() == ["a,b", "Ä,2"]
    assert files["question.eml"].content == forwarded().as_bytes()


@for_each("subtype", ["plain", "html"])
def test_an_email_of_one_text_has_no_other(subtype: str) -> None:
    """None is not an empty text: an API would send that."""
    written = EmailMessage(policy=policy.SMTP)
    written.set_content("Hello\n", subtype=subtype)
    parts = message(written).parts()
    assert (parts.text, parts.html) == (("Hello\n", None) if subtype == "plain" else (None, "Hello\n"))
    django_message = message(written).as_django()
    assert (django_message.body, django_message.content_subtype) == ("Hello\n", subtype)


def test_who_is_in_copy_is_not_told_to_an_api() -> None:
    """The e-mail is for one recipient; an API would send it to the others, too."""
    written = everything()
    written["Cc"], written["Bcc"] = "all@customers.example", "more@customers.example"
    assert not {"cc", "bcc"} & {name.lower() for name in message(written).parts().headers}
    assert message(written).as_django().recipients() == ["kim@customers.example"]


def test_djangos_backends_that_write_bytes_write_what_was_written() -> None:
    """Whatever they ask for: Django 5.2 names the end of lines, 6.0 a policy. A copy does so, too."""
    frozen = message(everything())
    for made in (frozen.as_django(), copy.deepcopy(frozen.as_django())):
        assert made.message().as_bytes() == frozen.content
        assert made.message().as_bytes(linesep="\r\n") == frozen.content  # type: ignore[call-arg]
        assert made.message(policy=policy.SMTP).as_bytes() == frozen.content
        assert bytes(made.message()) == frozen.content


def test_what_no_generator_would_write_again_is_still_transmitted_as_it_was() -> None:
    """A header folded by hand, blanks behind a boundary, a line of its own behind the end."""
    content = (
        b"Subject: one\r\n two\r\nFrom: a@shop.example\r\nX-Odd:   blanks  \r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="b"\r\n\r\nbefore\r\n--b  \r\n\r\nHello\r\n--b-- \r\nbehind\r\n'
    )
    frozen = Message(from_address="a@b.example", recipient="c@d.example", content=content, idempotency_key="1")
    assert frozen.as_django().message().as_bytes() == content


def test_djangos_backends_that_call_an_api_get_each_part() -> None:
    """As Django's own message has them."""
    made = message(everything()).as_django()
    assert (made.from_email, made.to) == ('"Shöp, The" <orders@shop.example>', ["kim@customers.example"])
    assert made.reply_to == ['"Help, please" <help@shop.example>', "b@shop.example"]
    assert [(form[0], form[1]) for form in made.alternatives] == [
        ("<p>Hello <img src='cid:logo'></p>\n", "text/html"),
        (CALENDAR, "text/calendar"),
    ]
    inline, *files = made.attachments
    assert inline["Content-ID"] == "<logo>"
    assert inline.get_payload(decode=True) == PICTURE
    assert [(file[0], file[2]) for file in files] == [
        ("Rechnung №17.pdf", "application/pdf"),
        ("table.csv", "text/csv"),
        ("question.eml", "message/rfc822"),
    ]
