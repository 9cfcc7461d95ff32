"""Reads the fields of delivery reports (RFC 3464) and complaints (RFC 5965), which servers write for programs."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from weir.workers.mail.bounces import mime

STATUSES = frozenset({"message/delivery-status", "message/global-delivery-status"})
COMPLAINTS = frozenset({"message/feedback-report"})
MOST_GROUPS = 100  # more than a true report has: each of our e-mails has one recipient
_LONGEST_DATE = 100
_BLANK = re.compile(r"\n[ \t]*\n")

Group = dict[str, str]


def groups(part: mime.MimePart) -> Iterator[Group]:
    """Yield the groups of fields: the first group describes the e-mail, each further group one recipient."""
    for text in _BLANK.split(part.text.strip(), MOST_GROUPS)[:MOST_GROUPS]:
        found, _ = mime.fields_of(text.lstrip())
        if found:
            yield {name: values[0] for name, values in found.items()}


def after_type(value: str) -> str:
    """Return what follows the type in a field such as `rfc822; ada@example.com`."""
    kind, found, rest = value.partition(";")
    return (rest if found else kind).strip()


def moment(value: str) -> datetime | None:
    """Return the time in a field; None if the field has no time that can be read."""
    try:
        found = parsedate_to_datetime(value[:_LONGEST_DATE])
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
