"""The system check of the Celery app that must run Weir."""

from collections.abc import Sequence
from typing import Any, Final

from django.core.checks import CheckMessage, Warning  # noqa: A004  Django's own name

from weir.conf.checks import register
from weir.workers import broker_link

# The step that `weir.celery.integrate` adds to an app's workers. It is compared by name: its import needs loaded apps.
STEP: Final = "weir.workers.processes.worker_heartbeat:WorkerHeartbeat"


@register()
def runs_weir(**_kwargs: Any) -> Sequence[CheckMessage]:
    """weir.W030: a Celery app on which `integrate` was not called runs none of Weir's tasks."""
    app = broker_link.app()
    if STEP in app.steps["worker"]:
        return []
    message = f"The Celery app of this process ({app.main or 'without a name'}) does not run Weir."
    hint = (
        "Call weir.celery.integrate(app) in the module that makes your app, and import the app in the __init__.py of "
        "your project, as Celery says of Django."
    )
    return [Warning(message, hint=hint, id="weir.W030")]
