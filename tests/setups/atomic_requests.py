"""Each request of a project's own views has a transaction."""

from project.settings import *  # noqa: F403  a project's settings are taken over so

DATABASES["default"]["ATOMIC_REQUESTS"] = True  # noqa: F405
