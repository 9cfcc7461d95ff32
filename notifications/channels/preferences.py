"""By which channel a user is told of a kind of notification: what the user has chosen, or else the kind's own."""

from typing import NamedTuple

from django.db import transaction

from weir.notifications import user_keys
from weir.notifications.channels import kinds
from weir.notifications.models import Channel, Preference
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement


class StoredPreference(NamedTuple):
    """A kind, empty for digests of kinds that were not chosen, and the channel that the user has chosen."""

    kind: str
    channel: str


PREFERENCES = Statement("preferences", row=StoredPreference, commits=False, prepare=True)
SET_PREFERENCE = Statement("set_preference", commits=False)
STOP_DIGESTS = Statement("stop_digests", commits=False)
STAY_ON_PAGE = Statement("stay_on_page", commits=False)
OF_DIGESTS = ""  # the kind of a preference that is about all digests


def preference(user_id: UserKey, kind: str) -> Channel:
    """Return by which channel the user is told of this kind. Raises UnknownNotificationKind, and ValueError for a key.

    The channel is the one that the user has chosen, or else that of the kind. For a user who has unsubscribed from
    digests, `page` stands for `digest`, except for kinds that the user has chosen since.
    """
    own = kinds.get(kind)
    chosen = _chosen(user_id, kind)
    return _channel(own.channel, kind, chosen)


def preferences(user_id: UserKey) -> dict[str, Channel]:
    """Return the user's channel for each registered kind, such as for a page of settings; one query."""
    chosen = _chosen(user_id, None)
    return {name: _channel(kinds.get(name).channel, name, chosen) for name in kinds.names()}


def set_preference(user_id: UserKey, kind: str, channel: str) -> None:
    """Tell the user of this kind by this channel from now on: `page`, `email`, `digest` or `none`.

    Works in the caller's transaction. Unread notifications that wait for a digest stay on the page if the channel is
    not `digest`, and so do those that wait for an e-mail of their own if it is `page` or `none`; those of an e-mail
    that has begun are told by it. Of two calls at the same time, the later one counts.
    Raises UnknownNotificationKind, and ValueError for a bad key or channel.
    """
    kinds.get(kind)
    choose(user_id, kind, kinds.channel_of(channel))


def choose(user_id: UserKey, kind: str, wanted: Channel) -> None:
    """Do what set_preference does, also for a kind that no app registers any more, or not yet in this process."""
    user = user_keys.clean(user_id)
    with transaction.atomic():
        SET_PREFERENCE(user=user, kind=kind, channel=wanted.value)
        if wanted != Channel.DIGEST:
            STAY_ON_PAGE(user=user, kind=kind, digests_only=wanted == Channel.EMAIL)


def stop_digests(user_id: UserKey) -> None:
    """Send the user no more digests: `page` stands for `digest`, until the user chooses `digest` for a kind."""
    user = user_keys.clean(user_id)
    with transaction.atomic():
        STOP_DIGESTS(user=user)
        SET_PREFERENCE(user=user, kind=OF_DIGESTS, channel=Channel.PAGE.value)
        STAY_ON_PAGE(user=user, kind=None, digests_only=True)


def forget(user_id: UserKey) -> None:
    """Delete the user's preferences, in the caller's transaction."""
    Preference.objects.filter(user_id=user_id).delete()


def _chosen(user_id: UserKey, kind: str | None) -> dict[str, str]:
    parameters = {"user": user_keys.clean(user_id), "kind": kind}
    return dict(PREFERENCES(**parameters))


def _channel(own: Channel, kind: str, chosen: dict[str, str]) -> Channel:
    if kind in chosen:
        return Channel(chosen[kind])
    return Channel.PAGE if own == Channel.DIGEST and OF_DIGESTS in chosen else own
