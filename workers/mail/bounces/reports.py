"""Parses delivery reports (RFC 3464): what a mail server says later about an e-mail that a server had accepted.

The parser is pure. It looks for three things, in this order: multipart/report, even inside other parts; a text of any
form that names a refused recipient; and a complaint (RFC 5965). Any other e-mail (an answer, an auto-reply, a receipt,
spam) gives no report. Every e-mail is read in bounded time, whatever it holds.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice

from weir.workers.mail.addresses import LONGEST
from weir.workers.mail.bounces import fields, mime, plain, statuses, texts
from weir.workers.mail.bounces.fields import Group, after_type, moment
from weir.workers.mail.bounces.spellings import MOST_NAMES, names, spellings
from weir.workers.mail.bounces.spellings import plain as without_escapes
from weir.workers.mail.bounces.texts import Copy

_REPLY = re.compile(r"(?<![\w.\[:-])([45])\d\d[ -]")
_WORD = re.compile(r"\s*(\w+)")
# The types of feedback that are complaints. `not-spam` is the opposite; `auth-failure` (RFC 6591), `dmarc`, `virus` and
# `other` say something else about the e-mail.
_COMPLAINTS = frozenset({"abuse", "fraud", "opt-out", "opt-out-list"})
_END_OF_THREAD = 2_000  # characters
_BEGINNING = 10_000  # characters of a status part that are read for names: the e-mail is named before the recipients
_OF_ANOTHER = frozenset({"message-id", "from", "in-reply-to", "references"})  # about the report itself, or read already


class ReportAction(StrEnum):
    """What happened to the e-mail (RFC 3464, 2.3.3; a provider's webhook), or how its recipient reacted."""

    ACCEPTED = "accepted"  # by the provider, which says so in a webhook; mail servers do not report that
    FAILED = "failed"
    DELAYED = "delayed"
    DELIVERED = "delivered"
    RELAYED = "relayed"
    EXPANDED = "expanded"
    COMPLAINED = "complained"  # about an e-mail that was delivered


_BY_CLASS = {"5": ReportAction.FAILED, "4": ReportAction.DELAYED, "2": ReportAction.DELIVERED}


@dataclass(frozen=True, kw_only=True, slots=True)
class BounceReport:
    """What is reported about one recipient."""

    message_id: str  # of the reported e-mail, with < and >; empty if the report does not name it
    recipient: str  # the original recipient, or else the address that the e-mail was forwarded to; empty if not named
    addresses: frozenset[str]  # all spellings of the addresses that the report names as the recipient, in lower case
    action: ReportAction
    status: str  # such as 5.1.1 (RFC 3463); empty if the report has none
    diagnostic: str
    reporting_mta: str
    # When the reporting server received the e-mail, or else when the report was written; None if neither is known.
    arrived_by: datetime | None = None
    is_of_content: bool = False  # whether the content was refused, after the recipient was accepted
    is_forwarded: bool = False  # whether the report is about an address to which the recipient's mail is forwarded
    # Words of the form x@y that may name the e-mail: Message-IDs, then others, such as the report's own recipient.
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Mail:
    """An e-mail that may be a report, with what all three ways of reading it need."""

    message: mime.MimePart
    parts: Sequence[mime.MimePart]
    lines: Sequence[str]  # the text for people, without the copy below
    copies: Sequence[Copy]
    names: Sequence[str]  # the Message-IDs that may be the reported e-mail's
    other_names: Sequence[str]  # other words that may name the reported e-mail

    @property
    def copy(self) -> Copy:
        """The returned e-mail, preferably one with a Message-ID."""
        return next((copy for copy in self.copies if copy.message_id), next(iter(self.copies), Copy()))


def parse(content: bytes) -> list[BounceReport]:
    """Return the reports in an e-mail, one for each recipient; an empty list if it is not a delivery report."""
    message = mime.read(content)
    parts = list(message.parts())
    text = next((part.text for part in parts if part.kind == "text/plain" and part.content.strip()), "")
    lines, quoted = texts.parted(text or (message.text if len(parts) == 1 else ""))
    copies = [copy for copy in (*map(texts.copy_in, parts), quoted) if copy]
    mail = _Mail(message, parts, lines, copies, _names(message, copies), _other_names(message, parts, copies))
    return list(_of_fields(mail)) or list(_of_text(mail)) or list(_of_complaint(mail))


def _of_fields(mail: _Mail) -> Iterator[BounceReport]:
    groups = _groups(mail, fields.STATUSES)
    reporting_mta = next((after_type(group["reporting-mta"]) for group in groups if "reporting-mta" in group), "")
    arrived_by = next(filter(None, (moment(group.get("arrival-date", "")) for group in groups)), None)
    of_whom = [_named(group) for group in groups]
    # If Exim gave up by itself, it says why only in the text for people. And only that text says, for any server,
    # whether the recipient or the content was refused.
    to_people = texts.diagnostics(mail.lines, [address for named in of_whom for address in named]) if groups else {}
    for group, named in zip(groups, of_whom, strict=True):
        diagnostic = texts.kept(_diagnostic(group))
        status = statuses.first_status(group.get("status", ""))
        action = _action(group.get("action", ""), status or statuses.first_status(diagnostic))
        if action and (named or "action" in group):
            told, is_of_content = next((to_people[each] for each in named if each in to_people), ("", False))
            report = _report(mail, named, action, status, diagnostic or told, is_of_content=is_of_content)
            yield replace(
                report,
                reporting_mta=reporting_mta,
                arrived_by=arrived_by or report.arrived_by,
                is_forwarded=len(named) > 1 and not spellings(named[0]) & spellings(named[1]),
            )


def _named(group: Group) -> list[str]:
    """Return the recipient in a group of fields: the original address and the final address, if given."""
    return [
        *filter(None, (after_type(group.get(f"{which}-recipient", ""))[:LONGEST] for which in ("original", "final")))
    ]


def _diagnostic(group: Group) -> str:
    """Return what the refusing server said.

    Some servers write that in an X- field of their own, such as `<mx #5.0.0 smtp; 550 no>`.
    """
    own = (after_type(value) for name, value in group.items() if name.startswith("x-"))
    return after_type(group.get("diagnostic-code", "")) or next(filter(_REPLY.match, own), "")


def _groups(mail: _Mail, kinds: frozenset[str]) -> list[Group]:
    """Return the groups of fields in parts of these kinds."""
    found = (group for part in mail.parts if part.kind in kinds for group in fields.groups(part))
    return list(islice(found, fields.MOST_GROUPS))


def _of_text(mail: _Mail) -> Iterator[BounceReport]:
    for said in plain.reports(mail.message, mail.lines, mail.copy):
        action = ReportAction.DELAYED if said.is_delayed else ReportAction.FAILED
        report = _report(mail, [said.recipient], action, "", said.diagnostic, is_of_content=said.is_of_content)
        yield replace(report, is_forwarded=said.is_forwarded)


def _of_complaint(mail: _Mail) -> Iterator[BounceReport]:
    """Yield complaints, in which a recipient says that the e-mail was not wanted."""
    for group in _groups(mail, fields.COMPLAINTS):
        kind = group.get("feedback-type", "").lower()
        if kind in _COMPLAINTS:
            named = names(f"{group.get('original-rcpt-to', '')} {group.get('removal-recipient', '')}")
            yield _report(mail, named, ReportAction.COMPLAINED, "", f"Feedback-Type: {kind}")


def _report(
    mail: _Mail,
    named: Sequence[str],
    action: ReportAction,
    status: str,
    diagnostic: str,
    *,
    is_of_content: bool = False,
) -> BounceReport:
    return BounceReport(
        message_id=f"<{mail.names[0]}>" if mail.names else "",
        recipient=without_escapes(named[0]) if named else "",
        addresses=frozenset(spelling for address in named for spelling in spellings(address)),
        action=action,
        status=statuses.exact_status(status, diagnostic) or _status_of_reply(diagnostic),
        diagnostic=diagnostic,
        reporting_mta="",
        arrived_by=moment(mail.message.first("date")),
        is_of_content=is_of_content,
        names=(*mail.names, *mail.other_names),
    )


def _names(message: mime.MimePart, copies: Sequence[Copy]) -> list[str]:
    """Return the Message-IDs that may be the reported e-mail's, the most certain first."""
    returned = names(" ".join(copy.message_id for copy in copies))
    answered = names(message.first("in-reply-to"))
    thread = names(message.first("references")[-_END_OF_THREAD:])[-1:]  # the last one (RFC 5322, 3.6.4)
    return list(dict.fromkeys((*returned, *answered, *thread)))


def _other_names(message: mime.MimePart, parts: Sequence[mime.MimePart], copies: Sequence[Copy]) -> list[str]:
    """Return other words that may name the e-mail, such as the report's recipient and the e-mail's sender."""
    of_header = (value for name, values in message.fields.items() if name not in _OF_ANOTHER for value in values)
    of_status = (part.text[:_BEGINNING] for part in parts if part.kind in fields.STATUSES | fields.COMPLAINTS)
    found: dict[str, None] = {}
    for text in (*(copy.sender for copy in copies), message.first("to"), *of_status, *of_header):
        found.update(dict.fromkeys(names(text)))
        if len(found) >= MOST_NAMES:
            break
    return list(found)[:MOST_NAMES]


def _action(text: str, status: str) -> ReportAction | None:
    """Return the action in a group of fields, or the one that the status implies if the action is not known.

    A failure with a status of success (2.x.x) counts as a delivery.
    """
    word = _WORD.match(text)
    by_status = _BY_CLASS.get(status[:1])
    try:
        action = ReportAction(word[1].lower() if word else "")
    except ValueError:
        return by_status
    return by_status if (action, by_status) == (ReportAction.FAILED, ReportAction.DELIVERED) else action


def _status_of_reply(text: str) -> str:
    """Return the class of an SMTP reply in the text as a status, such as 5.0.0 for `550 no such user`."""
    found = _REPLY.search(text)
    return f"{found[1]}.0.0" if found else ""
