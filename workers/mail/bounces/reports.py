"""Delivery reports: what a mail server says later of an e-mail that it, or one before it, accepted (RFC 3464).

A pure parser. It finds in what order whatever mail servers send: multipart/report, also inside of other parts, and the
plain texts of Exim and qmail. What is no delivery report (an answer, an auto-reply, a receipt, spam) gives no Report.
"""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email import message_from_bytes, message_from_string, policy
from email.message import Message
from email.utils import parsedate_to_datetime
from enum import StrEnum

from workers.mail.bounces import plain

# The report and the returned header are at the beginning; what follows is content of ours, such as an attachment.
LOOKED_AT = 1_048_576  # bytes
LONGEST_DIAGNOSTIC = 1_000  # characters that are kept
MOST_RECIPIENTS = 100  # of one report: our e-mails have one
_STATUS = re.compile(r"(?<![\d.])([245]\.\d{1,3}\.\d{1,3})(?![\d.])")
_XTEXT = re.compile(r"\+([0-9A-F]{2})")
_UTF8_ADDRESS = re.compile(r"\\x\{([0-9A-F]{2,6})\}")
_HEADERS = frozenset({"text/rfc822-headers", "message/global-headers"})
_MESSAGES = frozenset({"message/rfc822", "message/global"})
_STATUSES = frozenset({"message/delivery-status", "message/global-delivery-status"})


class ReportAction(StrEnum):
    """What happened to the e-mail (RFC 3464, 2.3.3)."""

    FAILED = "failed"
    DELAYED = "delayed"
    DELIVERED = "delivered"
    RELAYED = "relayed"
    EXPANDED = "expanded"


_BY_CLASS = {"5": ReportAction.FAILED, "4": ReportAction.DELAYED, "2": ReportAction.DELIVERED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What is reported of one recipient."""

    message_id: str  # of the e-mail that is returned, with < and >; empty if the report does not have it
    recipient: str  # the address that it was sent to, or else the last one that it was forwarded to; empty if not said
    addresses: frozenset[str]  # in small letters: all that the recipient may have been called
    action: ReportAction
    status: str  # as 5.1.1 (RFC 3463); empty if not said
    diagnostic: str
    reporting_mta: str
    # When the e-mail had come to that server, or else when the report was written; None if it says neither.
    arrived_by: datetime | None = None


def parse(content: bytes) -> list[Report]:
    """Return the reports in an e-mail, one for each recipient; an empty list if it is no delivery report."""
    try:
        message = message_from_bytes(content[:LOOKED_AT], policy=policy.compat32)
        return list(_of_mime(message)) or list(_of_text(message))
    except (RecursionError, LookupError, ValueError, TypeError, AttributeError):
        return []  # junk: Python's parser was written for e-mails


def _of_mime(message: Message) -> Iterator[Report]:
    parts = list(_outer_parts(message))
    statuses = [part for part in parts if part.get_content_type() in _STATUSES]
    message_id = next((found for part in parts if (found := _returned_message_id(part))), "")
    for status in statuses:
        blocks = _blocks(status)
        reporting_mta = next((_after_type(block["Reporting-MTA"]) for block in blocks if block["Reporting-MTA"]), "")
        arrived_by = next(filter(None, (_moment(block["Arrival-Date"]) for block in blocks)), _moment(message["Date"]))
        for block in blocks[:MOST_RECIPIENTS]:
            if report := _of_recipient(block):
                yield replace(report, message_id=message_id, reporting_mta=reporting_mta, arrived_by=arrived_by)


def _of_text(message: Message) -> Iterator[Report]:
    for failure in plain.failures(message):
        status = _first_status(failure.diagnostic)
        yield Report(
            message_id=failure.message_id,
            recipient=failure.recipient,
            addresses=frozenset({failure.recipient.lower()}),
            action=ReportAction.FAILED,
            status=status or plain.status_of_reply(failure.diagnostic),
            diagnostic=_kept(failure.diagnostic),
            reporting_mta="",
            arrived_by=_moment(message["Date"]),
        )


def _outer_parts(message: Message) -> Iterator[Message]:
    """Yield the parts of an e-mail, and not those of one that it returns: that may be a report itself."""
    yield message
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        for part in message.get_payload():
            if isinstance(part, Message):
                yield from _outer_parts(part)


def _returned_message_id(part: Message) -> str:
    kind = part.get_content_type()
    returned: Message | None = None
    if kind in _MESSAGES and part.is_multipart():
        returned = part.get_payload()[0]  # type: ignore[assignment,index]  # the parser's own
    elif kind in _HEADERS:
        payload = part.get_payload(decode=True)
        text = payload.decode("latin-1") if isinstance(payload, bytes) else str(part.get_payload(0))
        returned = message_from_string(text.lstrip())
    return "".join(str(returned["Message-ID"] or "").split()) if returned is not None else ""


def _blocks(status: Message) -> list[Message]:
    """Return the groups of fields: the first is about the e-mail, each further one about a recipient."""
    payload = status.get_payload()
    parts = payload if isinstance(payload, list) else [payload]
    text = "\n\n".join(part.as_string() if isinstance(part, Message) else str(part) for part in parts)
    if str(status["Content-Transfer-Encoding"] or "").strip().lower() == "base64":  # against RFC 3464
        text = base64.b64decode(text).decode("latin-1")
    return [message_from_string(block) for block in re.split(r"\r?\n[ \t]*(?:\r?\n)+", text.strip()) if block]


def _of_recipient(block: Message) -> Report | None:
    """Return what the group of fields says of a recipient; None if it is about none."""
    original, final = _after_type(block["Original-Recipient"]), _after_type(block["Final-Recipient"])
    diagnostic = _after_type(block["Diagnostic-Code"])
    status = _first_status(str(block["Status"] or "")) or _first_status(diagnostic)
    action = _action(str(block["Action"] or ""), status)
    if action is None or not (original or final or block["Action"]):
        return None
    named = [address for address in (original, final) if address]
    return Report(
        message_id="",
        recipient=_address(named[0]) if named else "",
        addresses=frozenset(spelt.lower() for address in named for spelt in (address.strip("<>"), _address(address))),
        action=action,
        status=status,
        diagnostic=_kept(diagnostic),
        reporting_mta="",
    )


def _action(text: str, status: str) -> ReportAction | None:
    word = re.match(r"\s*(\w+)", text)
    try:
        return ReportAction(word[1].lower() if word else "")
    except ValueError:
        return _BY_CLASS.get(status[:1])


def _address(text: str) -> str:
    """Return the address of an address field, in which `+2B` (RFC 3461, 4) and the like of RFC 6533 (3) are letters."""
    text = _UTF8_ADDRESS.sub(lambda found: chr(int(found[1], 16)), text.strip("<>"))
    return _XTEXT.sub(lambda found: chr(int(found[1], 16)), text)


def _after_type(value: object) -> str:
    """Return what follows the type in a field such as `rfc822; ada@example.com`."""
    kind, found, rest = str(value or "").partition(";")
    return " ".join((rest if found else kind).split())


def _moment(value: object) -> datetime | None:
    """Return the time in a field; None if it has none that can be read."""
    try:
        found = parsedate_to_datetime(str(value or ""))
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _first_status(text: str) -> str:
    found = _STATUS.search(text)
    return found[1] if found else ""


def _kept(text: str) -> str:
    return " ".join(text.split())[:LONGEST_DIAGNOSTIC]
