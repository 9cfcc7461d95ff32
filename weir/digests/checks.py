"""The system check of digests."""

from typing import Any

from django.core.checks import CheckMessage, Warning  # noqa: A004  Django's name

from weir.conf import settings
from weir.conf.checks import register
from weir.notifications.channels import kinds


@register()
def users_can_unsubscribe(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W046: without an origin for links, no e-mail about notifications has a button to unsubscribe."""
    if settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN or not list(kinds.digested()):
        return []
    message = "E-mails that tell notifications have no link to unsubscribe: WEIR_MAIL_UNSUBSCRIBE_ORIGIN is not set."
    hint = (
        "Large providers ask for one-click unsubscription (RFC 8058). Set it to an origin such as https://shop.example."
    )
    return [Warning(message, hint=hint, id="weir.W046")]
