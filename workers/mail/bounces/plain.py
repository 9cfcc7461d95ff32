"""Reads delivery reports that mail servers write as plain text, not as MIME parts that follow RFC 3464."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from weir.workers.mail.bounces import mime, texts
from weir.workers.mail.bounces.spellings import names, spellings
from weir.workers.mail.bounces.statuses import is_of_a_dead_address, replies
from weir.workers.mail.bounces.texts import Copy

_DAEMONS = frozenset({"mailer-daemon", "mailerdaemon", "mail-daemon", "maildaemon", "mailer_daemon", "postmaster"})
_NULL = "<>"
_MOST = 100  # recipients of one report; each of our e-mails has one
_LONGEST_SUBJECT = 300
_WARNS = re.compile(
    r"\bdelay|\bwarning\b|\bstill (?:be )?(?:trying|attempting|queued|in)\b|\bnot yet\b"
    r"|\bwill (?:be )?(?:continue|keep|retr|try)"
    r"|\bhas not been (?:able|delivered)|\bneed to resend|\bno action is required|\bwill be (?:attempted|returned)"
    r"|\b(?:continue|keep) (?:to try|trying)|\btemporary (?:error|failure)\b",
    re.IGNORECASE,
)
_FINAL = re.compile(replies("5"))
_GAVE_UP = re.compile(r"\bpermanent|\bgiv(?:en|ing) up\b", re.IGNORECASE)
_FAILED = re.compile(
    r"\bable to deliver|\b(?:could|can|was|were)(?: ?not|n't) (?:be )?deliver|undeliver|\bdid not reach\b"
    r"|\bdeliver\w* (?:has )?fail|\bfail\w* to deliver|\bnot delivered|\berror (?:has )?occurred|\berror delivering",
    re.IGNORECASE,
)
_SENT_ON = re.compile(r"\((?:expanded|generated)\s+from:?\s+<?([^<>()\s]{3,320})", re.IGNORECASE)
_LATER = re.compile(replies("4"))


@dataclass(frozen=True, slots=True)
class PlainReport:
    """What a text says about one recipient."""

    recipient: str
    diagnostic: str
    is_delayed: bool
    is_of_content: bool
    is_forwarded: bool  # whether the report is about an address to which the recipient's mail is forwarded


def reports(message: mime.MimePart, lines: Sequence[str], copy: Copy) -> Iterator[PlainReport]:
    """Yield what an e-mail from a mail server says about each recipient that was not reached.

    A recipient counts if the header X-Failed-Recipients, which only mail servers write, names it; or if the text says
    that the recipient was refused for good, or that its e-mail is delayed.
    """
    failed = names(message.first("x-failed-recipients"))[:_MOST]
    submitted = message.first("auto-submitted").lower()
    if "vacation" in submitted or not _is_of_a_server(message, lines):
        return
    warns = _warns(message, lines)
    recipients = failed or _recipients(message, lines, copy)
    said = texts.diagnostics(lines, recipients)
    sent_on = {spelling for name in _sent_on(lines) for spelling in spellings(name)}
    for recipient in recipients:
        diagnostic, is_of_content = said.get(recipient, ("", False))
        is_said = failed or (recipient in said and _is_final(lines, diagnostic))
        if is_said or (warns and recipient in said):
            yield PlainReport(recipient, diagnostic, warns, is_of_content, bool(sent_on & spellings(recipient)))


def _sent_on(lines: Sequence[str]) -> list[str]:
    """Return the recipients whose mail was forwarded. Postfix, sendmail and Exim name them after the new address."""
    return [found[1] for found in islice(_SENT_ON.finditer("\n".join(lines)), _MOST)]


def _is_of_a_server(message: mime.MimePart, lines: Sequence[str]) -> bool:
    """Return whether the e-mail says that a mail server wrote it.

    An e-mail with an empty return path may also be an automatic answer (RFC 3834, 3.3). It is taken for an answer if
    its text names the address of its author.
    """
    sender, path = message.first("from").lower(), message.first("return-path").lower()
    locals_ = {word.rpartition("@")[0] for word in names(f"{sender} {path}")} | {sender.strip("<> "), path.strip("<> ")}
    named = (name.lower() for line in lines if "@" in line for name in names(line))
    is_null = path == _NULL and not set(names(sender)).intersection(named)
    return is_null or bool(locals_ & _DAEMONS) or sender.startswith(("mailer-daemon", "mail delivery s"))


def _recipients(message: mime.MimePart, lines: Sequence[str], copy: Copy) -> list[str]:
    """Return the addresses that the text names.

    If some of them are recipients of the returned copy, only these are returned; or else only those that are not
    addresses of the report itself, if there are any.
    """
    named = list(dict.fromkeys(name for line in lines if "@" in line for name in names(line)))[:_MOST]
    spelt = {name: spellings(name) for name in named}
    to = {spelling for name in copy.recipients[:_MOST] for spelling in spellings(name)}
    own = {spelling for name in names(f"{message.first('to')} {message.first('from')}") for spelling in spellings(name)}
    return [name for name in named if spelt[name] & to] or [name for name in named if not spelt[name] & own] or named


def _warns(message: mime.MimePart, lines: Sequence[str]) -> bool:
    """Return whether the report says that the e-mail is delayed. Lines with a final refusal do not count."""
    text = "\n".join(
        [message.first("subject")[:_LONGEST_SUBJECT], *(line for line in lines if not _FINAL.search(line))]
    )
    return bool(_WARNS.search(text))


def _is_final(lines: Sequence[str], diagnostic: str) -> bool:
    """Return whether the recipient was refused for good, judging by the diagnostic, or else by the whole text."""
    if _FINAL.search(diagnostic) or is_of_a_dead_address("", diagnostic):
        return True
    if _LATER.search(diagnostic):
        return any(_GAVE_UP.search(line) for line in lines)
    return any(_FAILED.search(line) or _GAVE_UP.search(line) for line in lines)
