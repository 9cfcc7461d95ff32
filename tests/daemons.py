"""A server of the system's, run from a temporary folder that its user can reach."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar


class Daemon(Protocol):
    """What can be started and ended."""

    def start(self) -> None: ...

    def close(self) -> None: ...


Made = TypeVar("Made", bound=Daemon)


@contextmanager
def running_in_folder(name: str, make: Callable[[Path], Made]) -> Iterator[Made]:
    """Run the server that `make` makes of a folder; it is gone at the end with all that it wrote."""
    folder = Path(tempfile.mkdtemp(prefix=f"weir-{name}-"))
    try:
        server = make(folder)
        try:
            server.start()
            yield server
        finally:
            server.close()
    finally:
        shutil.rmtree(folder)
