"""Reads what a line of Postfix's log says.

What each line proves is known from Postfix's source (3.7 and later). `cleanup` logs a Message-ID as soon as it has read
that header (`cleanup_message.c`). It commits the queue file with the file's mode and fsync (`mail_stream.c`) before
`smtpd` answers the dot, and wakes `qmgr`, which reads only committed files and logs "queue active". So any line of
`qmgr` or of a delivery agent proves that the e-mail is in the queue for good, whatever the client was told. The line of
`cleanup` alone does not prove that. `smtpd` logs "lost connection after DATA" if it has not read the dot (`smtpd.c`,
SMTPD_AFTER_DATA), and "lost connection after END-OF-MESSAGE" if it has. The second of these proves nothing. Since 3.10,
the queue id stands before both, if there is one.
"""

import re

from weir.workers.mail.evidence.formats.lines import LogLine, until_ellipsis
from weir.workers.mail.evidence.signs import OTHER, LoggedSign, Sign, bare

# A queue id is hexadecimal or, with enable_long_queue_ids, consists of digits and consonants. Every word in Postfix's
# own texts has other letters, or is shorter.
_QUEUE_ID = re.compile(
    r"(?P<warning>warning: )?(?P<id>NOQUEUE|[0-9A-F]{6,}|[0-9B-DF-HJ-NP-TV-Zb-df-hj-np-tv-z]{10,}): (?P<text>.*)",
    re.DOTALL,
)
_MESSAGE_ID = "message-id="
_NAMING = _MESSAGE_ID + "<"
_CUT = re.compile(r"(?:warning: )?[0-9A-Za-z]*(?::(?P<rest>.*))?", re.DOTALL)  # a line without a text
# Programs that see an e-mail while it comes in.
RECEIVING = frozenset({"smtpd", "qmqpd", "pickup", "postscreen", "tlsproxy", "anvil", "trivial-rewrite", "cleanup"})
# Programs that see only committed queue files. `relay` and `retry` are names of further agents in master.cf.
DELIVERING = frozenset({"qmgr", "nqmgr", "oqmgr", "bounce", "postsuper"}) | frozenset(
    {"smtp", "lmtp", "local", "virtual", "pipe", "error", "discard", "relay", "retry"}
)
OTHERS = frozenset({"scache", "tlsmgr", "postlog", "postlogd", "showq", "flush", "verify", "dnsblog", "proxymap"})
OF_THE_SERVER = frozenset({"master", "postfix-script"})
PROGRAMS = RECEIVING | DELIVERING | OTHERS | OF_THE_SERVER
_WITH_QUEUE_IDS = DELIVERING | {"smtpd", "qmqpd", "pickup", "cleanup"}
# What cleanup and smtpd log when they refuse or discard an e-mail. A refusal before the content may be about one
# recipient only.
_ACTION = re.compile(r"(?:milter-|proxy-)?(?P<what>reject|discard): (?P<where>\S+)", re.IGNORECASE)
_BEFORE_CONTENT = frozenset({"CONNECT", "HELO", "EHLO", "MAIL", "RCPT", "VRFY", "ETRN", "AUTH", "STARTTLS"})
_LEFT = re.compile(r"(?:lost connection|timeout|too many errors) after (?:DATA|BDAT)\b")
_WRITE_ERROR = re.compile(r"queue file size limit exceeded|write queue file|queue file write error")


def is_postfix(line: LogLine) -> bool:
    """Return whether a program of Postfix wrote the line: `postfix/qmgr`, or `postfix-out/qmgr` of another instance."""
    return bool(line.instance) and line.program in PROGRAMS


def read(line: LogLine) -> LoggedSign:
    """Return what the line says.

    `LoggedSign.queue_id` is empty if the line only says that the client of this smtpd process has left.
    """
    if line.program in OF_THE_SERVER:
        return _of_the_server(line.text)
    found = _QUEUE_ID.match(line.text)
    if found and not _is_cut(line.program, line.text):
        if not found["warning"] and line.program in DELIVERING:
            return LoggedSign(Sign.ACCEPTED, found["id"])
        return _of_what_comes_in(line.program, found["id"], found["text"])
    if line.program == "smtpd" and _LEFT.match(line.text):
        return LoggedSign(Sign.REFUSED)
    return LoggedSign(Sign.CUT) if _is_cut(line.program, line.text) else OTHER


def _is_cut(program: str, text: str) -> bool:
    """Return whether the line is cut off: in its queue id or, for a line of `cleanup`, before the Message-ID."""
    found = _CUT.fullmatch(until_ellipsis(text))
    if not found or program not in _WITH_QUEUE_IDS:
        return False
    rest = (found["rest"] or "").strip()
    return not rest or (program == "cleanup" and _NAMING.startswith(rest))


def _of_the_server(text: str) -> LoggedSign:
    if text.startswith("daemon started"):
        return LoggedSign(Sign.STARTED)
    if text.startswith("terminating on signal") and not text.startswith("terminating on signal 9"):
        return LoggedSign(Sign.STOPPED)
    return OTHER


def _of_what_comes_in(program: str, queue_id: str, text: str) -> LoggedSign:
    if program == "cleanup" and text.startswith(_MESSAGE_ID):
        logged = text.removeprefix(_MESSAGE_ID).strip()
        value = until_ellipsis(logged)
        return LoggedSign(Sign.NAMED, queue_id, bare(value), whole=value == logged and value.endswith(">"))
    if text.startswith(("client=", "uid=")):
        return LoggedSign(Sign.BEGUN, queue_id)
    if program == "smtpd" and _LEFT.match(text):
        return LoggedSign(Sign.REFUSED, queue_id)
    return LoggedSign(_sign_of_receiving(text), queue_id)


def _sign_of_receiving(text: str) -> Sign:
    """Return what smtpd or cleanup did to the e-mail."""
    if action := _ACTION.match(text):
        if action["what"].lower() == "discard":
            return Sign.DISCARDED
        return Sign.OTHER if action["where"].rstrip(":").upper() in _BEFORE_CONTENT else Sign.REFUSED
    if text.startswith("removed (canceled)") or _WRITE_ERROR.match(text):  # Postfix 3.10 writes the first
        return Sign.REFUSED
    return Sign.DISCARDED if text.startswith("removed (discarded)") else Sign.OTHER
