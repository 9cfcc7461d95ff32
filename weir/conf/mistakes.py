"""Sentences about settings that cannot be read: one for each setting, and none that contains a secret."""

from collections.abc import Mapping
from typing import Any

from annotated_types import Gt, Le
from django.core.exceptions import ImproperlyConfigured
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from weir.conf.kinds import MALFORMED, Bounds, Wanted


class UnreadableSetting(ImproperlyConfigured):
    """Settings cannot be read. The message has a line for each of them: its name, what it must be, and what it is."""


def sentences(error: ValidationError, fields: Mapping[str, FieldInfo]) -> list[str]:
    """Return a sentence for each setting that could not be read, in the order of the fields."""
    return [_sentence(str(mistake["loc"][0]), mistake, fields) for mistake in error.errors(include_url=False)]


def _sentence(name: str, mistake: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> str:
    if mistake["type"] == MALFORMED:  # the message is the whole sentence, and quotes no secret (kinds.malformed)
        return str(mistake["msg"])
    wanted = _wanted(fields[name])
    if fields[name].annotation is SecretStr:
        return f"{name} must be {wanted}."
    found = mistake["input"].strip() if isinstance(mistake["input"], str) else mistake["input"]
    return f"{name} must be {wanted}, but is {found!r}."


def _wanted(field: FieldInfo) -> str:
    marks = [mark for mark in field.metadata if isinstance(mark, Wanted)]
    return marks[0].words.format(default=field.default, bounds=_bounds(field)) if marks else "a text"


def _bounds(field: FieldInfo) -> str:
    """Return the least and the most that a number may be."""
    if own := [mark.words for mark in field.metadata if isinstance(mark, Bounds)]:
        return own[0]
    above = next((mark.gt for mark in field.metadata if isinstance(mark, Gt)), None)
    most = next((mark.le for mark in field.metadata if isinstance(mark, Le)), None)
    least = "from 0" if above is None else f"above {above}"
    return f"{least} to {most}" if most is not None else f"{least} up" if above is None else least
