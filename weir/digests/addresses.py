"""Finds the e-mail addresses of users: by the project's function, or else those of active users of AUTH_USER_MODEL.

The project's function may raise for some users, and must not keep others from being told. So it is asked about half of
the users then, and about half of these, until it is known for whom it raises, or it was asked MOST_CALLS times.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from celery.exceptions import SoftTimeLimitExceeded
from django.contrib.auth import get_user_model
from django.db import InterfaceError, OperationalError, connection, transaction

from weir.logs.loggers import get_logger
from weir.notifications import user_keys
from weir.notifications.channels import kinds
from weir.notifications.user_keys import UserKey

MOST_CALLS: Final = 50  # for one batch of users; to find one of 500 takes 19

log = get_logger(__name__)


@dataclass(kw_only=True, slots=True)
class Found:
    """What is known of the users who were asked about."""

    addresses: dict[UserKey, str] = field(default_factory=dict)  # of those who have one
    without: list[UserKey] = field(default_factory=list)
    failing: list[UserKey] = field(default_factory=list)  # for each of them alone, the function raises
    left: list[UserKey] = field(default_factory=list)  # nobody knows yet: it raises for some, or its time is over
    error: Exception | None = None

    def note(self, other: "Found") -> None:
        """Add what the function raised for other users."""
        self.failing += other.failing
        self.left += other.left
        self.error = self.error or other.error

    def say(self) -> None:
        """Log, in one line, for how many users the function raised, and what; nothing if it did not."""
        if self.error:
            about = {"user": str(self.failing[0])} if self.failing else {}
            log.error("addresses_not_found", users=len(self.failing), left=len(self.left), **about, exc_info=self.error)


def of(users: Sequence[UserKey], within_s: float) -> Found:
    """Return the addresses of these users. Asks at least once, and not again after `within_s` seconds.

    Whatever the project's function raises is a part of what is returned. In a transaction, each call has a savepoint,
    so that a failing query does not abort the caller's. Raises SoftTimeLimitExceeded, which ends a caller's task.
    """
    found, give_up_at, calls = Found(), time.monotonic() + within_s, 0
    groups = [list(users)] if users else []
    while groups:
        group = groups.pop()
        if calls and (calls >= MOST_CALLS or time.monotonic() >= give_up_at):
            found.left += group
            continue
        calls += 1
        try:
            with transaction.atomic() if connection.in_atomic_block else nullcontext():
                addresses = _asked(group)
        except SoftTimeLimitExceeded:  # Celery raises it, wherever the task is
            raise
        except Exception as error:  # noqa: BLE001  a project's code may raise anything
            found.error = error
            if half := len(group) // 2:
                groups += group[half:], group[:half]
            elif isinstance(error, OperationalError | InterfaceError):  # the database is away, whoever the user is
                found.left += group
            else:
                found.failing += group
        else:
            found.addresses |= addresses
            found.without += [user for user in group if user not in addresses]
    return found


def _asked(users: list[UserKey]) -> dict[UserKey, str]:
    """Return the addresses of those of these users who have one. Raises what the project's function raises."""
    if function := kinds.own_addresses():
        own = {user_keys.clean(user): address for user, address in function(users.copy()).items() if address}
        for user, address in own.items():
            if not isinstance(address, str):
                raise TypeError(f"The address of the user {user} must be text, but is a {type(address).__name__}.")
        return {user: own[user] for user in users if user in own}
    if not user_keys.are_of_accounts():
        return {}
    model: Any = get_user_model()
    email = model.get_email_field_name()
    rows = model._default_manager.filter(pk__in=users)  # noqa: SLF001  documented
    if any(each.name == "is_active" for each in model._meta.concrete_fields):  # noqa: SLF001  documented
        rows = rows.filter(is_active=True)  # the others cannot log in to read, or to choose another channel
    return {user: address for user, address in rows.values_list("pk", email) if address}
