"""Secrets: texts that requests need, such as the key of an API. Weir stores and shows only their names.

A secret has its value in the setting WEIR_SECRETS, in an environment variable WEIR_SECRET_NAME, or in a file NAME of
the folder WEIR_SECRETS_DIR; the first of these that there is counts. It is read where it is used, each time: a value
that is replaced counts from the next request on, in a file after CACHED_S seconds.
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from weir.conf import settings

VARIABLE: Final = "WEIR_SECRET_"
CACHED_S: Final = 10.0
LONGEST: Final = 8_192  # bytes
_USABLE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")  # what a header can have

Given = Mapping[str, str | Callable[[], str]]
_files: dict[Path, tuple[float, str | None]] = {}  # when the file was read, and what was in it
_lock = Lock()


class SecretMissing(LookupError):
    """There is no such secret, or it cannot be sent. The message says what to do, and nothing of the secret."""


def secret(name: str) -> str:
    """Return the value of a secret. Raises SecretMissing."""
    given: Given = settings.WEIR_SECRETS
    value: str | None
    if name in given:
        each = given[name]
        value = each() if callable(each) else each
    elif (value := os.environ.get(f"{VARIABLE}{name}")) is None:
        value = _in_file(name)
    if value is None:
        raise SecretMissing(f"the secret {name} is not known: set {VARIABLE}{name}, or WEIR_SECRETS, for the fetchers")
    if not _USABLE.fullmatch(value):
        raise SecretMissing(f"the secret {name} cannot be sent: it must be printable ASCII, on one line")
    return value


def _in_file(name: str) -> str | None:
    if not settings.WEIR_SECRETS_DIR:
        return None
    path = Path(settings.WEIR_SECRETS_DIR) / name
    with _lock:
        read_at, text = _files.get(path, (-CACHED_S, None))
        if time.monotonic() - read_at >= CACHED_S:
            text = _read(path)
            _files[path] = (time.monotonic(), text)
    return text


def _read(path: Path) -> str | None:
    """Return the text of the file without its last line end; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LONGEST).decode().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError):
        return None
