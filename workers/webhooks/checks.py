"""System checks of the endpoints of webhooks."""

from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning  # noqa: A004  Django's name
from django.db import DatabaseError, connections

from weir.conf import settings
from weir.conf.checks import register
from weir.conf.secrets import SecretUnknown, SecretUnusable
from weir.signatures import webhooks as signatures
from weir.workers.webhooks.models import Endpoint

HINT = "docs/how-to/receive-webhooks.md says how to make and name keys."


@register(Tags.database)
def webhooks_can_be_signed(databases: Any = None, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ANN401  Django's
    """weir.E039: the secret of an endpoint has no keys. weir.W040: this process does not know the secret.

    weir.W041: no events are kept, so none are delivered.
    """
    alias = Endpoint.objects.db
    if alias not in (databases or ()):
        return []
    try:
        names = list(Endpoint.objects.order_by("secret").values_list("secret", flat=True).distinct())
    except DatabaseError:  # before `migrate`
        connections[alias].close()
        return []
    found: list[CheckMessage] = []
    for name in names:
        try:
            signatures.signer(name)
        except SecretUnknown as error:
            found.append(Warning(f"Webhooks cannot be signed here: {error}.", hint=HINT, id="weir.W040"))
        except SecretUnusable as error:
            found.append(Error(f"Webhooks cannot be signed: {error}.", hint=HINT, id="weir.E039"))
    if names and not settings.WEIR_EVENT_RETENTION:
        message = "WEIR_EVENT_RETENTION is not set: no events are kept, and none are delivered to the endpoints."
        found.append(Warning(message, hint="Set it to a number of seconds, such as 604800.", id="weir.W041"))
    return found
