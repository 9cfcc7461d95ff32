"""Wiring: settings, Celery, URLs, embedded servers, demo. Nothing of the domain."""

from project.celery import app as celery_app

__all__ = ["celery_app"]
