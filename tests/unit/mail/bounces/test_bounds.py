"""Anybody may send what is read as a report: none takes many times as long as an e-mail of its length."""

import base64
import email
import tracemalloc
from functools import partial

import pytest

from tests.cases import for_each
from tests.proportion import times_as_long
from tests.unit.mail.bounces import written
from weir.workers.mail.bounces import mime, reports, texts
from weir.workers.mail.bounces.statuses import is_of_a_dead_address

SIZE = mime.LOOKED_AT
LONGEST = 70.0  # times as long as Python's parser takes for ORDINARY
FOR_MEMORY = SIZE // 4  # is looked at where memory is counted, which takes long
MOST_MEMORY = 40 * FOR_MEMORY
EXIM = b"X-Failed-Recipients: kim@example.com\n\n"
DAEMON = b"From: MAILER-DAEMON@mx\n\n"
STATUS = b"Content-Type: message/delivery-status\n\n"
SENTENCE = "Your message could not be delivered to the mailbox of kim.\n"
ORDINARY = DAEMON + SENTENCE.encode() * (SIZE // len(SENTENCE))


def nested(kind: bytes, depth: int) -> bytes:
    """Return parts in parts, with lines that each level looks at."""
    heads = b"".join(b'Content-Type: %s; boundary="b%d"\n\n--b%d\n' % (kind, n, n) for n in range(depth))
    return heads + b"--\n" * ((SIZE - len(heads)) // 3)


def both(text: str, status: str) -> bytes:
    """Return a report with a text for people and fields for programs."""
    return written.of_parts(f"\n{text}", written.part(written.STATUS, status))


HOSTILE = {
    "dashes": EXIM + b"------ This is a copy of " + b"-" * SIZE + b"x",
    "lines of dashes": EXIM + b"-- \n" * (SIZE // 4),
    "signs": b"\nHi. This is the qmail-send program\n<" + b"@" * SIZE,
    "addresses": DAEMON + b"<a@b>:\n" * (SIZE // 7),
    "different addresses": DAEMON + b"".join(b"<a%d@b>:\n" % n for n in range(SIZE // 13)),
    "authors": b"Return-Path: <>\nFrom: "
    + b"".join(b"a%d@b," % n for n in range(2_000))
    + b"\n\n"
    + b"c@d\n" * (SIZE // 4),
    "lists": DAEMON + b"<a@b> (expanded from <c@d>): 550 no\n" * (SIZE // 36),
    "one word with a sign": DAEMON + b"a" * SIZE + b"@b",
    "failed recipients": b"X-Failed-Recipients: " + b"a@b, " * (SIZE // 5) + b"\n\n550 a@b\n",
    "many failed recipients": b"X-Failed-Recipients: " + b"".join(b"a%d@b," % n for n in range(90_000)) + b"\n\na@b\n",
    "replies": DAEMON + b"kim@example.com 550 " * (SIZE // 20),
    "statuses": DAEMON + b"kim@example.com " + b"5.1.1 " * (SIZE // 6),
    "digits": DAEMON + b"kim@example.com " + b"5.1" * (SIZE // 3),
    "parameters": b"Content-Type: multipart/report" + b";a=b" * (SIZE // 4),
    "quoted parameters": b"Content-Type: multipart/report" + b';a="' * (SIZE // 4),
    "blanks before a boundary": b"Content-Type: multipart/report;" + b" " * SIZE,
    "folded": b"Content-Type: multipart/report" + b"\n ;" * (SIZE // 3),
    "one header": b"Subject: " + b"x" * SIZE,
    "headers": b"".join(b"a%d: b\n" % n for n in range(SIZE // 11)),
    "the same header": b"Received: <a@b>\n" * (SIZE // 16),
    "references": b"References: " + b"<a@b>\n " * (SIZE // 7),
    "encoded words": b"From: " + b"=?utf-8?q?=41?= " * (SIZE // 16) + b"\nSubject: " + b"=?" * 1_000,
    "nested multiparts": nested(b"multipart/mixed", 5_000),
    "some nested multiparts": nested(b"multipart/mixed", 7),
    "nested e-mails": b"Content-Type: message/rfc822\n\n" * (SIZE // 30),
    "parts": b'Content-Type: multipart/mixed; boundary="b"\n\n' + b"--b\n\nx\n" * (SIZE // 8),
    "parts of reports": b'Content-Type: multipart/report; boundary="b"\n\n' + (b"--b\n" + STATUS + b"a: b\n") * 20_000,
    "beginnings of a boundary": b"Content-Type: multipart/mixed; boundary=" + b"-" * 99 + b"\n\n" + b"\n" + b"-" * SIZE,
    "groups": STATUS + b"Final-Recipient: a@b\nAction: failed\n\n" * (SIZE // 40),
    "groups of addresses": STATUS
    + b"".join(b"Final-Recipient: a%d@b\nAction: failed\n\n" % n for n in range(SIZE // 44)),
    "blank lines": STATUS + b"\n \t" * (SIZE // 3),
    "fields of a status": STATUS + b"Final-Recipient: " + b"a@b;" * (SIZE // 4),
    "an address of a status": STATUS + b"Action: failed\nFinal-Recipient: rfc822; " + b"\\x{FC}" * (SIZE // 6) + b"@b",
    "a domain of a status": STATUS + b"Action: failed\nFinal-Recipient: rfc822; a@" + "\xfc.".encode() * (SIZE // 3),
    "a diagnostic": STATUS + b"Final-Recipient: a@b\nAction: failed\nDiagnostic-Code: smtp; " + b"user " * (SIZE // 5),
    "a date": STATUS + b"Arrival-Date: " + b"1 " * (SIZE // 2) + b"\n\nFinal-Recipient: a@b\nAction: failed",
    "base64": STATUS[:-1] + b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(b"a: b\n\n" * (SIZE // 9)),
    "quoted-printable": STATUS[:-1] + b"Content-Transfer-Encoding: quoted-printable\n\n" + b"=\n" * (SIZE // 2),
    "equals signs": STATUS[:-1] + b"Content-Transfer-Encoding: base64\n\n" + b"=" * SIZE,
    "a charset": b"Content-Type: text/plain; charset=punycode\nFrom: MAILER-DAEMON@mx\n\n" + b"a-" * (SIZE // 2),
    "headers in a text": DAEMON + b"Message-ID: a\n" * (SIZE // 14),
    "beginnings of headers": DAEMON + b"Received: a\nMessage\n" * (SIZE // 20),
    "commands": DAEMON + b">>> DATA\n<<< 550 a@b\n" * (SIZE // 22),
    "a text and groups of addresses": both(
        "".join(f"<a{n}@b>: user 550 x\n" for n in range(4_000)),
        "".join(f"Final-Recipient: a{n}@b\nAction: failed\n\n" for n in range(100)),
    ),
    "a text and groups of one address": both(
        "<a@b>: user 550 x\n" * 4_000, "Final-Recipient: a@b\nAction: failed\n\n" * 100
    ),
    "complaints": b"Content-Type: message/feedback-report\n\n" + b"Feedback-Type: abuse\n\n" * (SIZE // 22),
    "no lines": b"\0" * SIZE,
    "line ends": b"\r" * SIZE,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_report_is_read_in_a_bounded_time(content: bytes) -> None:
    """As a multiple of the time in which Python's parser reads an ordinary e-mail that is as long."""
    assert times_as_long(partial(reports.parse, content), lambda: email.message_from_bytes(ORDINARY), LONGEST) < LONGEST


@for_each("words", ["user ", "no ", "5.1.1 ", "550 ", "@", "a.b", "unknown " * 2 + "a " * 7, "domain a b "])
def test_a_reason_is_judged_in_a_bounded_time(words: str) -> None:
    """It has a thousand characters at most, and takes about as long as ordinary ones that have as many together."""
    reason = (words * texts.LONGEST_DIAGNOSTIC)[: texts.LONGEST_DIAGNOSTIC]

    def judge_ordinary() -> None:
        for _ in range(texts.LONGEST_DIAGNOSTIC // len(SENTENCE)):
            is_of_a_dead_address("5.0.0", SENTENCE)

    assert times_as_long(partial(is_of_a_dead_address, "5.0.0", reason), judge_ordinary, 4) < 4


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_report_is_read_in_bounded_memory(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some MB for each that is looked at."""
    monkeypatch.setattr(mime, "LOOKED_AT", FOR_MEMORY)
    tracemalloc.start()
    try:
        reports.parse(content)
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
