"""What the webhooks of all providers have in common: a request, JSON, names of e-mails, and times.

Nothing in this folder touches the database. Whatever a request has in it, it is read in bounded time.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from weir.workers.mail.addresses import CannotBeWritten, split
from weir.workers.mail.bounces.reports import BounceReport, ReportAction
from weir.workers.mail.bounces.spellings import spellings
from weir.workers.mail.bounces.statuses import first_status
from weir.workers.mail.bounces.texts import kept

LONGEST: Final = 1_000  # characters of a text that are read
LONGEST_NAME: Final = 500  # characters of a Message-ID, or of a provider's id
AHEAD: Final = timedelta(minutes=5)  # by how much a provider's clock may be ahead of this host's
_LONGEST_TIME: Final = 40


class Unsigned(Exception):
    """The request is not signed by the provider, or was signed too long ago."""


class Unreadable(Exception):
    """The provider has signed something that does not have the form in its documentation."""


class Received(NamedTuple):
    """A request to the URL of a provider's webhooks."""

    headers: Mapping[str, str]  # names in any case of letters
    body: bytes
    now: datetime


class ProviderEvents(NamedTuple):
    """What a request says."""

    reports: list[BounceReport]
    ignored: int = 0  # events that say nothing about an e-mail's way, such as opens, and events of types not known here


def parsed(body: bytes) -> Any:  # noqa: ANN401  any JSON
    """Return the JSON of a body. Raises Unreadable."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise Unreadable(f"the body is not JSON: {type(error).__name__}") from error


def at(data: object, *path: str) -> object:
    """Return what is at this place in the JSON; None if nothing is there."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def text(data: object, *path: str) -> str:
    """Return the text at this place; an empty one for anything else.

    JSON may have half of a surrogate pair, which no bytes can stand for. It is replaced.
    """
    found = at(data, *path)
    return found[:LONGEST].encode("utf-8", "replace").decode() if isinstance(found, str) else ""


def moment(value: object) -> datetime | None:
    """Return the time that is written in seconds since 1970, or as ISO 8601; None if it cannot be read."""
    try:
        if isinstance(value, str) and not value[:_LONGEST_TIME].replace(".", "").isdecimal():
            found = datetime.fromisoformat(value[:_LONGEST_TIME])
            return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(float(value), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def is_recent(value: object, now: datetime, within: timedelta) -> bool:
    """Return whether a request that was signed at this time still counts."""
    signed_at = moment(value)
    return signed_at is not None and now - within <= signed_at <= now + AHEAD


def report(
    action: ReportAction,
    names: tuple[str, ...],
    recipient: str,
    when: object,
    *,
    status: str = "",
    diagnostic: str = "",
) -> BounceReport:
    """Return the event in the form in which delivery reports are handled."""
    bare = (name.strip("<> ") for name in names)
    address = _address(recipient)
    return BounceReport(
        message_id="",
        recipient=address,
        addresses=spellings(address),
        action=action,
        status=first_status(status) or first_status(diagnostic),
        diagnostic=kept(diagnostic),
        reporting_mta="",
        arrived_by=moment(when),
        names=tuple(name for name in bare if name and len(name) <= LONGEST_NAME and name.isprintable()),
    )


def _address(recipient: str) -> str:
    """Return the bare address; an empty text if it is none, so that the report names nobody."""
    try:
        return split(recipient)[1]
    except CannotBeWritten:
        return ""
