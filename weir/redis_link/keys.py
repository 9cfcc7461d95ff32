"""The names of the keys in Redis, which belong to one database, and to no other installation.

They carry one hash tag, so that a cluster has them all on one node: the prefix of the settings, and a name of the
database. A copy of a database has keys of its own: a restored dump, or a database made with it as the template.
"""

from typing import Final, NamedTuple

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error

from weir.conf import settings as weir_settings
from weir.postgres import weir_apps
from weir.postgres.statements import Statement
from weir.redis_link.calls import RedisUnreachable

PREFIX: Final = "weir"  # if the settings have none


class Keys(NamedTuple):
    """The keys of an installation."""

    epoch: str  # the number of the open epoch
    open: str  # the open epoch's deltas: a sorted set: member = user, score = delta
    sealed: str  # the number of the sealed epoch
    deltas: str  # the sealed epoch's deltas
    incarnation: str
    mark: str  # what was last seen of PostgreSQL's history (weir/postgres/timeline/gate.py)
    calls: str  # the last calls that added deltas: a sorted set: member = connection, score = deadline
    watch: str  # what was last seen of PostgreSQL's part of unread numbers (notifications/watching.py)
    past: str  # the beginning of eight names: the deltas of the last epochs that PostgreSQL has (lua/drop.lua)


# Both return a short name.
IDENTITY_OF_DATABASE = Statement("identity_of_database", returns=str, commits=False)
IDENTITY_OF_INSTALLATION = Statement("identity_of_installation", returns=str, commits=False)

_known: dict[tuple[str | None, ...], Keys] = {}


def keys() -> Keys:
    """Return the keys of the database that Django is connected to, which is asked once. Raises RedisUnreachable.

    The settings name that database, in tests too: Django's runner changes the dictionary that connections are made of.
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
    """Return whether the database was asked: `keys` does not wait for it then."""
    return bool(_known)


def forget() -> None:
    """Ask the database again, as in a process that begins."""
    _known.clear()


def _identity() -> str:
    # Without the app there is no table that names the installation, and no key but the mark.
    identify = IDENTITY_OF_INSTALLATION if weir_apps.is_installed("weir.notifications") else IDENTITY_OF_DATABASE
    try:
        [identity] = identify()
    except Error as error:
        raise RedisUnreachable(f"PostgreSQL does not tell which keys are ours: {error}") from error
    return identity
