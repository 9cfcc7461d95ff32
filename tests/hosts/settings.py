"""The settings of a project with the app `bookshop`."""

from project.settings import *  # noqa: F403  a project's settings are taken over so

INSTALLED_APPS = [*INSTALLED_APPS, "tests.hosts.bookshop"]  # noqa: F405  as above
ROOT_URLCONF = "tests.hosts.bookshop.urls"
