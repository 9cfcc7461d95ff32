"""Wiring: settings, environment, Celery, URLs, sign-in, embedded servers, `up`, `doctor`; nothing about jobs.

Importing this package, or `project.environment`, has no effect on the process: neither makes a Celery application.
"""

import gc
from typing import Final

_USUAL: Final = gc.get_threshold()
_OBJECTS: Final = 200_000  # allocations between two collections; the imports make some hundred thousand objects


def collect_rarely() -> None:
    """Collect garbage rarely until the apps are ready: collections would take a third of each start."""
    gc.set_threshold(_OBJECTS, *_USUAL[1:])


def collect_as_ever() -> None:
    """Restore Python's usual collections, for objects made from now on: what was imported is never collected.

    The collection at the end of the process skips the imported objects, too, and forked processes share their memory.
    """
    gc.freeze()
    gc.set_threshold(*_USUAL)
