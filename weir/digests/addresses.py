"""Finds the e-mail addresses of users: by the project's function, or else those of active users of AUTH_USER_MODEL."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model

from weir.notifications import user_keys
from weir.notifications.channels import kinds
from weir.notifications.user_keys import UserKey


def of(users: Sequence[UserKey]) -> dict[UserKey, str]:
    """Return the addresses of those of these users who have one. Raises what the project's function raises."""
    if function := kinds.own_addresses():
        found = {user_keys.clean(user): address for user, address in function(list(users)).items() if address}
        return {user: found[user] for user in users if user in found}
    if not user_keys.are_of_accounts():
        return {}
    model: Any = get_user_model()
    field = model.get_email_field_name()
    rows = model._default_manager.filter(pk__in=users)  # noqa: SLF001  documented
    if any(each.name == "is_active" for each in model._meta.concrete_fields):  # noqa: SLF001  documented
        rows = rows.filter(is_active=True)  # the others cannot log in to read, or to choose another channel
    return {user: address for user, address in rows.values_list("pk", field) if address}
