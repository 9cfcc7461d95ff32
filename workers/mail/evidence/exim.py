"""What a line of Exim's mainlog says (Exim's specification, "Log files").

Exim writes `<=`, which names the Message-ID, once the e-mail is in its spool, and before it answers the dot. What it
refuses after DATA gets no such line; nor does an e-mail whose client was seen to have left before the answer ("SMTP
connection lost after final dot"), and which Exim forgets then.
"""

import re

from workers.mail.evidence.lines import Line
from workers.mail.evidence.signs import OTHER, Said, Sign

PROGRAMS = frozenset({"exim", "exim4"})
_MESSAGE = re.compile(  # the ids of Exim before 4.97, and since
    r"(?P<id>[0-9A-Za-z]{6}-(?:[0-9A-Za-z]{6}-[0-9A-Za-z]{2}|[0-9A-Za-z]{11}-[0-9A-Za-z]{4})) (?P<text>.*)", re.DOTALL
)
_MESSAGE_ID = re.compile(r" id=(?P<id>\S+)")
_ACCEPTED = ("=> ", "-> ", ">> ", "*> ", "** ", "== ", "Completed")


def is_exim(line: Line) -> bool:
    """Tell whether Exim wrote this line."""
    return line.program in PROGRAMS


def read(line: Line) -> Said:
    """Return what the line says: `<=` both names the e-mail and accepts it."""
    found = _MESSAGE.match(line.text)
    if not found:
        return OTHER
    text = found["text"]
    if text.startswith("<= "):
        named = _MESSAGE_ID.search(text)
        return Said(Sign.RECEIVED, found["id"], named["id"] if named else "")
    return Said(Sign.ACCEPTED, found["id"]) if text.startswith(_ACCEPTED) else OTHER
