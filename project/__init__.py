"""Wiring: settings, environment, Celery, URLs, sign-in, embedded servers, `up`, `doctor`. Nothing of the domain.

To import it, or the reader of the environment, changes nothing in a process: no Celery application comes of it.
"""

import gc
from typing import Final

_USUAL: Final = gc.get_threshold()
_OBJECTS: Final = 200_000  # between two collections: some hundred thousand are made by the imports, and stay


def collect_rarely() -> None:
    """Have few collections of garbage until the apps are ready: they would be a third of each start."""
    gc.set_threshold(_OBJECTS, *_USUAL[1:])


def collect_as_ever() -> None:
    """Have collections as in any process, of what is made from now on: none looks at what was imported.

    Nor does one at the end of the process, and forks share it.
    """
    gc.freeze()
    gc.set_threshold(*_USUAL)
