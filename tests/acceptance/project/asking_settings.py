"""The settings of a project that has the view `asking_views.ask`."""

from project.settings import *  # noqa: F403  it is the same project

ROOT_URLCONF = "tests.acceptance.project.asking_views"
