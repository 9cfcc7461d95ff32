"""The names of the keys in Redis. They belong to one database: no other installation uses them.

All keys have the same hash tag, so that a cluster keeps them on one node. The tag contains the prefix from the settings
and a name of the database. A copy of a database, such as a restored dump or a database made from it as the template,
has keys of its own.
"""

from typing import Final, NamedTuple

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error

from weir.conf import settings as weir_settings
from weir.postgres import weir_apps
from weir.postgres.statements import Statement
from weir.redis_link.calls import RedisUnreachable

PREFIX: Final = "weir"  # if the settings name no prefix


class Keys(NamedTuple):
    """The keys of an installation."""

    epoch: str  # the number of the open epoch
    open: str  # the open epoch's deltas, a sorted set: member = user, score = delta
    sealed: str  # the number of the sealed epoch
    deltas: str  # the sealed epoch's deltas
    incarnation: str
    mark: str  # the last state of PostgreSQL's history that was seen (weir/postgres/timeline/gate.py)
    calls: str  # the last calls that added deltas, a sorted set: member = connection, score = deadline
    watch: str  # the last state of PostgreSQL's part of unread numbers that was seen (notifications/watching.py)
    past: str  # the beginning of eight keys: the deltas of the last epochs that PostgreSQL has (lua/drop.lua)


# Both statements return a short name.
IDENTITY_OF_DATABASE = Statement("identity_of_database", returns=str, commits=False)
IDENTITY_OF_INSTALLATION = Statement("identity_of_installation", returns=str, commits=False)

_known: dict[tuple[str | None, ...], Keys] = {}


def keys() -> Keys:
    """Return the keys of the database that Django is connected to; asks this database once. Raises RedisUnreachable.

    The settings name that database, also in tests: Django's runner changes the dictionary from which connections are
    made.
    """
    database = settings.DATABASES[DEFAULT_DB_ALIAS]  # connections[...] takes longer than all the rest of this
    prefix = weir_settings.WEIR_REDIS_PREFIX or PREFIX
    place = prefix, database.get("HOST"), database.get("PORT"), database["NAME"]
    found = _known.get(place)
    if found is None:
        tag = f"{{{prefix}:{_identity()}}}"
        found = _known[place] = Keys(*(f"{tag}:{name}" for name in Keys._fields))
    return found


def are_known() -> bool:
    """Return whether the database was asked already, so that `keys` does not wait for it."""
    return bool(_known)


def forget() -> None:
    """Ask the database again, as if the process had just started."""
    _known.clear()


def _identity() -> str:
    # Without this app, no table names the installation, and the mark is the only key.
    identify = IDENTITY_OF_INSTALLATION if weir_apps.is_installed("weir.notifications") else IDENTITY_OF_DATABASE
    try:
        [identity] = identify()
    except Error as error:
        raise RedisUnreachable(f"PostgreSQL does not tell which keys are ours: {error}") from error
    return identity
