"""Wiring: settings, environment, Celery, URLs, sign-in, embedded servers, `up`, `doctor`. Nothing of the domain.

Importing it, or the reader of the environment, changes nothing in a process: it makes no Celery application.
"""

import gc
from typing import Final

_USUAL: Final = gc.get_threshold()
_OBJECTS: Final = 200_000  # made between two collections; the imports make some hundred thousand, which stay


def collect_rarely() -> None:
    """Collect garbage rarely until the apps are ready: collections would take a third of each start."""
    gc.set_threshold(_OBJECTS, *_USUAL[1:])


def collect_as_ever() -> None:
    """Collect garbage as in any process, but only objects made from now on: none of what was imported.

    The collection at the end of the process skips that, too, and forks share its memory.
    """
    gc.freeze()
    gc.set_threshold(*_USUAL)
