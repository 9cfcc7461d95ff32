"""Which of Weir's apps a project installs: all of them, or the apps of the jobs that the project needs.

    INSTALLED_APPS += weir.APPS_FETCHES + weir.APPS_MAIL

The list of each job works alone. APPS_OPS and APPS_API need APPS beside them.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final


class Apps(list[str]):
    """Names of apps. Adding them to another list, such as INSTALLED_APPS, repeats no name."""

    def __add__(self, others: Iterable[str]) -> "Apps":  # type: ignore[override]  # a list of strings only
        return Apps(dict.fromkeys(chain(self, others)))

    def __radd__(self, others: Iterable[str]) -> list[str]:
        """Return any list or tuple with these apps added. `INSTALLED_APPS += APPS` calls this method, too."""
        return [*dict.fromkeys(chain(others, self))]


# What every job needs: sites, the schedule, the audit trail, the processes, and the recovery from a database that
# has lost commits.
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
APPS_MAIL: Final = _BASE + Apps(["weir.workers.events", "weir.workers.mail"])
APPS_EFFECTS: Final = _BASE + Apps(["weir.workers.effects", "weir.workers.events"])
APPS_FETCHES: Final = _BASE + Apps(
    [
        "weir.workers.effects",  # of requests that are made once
        "weir.workers.events",
        "weir.workers.fetches",
        "weir.workers.watches",
        "weir.workers.webhooks",
    ]
)
# All jobs, e-mails that tell notifications, the history of each minute, and the command `status`.
APPS: Final = (
    APPS_THROTTLE
    + APPS_NOTIFICATIONS
    + APPS_MAIL
    + APPS_EFFECTS
    + APPS_FETCHES
    + Apps(["weir.digests", "weir.workers.history", "weir.workers.overview"])
)
APPS_OPS: Final = Apps(["weir.ops"])
APPS_API: Final = Apps(["weir.api.tokens", "weir.api", "ninja"])  # ninja has the static files of /api/docs
