"""Wiring: settings, environment, Celery, URLs, sign-in, embedded servers, `up`, `doctor`. Nothing of the domain."""

import gc

gc.disable()  # until `project.apps` has seen to what is imported now: collections would be a third of each start

from project.celery import app as celery_app  # noqa: E402  with no collection on the way

__all__ = ["celery_app"]
