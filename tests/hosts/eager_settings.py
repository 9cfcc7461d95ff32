"""The same project, whose tasks run at once, without a broker."""

from tests.hosts.settings import *  # noqa: F403  as there

CELERY_TASK_ALWAYS_EAGER = CELERY_TASK_EAGER_PROPAGATES = True
