"""The name of the task that a row calls at its end; a name that this process knows to be misspelt is refused."""

import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

from celery import Task
from django.apps import apps

from weir.conf.texts.suggestions import did_you_mean
from weir.logs.loggers import get_logger
from weir.workers import broker_link, task_names

log = get_logger(__name__)


def name_of(on_done: object, parameter: str = "on_done") -> str:
    """Return the name of the task to call at the end; empty without one. Raises ValueError and TypeError.

    `parameter` is what messages call it.
    """
    name = on_done.name if isinstance(on_done, Task) else on_done or ""
    if not isinstance(name, str):
        raise TypeError(f"{parameter} must be a Celery task or its name, not {on_done!r}.")
    if len(name) > task_names.LONGEST:
        raise ValueError(f"{parameter} must be of at most {task_names.LONGEST} characters, not {len(name)}: {name!r}.")
    if not name.isprintable():
        raise ValueError(f"{parameter} must be the name of a task, without control characters: {name!r}.")
    if isinstance(on_done, str) and on_done:
        _refuse_misspelt(name, parameter)
    return name


def _refuse_misspelt(name: str, parameter: str) -> None:
    """Raise ValueError if the name belongs to an installed app whose tasks are loaded here, and none has this name.

    Any other name is accepted: it may be a task of another service's, which only its workers know. The modules of the
    tasks are loaded once in a process, and only if the name is not known yet.
    """
    app = broker_link.app()
    if app not in broker_link.integrated or name in app.tasks:
        return
    owner = max((app.name for app in apps.get_app_configs() if name.startswith(f"{app.name}.")), key=len, default="")
    if not owner or not _have_loaded_tasks(app) or name in app.tasks:
        return
    if f"{owner}.tasks" not in sys.modules or _may_be_loaded_elsewhere(name.rpartition(".")[0]):
        return
    raise ValueError(
        f"{parameter} names a task {name!r}, which the app {owner} does not have.{did_you_mean(name, app.tasks)} "
        "Celery finds tasks in an app's tasks.py, and in the modules of CELERY_IMPORTS."
    )


@cache
def _have_loaded_tasks(app: Any) -> bool:  # noqa: ANN401  Celery ships no types
    """Load the modules of all tasks, once in a process, and return True.

    Returns False, also from then on, if one could not be loaded: then no name is refused.
    """
    try:
        app.loader.import_default_modules()
    except Exception as error:  # noqa: BLE001  an app's code may raise anything when it is imported
        log.warning("tasks_not_loaded", error=f"{type(error).__name__}: {error}")
        return False
    return True


def _may_be_loaded_elsewhere(module: str) -> bool:
    """Return whether there is such a module, and this process has not loaded it: a worker may have (`--include`)."""
    try:
        return module not in sys.modules and find_spec(module) is not None
    except (ImportError, ValueError):
        return False
