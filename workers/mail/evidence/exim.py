"""Reads what a line of Exim's mainlog says (Exim's specification, "Log files").

Exim writes a line with `<=`, which names the Message-ID, when the e-mail is in Exim's spool, and before Exim answers
the dot. An e-mail that Exim refuses after DATA gets no such line. Neither does an e-mail whose client was seen to have
left before the answer ("SMTP connection lost after final dot"): Exim discards that e-mail.
"""

import re

from weir.workers.mail.evidence.formats.lines import LogLine, until_ellipsis
from weir.workers.mail.evidence.signs import OTHER, LoggedSign, Sign

_MESSAGE = re.compile(  # the ids of Exim before 4.97, and those since 4.97
    r"(?P<id>[0-9A-Za-z]{6}-(?:[0-9A-Za-z]{6}-[0-9A-Za-z]{2}|[0-9A-Za-z]{11}-[0-9A-Za-z]{4})) (?P<text>.*)", re.DOTALL
)
_MESSAGE_ID = re.compile(r" id=(?P<id>\S+)")
# A line whose end is missing: it ends within its stamp or the message's id, or soon after; or it is a piece of a long
# entry, which syslog has in several. An arrival that ends later, before its Message-ID, does not match `_WITHOUT`.
_CUT = re.compile(
    r"\w{0,6}(?:-(?:\w{0,11}(?:-(?:\w{0,4}(?: <?=?)?)?)?)?)?|[\d :.+-]*(?:\[\d*\]?)?|\[\d+[/\\]\d+\] .*", re.DOTALL
)
# An arrival without a Message-ID: in the place of the Message-ID stands a field that comes after it.
_WITHOUT = re.compile(r" S=\d+(?: (?:M8S|RT)=\S+)* (?:T=|from |for )")
_OWN = re.compile(r"exim \d[\w.]* daemon started|(?:Start|End) queue run: pid=")
_ACCEPTED = ("=> ", "-> ", ">> ", "*> ", "** ", "== ", "Completed")


def is_certain(line: LogLine) -> bool:
    """Return whether Exim wrote the line beyond doubt: other programs' logs have times of the same form as mainlog."""
    return not line.of_mainlog or bool(_MESSAGE.match(line.text) or _OWN.match(line.text))


def read(line: LogLine) -> LoggedSign:
    """Return what the line says. A line with `<=` both names the e-mail and shows that Exim accepted it."""
    if _CUT.fullmatch(until_ellipsis(line.text)):
        return LoggedSign(Sign.CUT)
    found = _MESSAGE.match(line.text)
    if not found:
        return OTHER
    text = found["text"]
    if text.startswith("<= "):
        named = _MESSAGE_ID.search(text)
        if not named and " P=local " in text.partition(" T=")[0]:  # from a local program, or a bounce of Exim's
            return LoggedSign(Sign.ACCEPTED, found["id"])
        if not named and not _WITHOUT.search(text):
            return LoggedSign(Sign.CUT)
        logged = named["id"] if named else ""
        value = until_ellipsis(logged)
        return LoggedSign(Sign.RECEIVED, found["id"], value, whole=value == logged)
    return LoggedSign(Sign.ACCEPTED, found["id"]) if text.startswith(_ACCEPTED) else OTHER
