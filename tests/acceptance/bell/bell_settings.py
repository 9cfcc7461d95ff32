"""The settings of a project whose page with the bell is served with any servers, not only the embedded ones."""

from project.settings import *  # noqa: F403  it is the same project

WEIR_DEMO_PAGE = True
