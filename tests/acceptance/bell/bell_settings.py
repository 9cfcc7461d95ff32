"""The settings of a project whose page with the bell is there on any server."""

from project.settings import *  # noqa: F403  it is the same project

WEIR_DEMO_PAGE = True
