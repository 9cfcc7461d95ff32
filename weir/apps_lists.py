"""Which of Weir's apps a project installs: all, or those of the jobs that it wants.

    INSTALLED_APPS += weir.APPS_FETCHES + weir.APPS_MAIL

Each list of a job works alone. Those of the operators' pages and of the API need APPS beside them.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final


class Apps(list[str]):
    """Names of apps. Added to another list, such as INSTALLED_APPS, it repeats none of its names."""

    def __add__(self, others: Iterable[str]) -> "Apps":  # type: ignore[override]  # these are texts only
        return Apps(dict.fromkeys(chain(self, others)))

    def __radd__(self, others: Iterable[str]) -> list[str]:
        """Return any list or tuple with these added, also for +=, which tries this first."""
        return [*dict.fromkeys(chain(others, self))]


# What each job needs: sites, the schedule, the audit trail, the processes, and recovery from a database that forgets.
_BASE: Final = Apps(
    [
        "django_celery_beat",
        "django.contrib.postgres",  # for its indexes
        "weir.postgres.timeline",
        "weir.ratelimit",
        "weir.workers",
        "weir.workers.audit",
        "weir.workers.processes",
        "weir.workers.recovery",
    ]
)
APPS_THROTTLE: Final = _BASE + Apps(["weir.workers.throttled"])
APPS_NOTIFICATIONS: Final = _BASE + Apps(["weir.notifications", "weir.notifications.web"])
APPS_MAIL: Final = _BASE + Apps(["weir.workers.mail"])
APPS_FETCHES: Final = _BASE + Apps(["weir.workers.fetches"])
# All jobs, the history of each minute, and the command `status`.
APPS: Final = (
    APPS_THROTTLE
    + APPS_NOTIFICATIONS
    + APPS_MAIL
    + APPS_FETCHES
    + Apps(["weir.workers.history", "weir.workers.overview"])
)
APPS_OPS: Final = Apps(["weir.ops"])
APPS_API: Final = Apps(["weir.api.tokens", "weir.api", "ninja"])  # the last for the files of the page /api/docs
