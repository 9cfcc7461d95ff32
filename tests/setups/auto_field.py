"""Models that name no key have one of 32 bits."""

from project.settings import *  # noqa: F403  a project's settings are taken over so

DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
