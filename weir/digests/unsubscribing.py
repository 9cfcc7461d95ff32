"""What it means that a user unsubscribes, by one click, from e-mails that tell notifications."""

from typing import Any

from weir.digests.emails import DIGEST, SEPARATOR, SINGLE
from weir.notifications import user_keys
from weir.notifications.channels import preferences
from weir.notifications.models import Channel
from weir.workers.mail.writing.unsubscribing import Subscription


def note(subscription: Subscription, **_signal: Any) -> bool:
    """Set the user's preference, in the transaction of the request; return whether the link is such an e-mail's."""
    kind, _, text = subscription.about.partition(SEPARATOR)
    if subscription.kind not in {DIGEST, SINGLE} or not text:
        return False
    user = user_keys.clean(text)
    if subscription.kind == DIGEST:
        preferences.stop_digests(user)
        return True
    preferences.choose(user, kind, Channel.PAGE)
    return True
