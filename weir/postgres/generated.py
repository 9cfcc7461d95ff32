"""A column that PostgreSQL computes from other columns of its row."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage
from django.db import connections, models


class GeneratedField(models.GeneratedField):
    """Django's field, except that its checks need no server, and that `deconstruct` tolerates missing options.

    From 6.1 on, the check of Django's field asks PostgreSQL for its version, so that `manage.py check` fails without a
    database. Some projects (pretix, pretalx) have a `makemigrations` of their own, which leaves out options that no
    database sees, such as `blank`. There Django's field raises KeyError, because its `deconstruct` removes `blank`.
    """

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        """Return what Django's field returns."""
        name, path, arguments, said = models.Field.deconstruct(self)
        options = {option: value for option, value in said.items() if option not in {"blank", "editable"}}
        own = vars(self)
        computed = {option: own[option] for option in ("db_persist", "expression", "output_field")}
        return name, path, arguments, {**options, **computed}

    def _check_supported(self, databases: Sequence[str]) -> list[CheckMessage]:
        """Return the messages of Django's check for other databases than PostgreSQL.

        Every supported version of PostgreSQL has stored generated columns.
        """
        others = [alias for alias in databases if connections[alias].vendor != "postgresql"]
        django: Any = super()
        found: list[CheckMessage] = django._check_supported(others)  # noqa: SLF001  Django has no public hook for it
        return found
