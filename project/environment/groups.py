"""A group of variables: a chapter of the settings reference."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    """Variables that belong together. The title and the docstring are text of the reference, in Markdown."""

    model_config = ConfigDict(defer_build=True)  # only Variables, which is all groups, is ever read
    title: ClassVar[str]
