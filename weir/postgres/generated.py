"""A column that PostgreSQL computes from others of its row."""

from collections.abc import Sequence
from typing import Any

from django.db import models


class GeneratedField(models.GeneratedField):
    """Django's, which can also be described where a project has all fields say less of themselves.

    Some have a `makemigrations` of their own that leaves out what no database sees, such as `blank` (pretix, pretalx).
    Django's own field is a KeyError then, as it takes that out itself.
    """

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        """Return what Django's returns."""
        name, path, arguments, said = models.Field.deconstruct(self)
        options = {option: value for option, value in said.items() if option not in {"blank", "editable"}}
        own = vars(self)
        computed = {option: own[option] for option in ("db_persist", "expression", "output_field")}
        return name, path, arguments, {**options, **computed}
