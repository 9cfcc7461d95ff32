"""A group of settings: a chapter of the settings reference."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """Settings that belong together. The title and the docstring are text of the reference, in Markdown."""

    # A group's model is built when one of its settings is first read, because most groups never are. Errors show no
    # values, because a value may be secret.
    model_config = ConfigDict(defer_build=True, frozen=True, hide_input_in_errors=True, validate_default=False)
    title: ClassVar[str]
