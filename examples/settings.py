"""The project's settings as a reader of the tutorial has them at its end: for the tests of the app `shop`."""

from project.settings import *  # noqa: F403  a project's settings are taken over so

INSTALLED_APPS += ["shop"]  # noqa: F405  from there
ROOT_URLCONF = "urls"
