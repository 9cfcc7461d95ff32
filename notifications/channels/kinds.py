"""Registers kinds of notification: by which channel users are told of them, unless they have chosen another.

Each process imports the module `notification_kinds.py` of every installed app when it starts:

    notification_kind("order.shipped", channel="digest", digest_after=timedelta(hours=4))

A kind need not be registered: its notifications are on the page, and no preference is looked up.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from weir.conf.texts.suggestions import did_you_mean
from weir.notifications.models import Channel
from weir.notifications.user_keys import UserKey

DIGEST_AFTER: Final = timedelta(hours=4)
LONGEST_AFTER: Final = timedelta(days=366)
_NAME: Final = re.compile(r"\w[\w.-]{0,99}", re.ASCII)


class UnknownNotificationKind(LookupError):
    """No app has registered this kind of notification; the message says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NotificationKind:
    """By which channel users are told who have chosen none, and after which time a digest tells what is unread."""

    channel: Channel
    digest_after: timedelta


class EmailedRow(NamedTuple):
    """A notification that is told by an e-mail of its own."""

    id: int
    user_id: UserKey


# Queues an e-mail for each of these rows, in the caller's transaction, and writes its id into the row.
Deliver = Callable[[Sequence[EmailedRow]], None]
# Returns the users' addresses; a user who has none is left out.
Addresses = Callable[[Sequence[UserKey]], Mapping[UserKey, str]]

_kinds: dict[str, NotificationKind] = {}
_delivers: list[Deliver] = []
_addresses: list[Addresses] = []


def register(name: str, *, channel: str = Channel.PAGE, digest_after: timedelta = DIGEST_AFTER) -> None:
    """Register a kind of notification, whose channel users may choose.

    `channel` is that of users who have chosen none: `page`, `email`, `digest` or `none`. By `digest`, a notification
    that is unread for `digest_after` is told in the user's next digest. Raises ValueError for a bad or taken name, a
    channel that does not exist, and a `digest_after` that is not a time above 0, of 366 days at most.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a kind of notification: write letters, digits, _, . and -, such as order.shipped, "
            "and 100 characters at most."
        )
    if name in _kinds:
        raise ValueError(f"There are two kinds of notification {name!r}: give one of them another name.")
    if not isinstance(digest_after, timedelta) or not timedelta() < digest_after <= LONGEST_AFTER:
        raise ValueError(
            f"digest_after of {name} must be a timedelta above 0, of {LONGEST_AFTER.days} days at most, such as "
            f"timedelta(hours=4), but is {digest_after!r}."
        )
    _kinds[name] = NotificationKind(channel=channel_of(channel), digest_after=digest_after)


def channel_of(text: str) -> Channel:
    """Return the channel of this name. Raises ValueError."""
    try:
        return Channel(text)
    except ValueError:
        raise ValueError(f"There is no channel {text!r}: write {', '.join(Channel.values)}.") from None


def find(name: str) -> NotificationKind | None:
    """Return the kind of this name; None if it is not registered."""
    return _kinds.get(name)


def get(name: str) -> NotificationKind:
    """Return the kind of this name. Raises UnknownNotificationKind."""
    if kind := _kinds.get(name):
        return kind
    raise UnknownNotificationKind(
        f"There is no kind of notification {name!r}.{did_you_mean(name, _kinds)} "
        "Register it by notification_kind in notification_kinds.py of an installed app."
    )


def names() -> list[str]:
    """Return the names of all registered kinds."""
    return sorted(_kinds)


def tell_by(deliver: Deliver) -> None:
    """Tell notifications of the channel `email` by this function. Without it, they are on the page."""
    _delivers[:] = [deliver]


def deliver(rows: Sequence[EmailedRow]) -> None:
    """Queue an e-mail for each of these rows, in the caller's transaction; without the app `weir.digests`, none."""
    if rows and _delivers:
        _delivers[0](rows)


def address_by(function: Addresses) -> Addresses:
    """Register the function that returns users' addresses, such as a decorator of it; it replaces an earlier one.

    It gets a list of keys, and returns a mapping from key to address, without the users who have none. For digests it
    is called outside of transactions; for e-mails of their own, in that of whoever notifies. If it raises, it is asked
    about fewer users: those for whom it raises wait for an hour at most, and are then told by digest.
    """
    _addresses[:] = [function]
    return function


def own_addresses() -> Addresses | None:
    """Return the function that the project has registered; None if there is none."""
    return _addresses[0] if _addresses else None


def digested() -> Iterable[str]:
    """Return the kinds that are told by e-mail, of their own or in digests, if a user has chosen nothing."""
    return [name for name, kind in _kinds.items() if kind.channel in {Channel.EMAIL, Channel.DIGEST}]
