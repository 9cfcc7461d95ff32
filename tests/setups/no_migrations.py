"""The database of the tests is made by the models, without migrations."""

from project.settings import *  # noqa: F403  a project's settings are taken over so

DATABASES["default"]["TEST"] = {"MIGRATE": False}  # noqa: F405
