"""What a line of Exim's mainlog says (Exim's specification, "Log files").

Exim writes `<=`, which names the Message-ID, once the e-mail is in its spool, and before it answers the dot. An e-mail
that it refuses after DATA gets no such line. Nor does one whose client was seen to have left before the answer ("SMTP
connection lost after final dot"): Exim forgets it then.
"""

import re

from weir.workers.mail.evidence.formats.lines import LogLine, until_ellipsis
from weir.workers.mail.evidence.signs import OTHER, LoggedSign, Sign

_MESSAGE = re.compile(  # the ids of Exim before 4.97, and since
    r"(?P<id>[0-9A-Za-z]{6}-(?:[0-9A-Za-z]{6}-[0-9A-Za-z]{2}|[0-9A-Za-z]{11}-[0-9A-Za-z]{4})) (?P<text>.*)", re.DOTALL
)
_MESSAGE_ID = re.compile(r" id=(?P<id>\S+)")
# The end of a line is missing: of a text, within the message's id or after it; of an arrival, before its size, after
# which the Message-ID stands; or of a long entry that syslog has in pieces.
_CUT = re.compile(
    r"\w{0,6}(?:-(?:\w{0,11}(?:-(?:\w{0,4}(?: <?=?)?)?)?)?)?|[\d :.+-]*(?:\[\d*\]?)?|\[\d+[/\\]\d+\] .*", re.DOTALL
)
# There is no Message-ID in its place: a field that comes later stands there.
_WITHOUT = re.compile(r" S=\d+(?: (?:M8S|RT)=\S+)* (?:T=|from |for )")
_OWN = re.compile(r"exim \d[\w.]* daemon started|(?:Start|End) queue run: pid=")
_ACCEPTED = ("=> ", "-> ", ">> ", "*> ", "** ", "== ", "Completed")


def is_certain(line: LogLine) -> bool:
    """Return whether a line is Exim's beyond doubt: other programs' logs have times of the same form as its mainlog."""
    return not line.of_mainlog or bool(_MESSAGE.match(line.text) or _OWN.match(line.text))


def read(line: LogLine) -> LoggedSign:
    """Return what the line says: `<=` both names the e-mail and accepts it."""
    if _CUT.fullmatch(until_ellipsis(line.text)):
        return LoggedSign(Sign.CUT)
    found = _MESSAGE.match(line.text)
    if not found:
        return OTHER
    text = found["text"]
    if text.startswith("<= "):
        named = _MESSAGE_ID.search(text)
        if not named and " P=local " in text.partition(" T=")[0]:  # by a program of its host, or a bounce by Exim
            return LoggedSign(Sign.ACCEPTED, found["id"])
        if not named and not _WITHOUT.search(text):
            return LoggedSign(Sign.CUT)
        logged = named["id"] if named else ""
        value = until_ellipsis(logged)
        return LoggedSign(Sign.RECEIVED, found["id"], value, whole=value == logged)
    return LoggedSign(Sign.ACCEPTED, found["id"]) if text.startswith(_ACCEPTED) else OTHER
