"""What each line of Postfix and of Exim says of an e-mail, as tables."""

from datetime import UTC, datetime

from tests.cases import for_each
from weir.workers.mail.evidence import exim, postfix
from weir.workers.mail.evidence.formats.lines import Around, FileClock, take_apart
from weir.workers.mail.evidence.signs import LoggedSign, Sign

SHORT, LONG = "7F87D2102A7", "4fQxYz3PbZz1Hk"


def of_postfix(program: str, text: str) -> LoggedSign:
    line = take_apart(
        f"Nov 23 17:48:22 mx1 {program}[5]: {text}", FileClock(UTC, datetime(2026, 11, 23, 18, tzinfo=UTC)), Around("")
    )
    assert line
    assert postfix.is_postfix(line)
    return postfix.read(line)


@for_each("queue_id", [SHORT, LONG])
@for_each(
    ("program", "text", "sign"),
    [
        ("postfix/smtpd", "{}: client=unknown[127.0.0.1]", Sign.BEGUN),
        ("postfix/submission/smtpd", "{}: client=a[10.0.0.1], sasl_method=PLAIN, sasl_username=shop", Sign.BEGUN),
        ("postfix/pickup", "{}: uid=0 from=<root>", Sign.BEGUN),
        ("postfix/cleanup", "{}: message-id=<a@b>", Sign.NAMED),
        ("postfix/cleanup", "{}: resent-message-id=<a@b>", Sign.OTHER),
        ("postfix/qmgr", "{}: from=<shop@example.com>, size=287, nrcpt=1 (queue active)", Sign.ACCEPTED),
        ("postfix-out/qmgr", "{}: removed", Sign.ACCEPTED),
        ("postfix/qmgr", "{}: from=<shop@example.com>, status=expired, returned to sender", Sign.ACCEPTED),
        ("postfix/smtp", "{}: to=<a@b>, relay=b[1.2.3.4]:25, delay=1, dsn=2.0.0, status=sent (250 OK)", Sign.ACCEPTED),
        ("postfix/relay/smtp", "{}: to=<a@b>, relay=none, dsn=4.4.1, status=deferred (timed out)", Sign.ACCEPTED),
        ("postfix/lmtp", "{}: to=<a@b>, dsn=5.1.1, status=bounced (550)", Sign.ACCEPTED),
        ("postfix/local", "{}: to=<a@b>, status=sent (delivered to mailbox)", Sign.ACCEPTED),
        ("postfix/virtual", "{}: to=<a@b>, status=sent (delivered to maildir)", Sign.ACCEPTED),
        ("postfix/pipe", "{}: to=<a@b>, status=sent", Sign.ACCEPTED),
        ("postfix/bounce", "{}: sender non-delivery notification: 8BE042102AB", Sign.ACCEPTED),
        ("postfix/postsuper", "{}: removed", Sign.ACCEPTED),
        ("postfix/cleanup", "{}: hold: header Subject: a from unknown[1.2.3.4]; from=<a@b>: kept", Sign.OTHER),
        ("postfix/cleanup", "{}: reject: header Subject: a from unknown[1.2.3.4]; from=<a@b>: 5.7.1 no", Sign.REFUSED),
        ("postfix/cleanup", "{}: reject: body spam from unknown[1.2.3.4]; from=<a@b>: no", Sign.REFUSED),
        ("postfix/cleanup", "{}: milter-reject: END-OF-MESSAGE from unknown[1.2.3.4]: 4.7.1 later", Sign.REFUSED),
        ("postfix/smtpd", "{}: reject: END-OF-MESSAGE from unknown[1.2.3.4]: 554 5.7.1", Sign.REFUSED),
        ("postfix/smtpd", "{}: reject: DATA from unknown[1.2.3.4]: 554 5.7.1", Sign.REFUSED),
        ("postfix/smtpd", "{}: reject: RCPT from unknown[1.2.3.4]: 450 4.1.1", Sign.OTHER),
        ("postfix/smtpd", "{}: milter-reject: RCPT from unknown[1.2.3.4]: 450 4.1.1", Sign.OTHER),
        ("postfix/smtpd", "warning: {}: queue file size limit exceeded", Sign.REFUSED),
        ("postfix/cleanup", "warning: {}: write queue file: No space left on device", Sign.REFUSED),
        ("postfix/qmgr", "warning: {}: skipping unknown record type", Sign.OTHER),
        ("postfix/cleanup", "{}: removed (canceled)", Sign.REFUSED),
        ("postfix/smtpd", "{}: lost connection after DATA (40 bytes) from unknown[127.0.0.1]", Sign.REFUSED),
        ("postfix/smtpd", "{}: timeout after BDAT (40 bytes) from unknown[127.0.0.1]", Sign.REFUSED),
        ("postfix/smtpd", "{}: lost connection after END-OF-MESSAGE from unknown[127.0.0.1]", Sign.OTHER),
        ("postfix/smtpd", "{}: lost connection after RCPT from unknown[127.0.0.1]", Sign.OTHER),
        ("postfix/cleanup", "{}: removed (discarded)", Sign.DISCARDED),
        ("postfix/cleanup", "{}: discard: header Subject: a from unknown[1.2.3.4]; from=<a@b>: gone", Sign.DISCARDED),
        ("postfix/cleanup", "{}: milter-discard: END-OF-MESSAGE from unknown[1.2.3.4]", Sign.DISCARDED),
    ],
)
def test_a_line_of_postfix_says_of_an_email(program: str, text: str, sign: Sign, queue_id: str) -> None:
    """Only what sees committed queue files proves acceptance: `cleanup` names an e-mail before all of it has come."""
    said = of_postfix(program, text.format(queue_id))
    assert (said.sign, said.queue_id) == (sign, queue_id)


@for_each(
    ("program", "text", "sign"),
    [
        ("postfix/master", "daemon started -- version 3.7.11, configuration /etc/postfix", Sign.STARTED),
        ("postfix/master", "terminating on signal 15", Sign.STOPPED),
        ("postfix/smtpd", "lost connection after DATA (40 bytes) from unknown[127.0.0.1]", Sign.REFUSED),
        ("postfix/smtpd", "timeout after BDAT (40 bytes) from unknown[127.0.0.1]", Sign.REFUSED),
        ("postfix/smtpd", "lost connection after END-OF-MESSAGE from unknown[127.0.0.1]", Sign.OTHER),
        ("postfix/smtpd", "lost connection after RCPT from unknown[127.0.0.1]", Sign.OTHER),
        ("postfix/smtpd", "warning: hostname a does not resolve to address 1.2.3.4", Sign.OTHER),
        ("postfix/smtpd", "NOQUEUE: reject: RCPT from unknown[1.2.3.4]: 554 5.7.1", Sign.OTHER),
        ("postfix/smtpd", "NOQUEUE: discard: RCPT from unknown[1.2.3.4]: gone", Sign.DISCARDED),
        ("postfix/cleanup", "warning: mail_stream_cleanup: close error", Sign.OTHER),
        ("postfix/smtpd", "NOQUEUE: lost connection after DATA (0 bytes) from unknown[127.0.0.1]", Sign.REFUSED),
        ("postfix/cleanup", "", Sign.CUT),
        ("postfix/cleanup", "4fQxYz3P", Sign.CUT),
        ("postfix/cleanup", "4fQxYz3PbZz1Hk: ", Sign.CUT),
        ("postfix/cleanup", "4fQxYz3PbZz1Hk: message", Sign.CUT),
        ("postfix/cleanup", "4fQxYz3PbZz1Hk: mess…example.com>", Sign.CUT),
        ("postfix/cleanup", "4fQxYz3PbZz1Hk: mess...example.com>", Sign.CUT),
        ("postfix/smtpd", "4fQxYz3…, sasl_username=shop", Sign.CUT),
        ("postfix/cleanup", "4fQxYz3PbZz1Hk: message-id=<", Sign.CUT),
        ("postfix/qmgr", "4fQxYz3PbZz1Hk:", Sign.CUT),
        ("postfix/smtpd", "4fQxYz3PbZz1", Sign.CUT),
        ("postfix/anvil", "statistics: max connection rate 1/60s", Sign.OTHER),
        ("postfix/anvil", "statistics", Sign.OTHER),  # it never names an e-mail
    ],
)
def test_a_line_of_postfix_without_a_queue_id(program: str, text: str, sign: Sign) -> None:
    """A client that left before the dot was read has given nothing; one that left after it may have."""
    assert of_postfix(program, text).sign is sign


@for_each(
    ("value", "message_id", "whole"),
    [
        ("<order.shipped-4711-0a1b2c3d4e5f@example.com>", "order.shipped-4711-0a1b2c3d4e5f@example.com", True),
        ("<" + "long-" * 60 + "1@x>", "long-" * 60 + "1@x", True),
        ("<fold? in@x>", "fold? in@x", True),
        ("<odd-\udce9%s$(?) x@x>", "odd-\udce9%s$(?) x@x", True),
        ("<cut-off-in-the-mid", "cut-off-in-the-mid", False),
        ("<>", "", True),
        ("<left-out…@x>", "left-out", False),
        ("<left-out...@x>", "left-out", False),
    ],
)
def test_a_message_id_is_read_as_it_is_logged(value: str, message_id: str, whole: bool) -> None:
    """As Postfix 3.7 logged it: folded, long, and with what is not ASCII."""
    said = of_postfix("postfix/cleanup", f"{SHORT}: message-id={value}")
    assert (said.message_id, said.whole) == (message_id, whole)


@for_each(
    ("text", "sign", "message_id"),
    [
        ('1rABCD-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtps S=12 id=a-1@x T="b id=c"', Sign.RECEIVED, "a-1@x"),
        ("1rABCD-0000000005x-1Zab <= a@b H=web [10.0.0.1] P=esmtp S=12 id=a-1@x", Sign.RECEIVED, "a-1@x"),
        ("1rABCD-0005xY-1Z <= <> R=1rABCC-0005xX-0A U=Debian-exim P=local S=12", Sign.ACCEPTED, ""),
        ("1rABCD-0005xY-1Z <= root@b U=root P=local S=12 id=a-1@x", Sign.RECEIVED, "a-1@x"),
        ("1rABCD-0005xY-1Z <= a@b U=web P=local-esmtp S=12", Sign.CUT, ""),
        ('1rABCD-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=12 T="a P=local b"', Sign.RECEIVED, ""),
        ('1rABCD-0005xY-1Z => a@b R=dnslookup T=remote_smtp H=b [1.2.3.4] C="250 OK"', Sign.ACCEPTED, ""),
        ("1rABCD-0005xY-1Z ** a@b R=dnslookup T=remote_smtp: 550 no", Sign.ACCEPTED, ""),
        ("1rABCD-0005xY-1Z == a@b R=dnslookup T=remote_smtp defer (-53)", Sign.ACCEPTED, ""),
        ("1rABCD-0005xY-1Z Completed", Sign.ACCEPTED, ""),
        ("1rABCD-0005xY-1Z H=web [10.0.0.1] F=<shop@example.com> rejected after DATA: spam", Sign.OTHER, ""),
        ("1rABCD-0005xY-1Z SMTP connection lost after final dot H=web [10.0.0.1]", Sign.OTHER, ""),
        ("H=web [10.0.0.1] F=<shop@example.com> rejected RCPT <a@b>: no", Sign.OTHER, ""),
        ('1rABCD-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=12 T="no Message-ID"', Sign.RECEIVED, ""),
        ("1rABCD-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=12", Sign.CUT, ""),
        ("1rABCD-0005xY-1Z <= a@b H=web [10.0.", Sign.CUT, ""),
        ("1rABCD-0005xY-1Z <", Sign.CUT, ""),
        ("1rABCD-00", Sign.CUT, ""),
        ("", Sign.CUT, ""),
        ("[1/2] 1rABCD-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=12 X=", Sign.CUT, ""),
        ("exim 4.96 daemon started: pid=215, -q30m, listening for SMTP on port 25", Sign.OTHER, ""),
    ],
)  # fmt: skip
def test_a_line_of_exim_says_of_an_email(text: str, sign: Sign, message_id: str) -> None:
    """Arrival names the e-mail and accepts it at once; what was refused after DATA is never named."""
    line = take_apart(f"2026-11-23 17:20:14 {text}", FileClock(UTC, datetime(2026, 11, 23, 18, tzinfo=UTC)), Around(""))
    assert line
    assert line.is_exim
    said = exim.read(line)
    assert (said.sign, said.message_id) == (sign, message_id)
