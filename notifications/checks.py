"""System checks of the notification settings, and of the tables that were made with these settings."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags
from django.db import DEFAULT_DB_ALIAS, connections

from weir.conf import settings
from weir.conf.checks import register
from weir.notifications import user_keys
from weir.notifications.channels import kinds
from weir.notifications.models import Notification
from weir.postgres import weir_apps

# The kind of key for PostgreSQL's name of the column's type. A foreign key has the type of the user model's own key.
NAMES = {
    "bigint": "integer",
    "integer": "integer",
    "smallint": "integer",
    "uuid": "uuid",
    "character varying": "text",
    "text": "text",
}


@register(Tags.database)
def tables_have_the_chosen_key(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """weir.E015: the tables were made for the kind of users' keys, and with the foreign key, that the settings name."""
    if DEFAULT_DB_ALIAS not in (databases or ()) or connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
        return []
    chosen = (user_keys.kind().name, settings.WEIR_USER_FOREIGN_KEY)
    made = _made()
    if made is None or made == chosen:
        return []
    key, has_foreign_key = made
    message = (
        f"The tables of notifications were made with WEIR_USER_KEY={key} and "
        f"WEIR_USER_FOREIGN_KEY={str(has_foreign_key).lower()}, but the settings say {chosen[0]} and "
        f"{str(chosen[1]).lower()}."
    )
    hint = (
        "Set the two to what the tables have. To choose anew, remove the tables first, and all notifications with "
        "them, by `manage.py migrate weir_notifications zero` with the settings that the tables have, or by "
        "`manage.py migrate weir_notifications zero --skip-checks` with any."
    )
    return [Error(message, hint=hint, id="weir.E015")]


@register()
def notifications_can_be_purged(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W034: no foreign key of a project's own may keep notifications that a purge is to delete."""
    return weir_apps.warn_of_holders(
        Notification,
        rows="notifications",
        others="was read, or has expired,",
        retention="WEIR_NOTIFICATION_RETENTION after they were read",
        id="weir.W034",
    )


@register()
def what_is_told_by_email_has_an_address(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E044: kinds that are told by e-mail need the app that tells them, and users' addresses."""
    told = ", ".join(kinds.digested())
    if not told:
        return []
    if not weir_apps.is_installed("weir.digests"):
        message = f"Notifications of {told} are told by e-mail, but the app weir.digests is not installed."
        return [Error(message, hint="Add weir.digests to INSTALLED_APPS, beside the apps of e-mails.", id="weir.E044")]
    if kinds.own_addresses() or user_keys.are_of_accounts():
        return []
    message = f"Notifications of {told} are told by e-mail, but nothing says which addresses users have."
    hint = "Register a function that returns them, by @notification_addresses in a notification_kinds.py."
    return [Error(message, hint=hint, id="weir.E044")]


def _made() -> tuple[str, bool] | None:
    """Return the kind of key that the tables have, and whether they have a foreign key; None if there are no tables."""
    database, table = connections[DEFAULT_DB_ALIAS], Notification._meta.db_table  # noqa: SLF001  Django documents it
    with database.cursor() as cursor:
        cursor.execute(
            "SELECT format_type(atttypid, NULL), "
            "EXISTS (SELECT FROM pg_constraint WHERE conrelid = attrelid AND contype = 'f' AND attnum = ANY (conkey)) "
            "FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'user_id'",
            [table],
        )
        row = cursor.fetchone()
    return (NAMES[row[0]], row[1]) if row else None
