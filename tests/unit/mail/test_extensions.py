"""What MAIL says of an e-mail to a server that offers this or that."""

from dataclasses import replace

import pytest

from tests.cases import for_each
from weir.workers.mail.message import Message
from weir.workers.mail.transports.extensions import CannotBeTaken, needs_utf8, parameters

PLAIN = Message(
    from_address="shop@example.com",
    recipient="jo@example.com",
    content=b"Subject: Hello\r\n\r\nHello\r\n",
    idempotency_key="1",
)
UMLAUT = replace(PLAIN, content="Subject: Hello\r\n\r\nGr\N{LATIN SMALL LETTER U WITH DIAERESIS}n\r\n".encode())
HEADER = replace(PLAIN, content="Subject: Gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n\r\n\r\nHello\r\n".encode())
ADDRESS = replace(PLAIN, recipient="j\N{LATIN SMALL LETTER O WITH DIAERESIS}@example.com")
SENDER = replace(PLAIN, from_address="b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher@example.com")
ALL = {"size": "1000", "8bitmime": "", "smtputf8": ""}


@for_each(
    ("message", "offered", "said"),
    [
        (PLAIN, {}, ""),
        (PLAIN, ALL, " SIZE=25"),
        (PLAIN, {"size": ""}, " SIZE=25"),
        (PLAIN, {"size": "0"}, " SIZE=25"),
        (PLAIN, {"size": "25"}, " SIZE=25"),
        (replace(PLAIN, content=PLAIN.content.removesuffix(b"\r\n")), {"size": "25"}, " SIZE=25"),
        (replace(PLAIN, content=HEADER.content.partition(b"\r\n\r\n")[0]), ALL, " SIZE=16 BODY=8BITMIME SMTPUTF8"),
        (UMLAUT, ALL, " SIZE=25 BODY=8BITMIME"),
        (HEADER, ALL, " SIZE=25 BODY=8BITMIME SMTPUTF8"),
        (ADDRESS, ALL, " SIZE=25 BODY=8BITMIME SMTPUTF8"),
        (SENDER, ALL, " SIZE=25 BODY=8BITMIME SMTPUTF8"),
    ],
)
def test_an_email_asks_for_what_it_needs_and_no_more(message: Message, offered: dict[str, str], said: str) -> None:
    """A relay that downgrades, or refuses, what was announced as more than ASCII has no reason to."""
    assert parameters(message, offered) == said
    assert needs_utf8(message) == ("SMTPUTF8" in said)


@for_each(
    ("message", "offered", "words"),
    [
        (PLAIN, {"size": "24"}, "has 25 bytes, and the mail server takes 24"),
        (UMLAUT, {"smtputf8": ""}, "8BITMIME"),
        (HEADER, {"8bitmime": ""}, "SMTPUTF8"),
        (ADDRESS, {"8bitmime": ""}, "SMTPUTF8"),
        (SENDER, {}, "SMTPUTF8"),
        (ADDRESS, {"smtputf8": ""}, "8BITMIME"),
        (replace(PLAIN, recipient="jo@example.com>\r\nRCPT TO:<all@example.com"), ALL, "control character"),
        (replace(PLAIN, from_address="jo@example.com> SIZE=1"), ALL, "a space"),
    ],
)
def test_what_the_server_does_not_offer_is_not_asked_for(message: Message, offered: dict[str, str], words: str) -> None:
    """The reason is a sentence, without the address."""
    with pytest.raises(CannotBeTaken, match=words) as raised:
        parameters(message, offered)
    assert message.recipient not in str(raised.value)
