"""A column that PostgreSQL computes from others of its row."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage
from django.db import connections, models


class GeneratedField(models.GeneratedField):
    """Django's, which is checked without a server, and described where a project has all fields say less of themselves.

    From 6.1 on, Django's asks PostgreSQL for its version, so that `manage.py check` fails where there is no database.
    Some projects have a `makemigrations` of their own that leaves out what no database sees, such as `blank` (pretix,
    pretalx). Django's own field is a KeyError then, as it takes that out itself.
    """

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        """Return what Django's returns."""
        name, path, arguments, said = models.Field.deconstruct(self)
        options = {option: value for option, value in said.items() if option not in {"blank", "editable"}}
        own = vars(self)
        computed = {option: own[option] for option in ("db_persist", "expression", "output_field")}
        return name, path, arguments, {**options, **computed}

    def _check_supported(self, databases: Sequence[str]) -> list[CheckMessage]:
        """Return what Django's returns of others than PostgreSQL: each version of that has stored columns."""
        others = [alias for alias in databases if connections[alias].vendor != "postgresql"]
        django: Any = super()
        found: list[CheckMessage] = django._check_supported(others)  # noqa: SLF001  Django has no other place for it
        return found
