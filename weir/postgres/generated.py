"""A column that PostgreSQL computes from others of its row."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage
from django.db import connections, models


class GeneratedField(models.GeneratedField):
    """Django's field, but its checks need no server, and its description may lack options.

    From 6.1 on, Django's field asks PostgreSQL for its version, so that `manage.py check` fails without a database.
    Some projects have a `makemigrations` of their own that leaves out options that no database sees, such as `blank`
    (pretix, pretalx). Django's field then raises KeyError, because it takes `blank` out itself.
    """

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        """Return what Django's returns."""
        name, path, arguments, said = models.Field.deconstruct(self)
        options = {option: value for option, value in said.items() if option not in {"blank", "editable"}}
        own = vars(self)
        computed = {option: own[option] for option in ("db_persist", "expression", "output_field")}
        return name, path, arguments, {**options, **computed}

    def _check_supported(self, databases: Sequence[str]) -> list[CheckMessage]:
        """Return what Django's returns for other databases: each version of PostgreSQL has stored columns."""
        others = [alias for alias in databases if connections[alias].vendor != "postgresql"]
        django: Any = super()
        found: list[CheckMessage] = django._check_supported(others)  # noqa: SLF001  Django has no other place for it
        return found
