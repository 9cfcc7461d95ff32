"""A project of somebody else's with members: they sign up with django-allauth, and forget their passwords.

All that it has of Weir are its apps, its Celery app, and one line that queues every e-mail in the outbox.
"""

from .celery import app as celery_app

__all__ = ["celery_app"]
