"""Reads what mail servers write to people: what a text says about recipients, and the copy of the e-mail below it.

Each server's text has a form of its own, and no list of the forms is complete. But all texts name the recipient, quote
the refusing server, and quote at least the header of the returned e-mail.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from weir.workers.mail.bounces import mime
from weir.workers.mail.bounces.spellings import names, spellings
from weir.workers.mail.bounces.statuses import replies

_MOST_LINES = 1_000  # lines that are read of a server's text, and of a header
_LONGEST_LINE = 2_000  # characters of a line that are read
_MOST_OF_ONE = 60  # lines about one recipient that are read
_MOST_PLACES = 200  # places that name a recipient and are read
_AROUND = " \t<>:\"'.;,()"  # what stands around an address
_SEPARATOR = "--"  # before a copy, or another part of the text
LONGEST_DIAGNOSTIC = 1_000  # characters that are kept
_FIELD = re.compile(r"[> ]{0,4}([A-Za-z][A-Za-z0-9-]{1,60}):")
# Fields that stand only in headers: lines of a server's own text do not begin with these words and a colon.
_OF_A_HEADER = frozenset(
    {"received", "message-id", "return-path", "mime-version", "dkim-signature", "date", "from", "to"}
)
_WANTED = ("message-id", "to", "return-path", "x-hmxmroriginalrecipient")
_OF_CONTENT = re.compile(
    r"\bend of data\b|\breply to data\b|\bfinal data\b|\bafter i sent the message\b", re.IGNORECASE
)
# The reply to DATA if no recipient was accepted (RFC 5321, 3.3).
_NO_RECIPIENT = re.compile(r"503\b|554\b.*\bno valid recipients\b", re.IGNORECASE)
_REPLY = re.compile(replies("45"))


@dataclass(frozen=True, slots=True)
class Copy:
    """What is known of a returned e-mail."""

    message_id: str = ""  # with < and >
    recipients: tuple[str, ...] = ()
    sender: str = ""  # the envelope sender

    def __bool__(self) -> bool:
        """Whether anything is known of a returned e-mail."""
        return bool(self.message_id or self.recipients or self.sender)


def parted(text: str) -> tuple[list[str], Copy]:
    """Return the lines of the server's own text, and what is known of the copy below, which begins with a header."""
    lines = [line[:_LONGEST_LINE] for line in text.split("\n", 2 * _MOST_LINES)[: 2 * _MOST_LINES]]
    begin = next((at for at in range(min(len(lines), _MOST_LINES)) if _begins_a_header(lines, at)), None)
    return (lines, Copy()) if begin is None else (lines[:begin], copy_of(lines[begin:]))


def copy_of(lines: Sequence[str]) -> Copy:
    """Return what a returned header says, even if a server has folded it anew, quoted it, or changed its order."""
    found: dict[str, str] = {}
    for at, line in enumerate(lines[:_MOST_LINES]):
        field = _FIELD.match(line)
        if field and (name := field[1].lower()) in _WANTED and name not in found:
            rest = [line[field.end() : _LONGEST_LINE], *_folded(lines, at)]
            found[name] = " ".join(" ".join(rest).split())
    message_ids = names(found.get("message-id", "").replace(" ", ""))
    recipients = (*names(found.get("to", "")), *names(found.get("x-hmxmroriginalrecipient", "")))
    return Copy(
        f"<{message_ids[0]}>" if message_ids else "", recipients, "".join(names(found.get("return-path", ""))[:1])
    )


def copy_in(part: mime.MimePart) -> Copy:
    """Return what is known of the returned e-mail in a part; an empty Copy if the part has none."""
    if part.kind not in {"message/rfc822", "message/global", "text/rfc822-headers", "message/global-headers"}:
        return Copy()
    return copy_of([line[:_LONGEST_LINE] for line in part.text.lstrip().split("\n", _MOST_LINES)[:_MOST_LINES]])


def diagnostics(lines: Sequence[str], recipients: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Return, for each recipient that the lines name, the reason in the text, and whether the content was refused.

    The lines from a recipient's name to the next name are about that recipient. The reason is a server's reply in these
    lines, or else their first paragraphs.
    """
    known = {spelling: recipient for recipient in recipients for spelling in spellings(recipient)}
    places: list[tuple[int, str]] = []
    others: set[int] = set()  # lines that are about another address
    for at, line in enumerate(lines):
        for name in names(line) if "@" in line else []:
            recipient = next((known[each] for each in spellings(name) if each in known), None)
            if recipient is not None:
                places.append((at, recipient))
            elif line.lstrip(" \t<").startswith(name):
                others.add(at)
    begins = sorted(others | {at for at, _ in places} | {len(lines)})
    found: dict[str, tuple[str, bool]] = {}
    for at, recipient in places[:_MOST_PLACES]:
        end = begins[bisect_right(begins, at)]
        if recipient not in found or not _REPLY.search(found[recipient][0]):  # else an earlier place has a reply
            found[recipient] = _said_of(recipient, lines[at : min(end, at + _MOST_OF_ONE)], lines)
    return found


def _said_of(recipient: str, said: Sequence[str], lines: Sequence[str]) -> tuple[str, bool]:
    reply = next((number for number, line in enumerate(said) if _REPLY.search(line)), None)
    reason = _first_words(said, recipient) if reply is None else _reply_in(said[reply:])
    return reason, _is_of_content(said, lines)


def _reply_in(lines: Sequence[str]) -> str:
    found = _REPLY.search(lines[0])
    return _paragraphs([lines[0][found.start() if found else 0 :], *lines[1:]], 1)


def _first_words(lines: Sequence[str], recipient: str) -> str:
    """Return the paragraph that names the recipient, and the next paragraph; without the name if it stands first."""
    before, _, after = lines[0].partition(recipient)
    return _paragraphs([lines[0] if before.strip(_AROUND) else after.strip(_AROUND), *lines[1:]], 2)


def _is_of_content(said: Sequence[str], lines: Sequence[str]) -> bool:
    """Return whether the text says that a server accepted the recipient, and then refused the content."""
    if _OF_CONTENT.search(" ".join(" ".join(said).split())) or "DATA" in map(str.strip, said):
        return True
    commands = [line for line in lines if line.startswith((">>> ", "<<< "))]  # sendmail quotes its SMTP dialogue so
    last = max((at for at, line in enumerate(commands) if line.startswith(">>> ")), default=-1)
    replies = [line[4:] for line in commands[last + 1 :]]
    is_data = last >= 0 and commands[last][4:].strip().upper() in {"DATA", "."}
    return is_data and any(reply[:1] == "5" for reply in replies) and not any(map(_NO_RECIPIENT.match, replies))


def _paragraphs(lines: Sequence[str], most: int) -> str:
    """Return the first `most` paragraphs on one line, up to a separator."""
    said: list[str] = []
    for line in lines:
        most -= bool(said and said[-1] and not line.strip())
        if not most or line.startswith(_SEPARATOR):
            break
        said.append(line.strip())
    return kept(" ".join(said))


def kept(text: str) -> str:
    """Return a diagnostic on one line, with LONGEST_DIAGNOSTIC characters at most."""
    return " ".join(text[: 4 * LONGEST_DIAGNOSTIC].split())[:LONGEST_DIAGNOSTIC]


def _begins_a_header(lines: Sequence[str], at: int) -> bool:
    """Return whether a header begins here: with a Message-ID, or with three fields, two of which only headers have.

    Two such fields are enough if only lines that continue them follow.
    """
    known, count = 0, 0
    first = _FIELD.match(lines[at])
    if first is None or lines[at][:1] in {" ", "\t"}:
        return False
    if first[1].lower() == "message-id":
        return True
    for line in lines[at : at + 12]:
        if line[:1] in {" ", "\t"}:
            continue
        field = _FIELD.match(line)
        if field is None:
            return False
        count += 1
        known += field[1].lower() in _OF_A_HEADER
        if count >= 3 and known >= 2:  # noqa: PLR2004
            return True
    return known >= 2  # noqa: PLR2004


def _folded(lines: Sequence[str], at: int) -> list[str]:
    """Return the indented lines that continue the field at `at`."""
    folded = []
    for line in lines[at + 1 : at + 20]:
        if line[:1] not in {" ", "\t"}:
            break
        folded.append(line)
    return folded
