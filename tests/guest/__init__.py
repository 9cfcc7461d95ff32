"""A project that is not Weir's: it has Weir's apps beside its own, and neither `project` nor anything else of Weir's.

It has a Celery application, a login, an API below /api/, middleware and LOGGING of its own. Its tests, `seen_*.py`, say
what of that stays as it was. Django's test command runs them, in a process of its own (tests/integration/guest).
"""

from tests.guest.celery import app as celery_app

__all__ = ["celery_app"]
