"""The keys of users: integers, UUIDs or text, the same in all tables, in Redis and in SQL.

`WEIR_USER_KEY` names the type. Without it, the type is that of the primary key of AUTH_USER_MODEL. The first migration
creates the columns, so the type is chosen once for an installation; `weir.E015` compares the columns with the settings.
In this app's SQL files `user_key` stands for the columns' type, and `user_key[]` for an array of this type, whose
elements compare as the columns do.
"""

import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from operator import index
from typing import Any, TypeAlias

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from weir.conf import settings as weir_settings
from weir.postgres import statements

# int, UUID or str; each installation has one of them. With a union, each caller would have to check which.
UserKey: TypeAlias = Any

_WHOLE_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
MOST_INTEGER = 2**63 - 1
MOST_TEXT = 255  # characters; short, because indexes of notifications contain the key


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyKind:
    """The type of keys in PostgreSQL and Python. `read` makes a key from a value, or raises ValueError or TypeError."""

    name: str  # the value of WEIR_USER_KEY
    words: str
    column: str  # PostgreSQL's type
    field: Callable[..., "models.Field[Any, Any]"]
    read: Callable[[Any], UserKey]
    quote: Callable[[str], str] = str  # quotes an element for the text of an array

    def of_text(self, text: str) -> UserKey | None:
        """Return the key whose `str` is this text, or None if there is no such key."""
        try:
            key = self.read(text)
        except (ValueError, TypeError):
            return None
        return key if str(key) == text else None

    def of_texts(self, texts: list[str]) -> list[UserKey] | None:
        """Return the keys whose `str` are these texts, or None if one has no key. Faster than a call for each text."""
        try:
            keys = list(map(self.read, texts))
        except (ValueError, TypeError):
            return None
        return keys if list(map(str, keys)) == texts else None


def _integer(value: Any) -> int:  # noqa: ANN401  callers pass any value
    number = int(value) if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value) else index(value)
    if abs(number) > MOST_INTEGER:
        raise ValueError
    return number


def _uuid(value: Any) -> uuid.UUID:  # noqa: ANN401
    return value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))


def _text(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str):
        raise TypeError
    if not 0 < len(value) <= MOST_TEXT or "\0" in value:
        raise ValueError
    value.encode()  # UnicodeEncodeError, a ValueError, for half of a surrogate pair
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text_field(**options: Any) -> "models.Field[Any, Any]":
    return models.CharField(max_length=MOST_TEXT, db_collation=_collation(), **options)


def _collation() -> str | None:
    """Return the collation of text keys; None means the database's. It is the same in all tables, so that joins agree.

    A foreign key has the collation of the user model's key. Without a foreign key the collation is "C". This compares
    bytes, which is fast, and gives the same order on every server.
    """
    if weir_settings.WEIR_USER_FOREIGN_KEY:
        return getattr(_key_of(settings.AUTH_USER_MODEL), "db_collation", None)
    return "C"


KINDS = {
    kind.name: kind
    for kind in (
        KeyKind(name="integer", words="a whole number", column="bigint", field=models.BigIntegerField, read=_integer),
        KeyKind(name="uuid", words="a UUID", column="uuid", field=models.UUIDField, read=_uuid),
        KeyKind(
            name="text",
            words=f"text of 1 to {MOST_TEXT} characters",
            column="varchar",
            field=_text_field,
            read=_text,
            quote=_quoted,
        ),
    )
}


def kind() -> KeyKind:
    """Return the kind of this installation's keys. Raises ImproperlyConfigured if it cannot be determined."""
    name = weir_settings.WEIR_USER_KEY or _name_of_key(settings.AUTH_USER_MODEL)
    if name not in KINDS:
        raise ImproperlyConfigured(f"WEIR_USER_KEY must be integer, uuid or text, but is {name!r}.")
    return KINDS[name]


NOT_KNOWN = "WEIR_USER_KEY must be set to integer, uuid or text"


def _key_of(user_model: str) -> "models.Field[Any, Any]":
    """Return the model's primary key. Like get_user_model(), imports the model's app if it was not imported yet."""
    try:
        key: Any = apps.get_model(user_model, require_ready=False)._meta.pk  # noqa: SLF001  Django documents it
    except LookupError as error:
        raise ImproperlyConfigured(
            f"{NOT_KNOWN}: {user_model}, AUTH_USER_MODEL, imports notifications before it is defined."
        ) from error
    while key.remote_field:
        key = key.remote_field.model._meta.pk  # noqa: SLF001
    found: models.Field[Any, Any] = key
    return found


@cache
def _name_of_key(user_model: str) -> str:
    """Return the kind of the model's primary key."""
    key = _key_of(user_model)
    if isinstance(key, models.IntegerField):
        return "integer"
    if isinstance(key, models.UUIDField):
        return "uuid"
    if isinstance(key, models.CharField | models.TextField):
        return "text"
    raise ImproperlyConfigured(f"{NOT_KNOWN}: the primary key of {user_model} is a {type(key).__name__}.")


def are_of_accounts() -> bool:
    """Return whether the users of notifications are those of AUTH_USER_MODEL."""
    return bool(weir_settings.WEIR_USER_FOREIGN_KEY or not weir_settings.WEIR_USER_KEY)


def clean(value: object) -> UserKey:
    """Return the value in the type of this installation's keys. Raises ValueError if it cannot be a key."""
    try:
        return kind().read(value)
    except (ValueError, TypeError) as error:
        instead = ": pass user.pk" if isinstance(value, models.Model) else ""
        raise ValueError(f"A user's key must be {kind().words}, but is {value!r}{instead}.") from error


def distinct(values: Iterable[object]) -> list[UserKey]:
    """Return the values as keys, as `clean` does, each key once."""
    read = kind().read
    try:
        return list(dict.fromkeys(map(read, values)))
    except (ValueError, TypeError):
        return list(dict.fromkeys(map(clean, values)))  # raises an error that names the wrong value


def array(users: Iterable[UserKey]) -> str:
    """Return keys as the text of an array parameter, because psycopg would take four times as long for a list."""
    return "{" + ",".join(map(kind().quote, map(str, users))) + "}"


def field(**options: Any) -> "models.Field[Any, Any]":
    """Return a model's field for a user's key."""
    return kind().field(**options)


def owner() -> str:
    """Return the name of the field of Notification that holds its user."""
    return "user" if weir_settings.WEIR_USER_FOREIGN_KEY else "user_id"


def foreign_key() -> "models.ForeignKey[Any, Any]":
    """Return a model's field that is a foreign key to the user; its column is also `user_id`."""
    return models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_index=False,  # the index of the inbox begins with this column
        related_name="weir_notifications",  # other packages use "notifications"
    )


def _array_column() -> str:
    """Return the type of an array of keys, with the collation of the columns."""
    collation = _collation() if kind().name == "text" else None
    return f"{kind().column}[]" + (f' COLLATE "{collation}"' if collation else "")


statements.name_type("user_key[]", _array_column)
statements.name_type("user_key", lambda: kind().column)
