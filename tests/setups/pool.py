"""Connections come from a pool of psycopg's, which has as many as tests ask for at once."""

from project.settings import *  # noqa: F403  a project's settings are taken over so

DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 100, "timeout": 10}  # noqa: F405
