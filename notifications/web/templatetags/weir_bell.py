"""`{% bell %}`: the element <weir-bell> for the user who is signed in."""

from typing import Any, Final

from django import template
from django.middleware.csrf import get_token
from django.urls import reverse

from weir.notifications import user_keys
from weir.notifications.web import polls

EVERY_S: Final = 5  # between two polls

register = template.Library()


@register.inclusion_tag("weir/bell/bell.html", takes_context=True)
def bell(context: dict[str, Any], every: int = EVERY_S) -> dict[str, Any]:
    """Show the user's number and, if the browser runs scripts, a list in which notifications can be marked as read.

    Shows nothing if no user is signed in, or if the users of notifications are not those of AUTH_USER_MODEL.

    The browser polls every `every` seconds. Needs the context processor `request`.
    """
    request = context["request"]
    if not request.user.is_authenticated or not user_keys.are_of_accounts():
        return {}
    src, number = reverse("weir_bell:count"), polls.ShownNumber.now(request.user.pk)
    return {
        "src": src,
        "every": every,
        "unread": number.unread,
        "etag": polls.etag(request, number, src),
        "csrf": get_token(request),
    }
