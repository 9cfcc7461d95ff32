"""Weir's settings for a web process of a test: a million rounds for each password take longer than the test."""

from project.settings import *  # noqa: F403  all of them

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
