"""The signal of a beat that begins."""

from django.dispatch import Signal

# Sent with `app` (the Celery app) before the scheduler asks the database anything: SystemExit of a receiver ends beat.
beat_begins = Signal()
