"""Secrets: texts that requests need, such as the key of an API. Weir stores and shows only their names.

A secret is in the setting WEIR_SECRETS, in an environment variable WEIR_SECRET_NAME, or in a file NAME of the folder
WEIR_SECRETS_DIR; the first of these that there is counts. It is looked up for each request. So a secret that is
replaced counts from the next request on, in a file after CACHED_S seconds.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from weir.conf import settings

SECRET_PREFIX: Final = "WEIR_SECRET_"  # noqa: S105  of variables; it is no secret
CACHED_S: Final = 10.0
MOST_KEYS: Final = 8  # in one secret
LONGEST: Final = 65_536  # bytes of a file: some have certificates

_files: dict[Path, tuple[float, str | None]] = {}  # when the file was read, and what was in it
_lock = Lock()


class SecretUnusable(LookupError):
    """There is no such secret, or it cannot be read or sent. The message says what to do, and quotes no secret."""


class SecretUnknown(SecretUnusable):
    """This process does not have the secret; another one may have it."""


def secret(name: str) -> str:
    """Return a secret. Raises SecretUnusable."""
    value = found(name)
    if not isinstance(value, str):
        raise SecretUnusable(
            f"the secret {name} describes an OAuth client: write {{token:{name}}} for its access token"
        )
    return value


def keys(name: str) -> list[str]:
    """Return the keys in a secret, separated by blanks or line ends. Raises SecretUnusable, as well for too many.

    A key is replaced without an interruption: put the new one beside it, let the other side use the new one, take the
    old one out.
    """
    listed = secret(name).split()
    if not listed:
        raise SecretUnusable(f"the secret {name} is blank")
    if len(listed) > MOST_KEYS:
        raise SecretUnusable(f"the secret {name} must have at most {MOST_KEYS} keys: take old ones out")
    return listed


def found(name: str) -> str | Mapping[str, object]:
    """Return a secret as it is: a text; or a mapping, which only WEIR_SECRETS may have. Raises SecretUnusable."""
    value: str | Mapping[str, object] | None = settings.WEIR_SECRETS.get(name, os.environ.get(f"{SECRET_PREFIX}{name}"))
    if value is None:
        value = _in_file(name)
    if not value:
        places = f"set {SECRET_PREFIX}{name}, WEIR_SECRETS, or a file {name} in WEIR_SECRETS_DIR"
        if value is None:
            raise SecretUnknown(f"the secret {name} is not known to this process: {places}")
        raise SecretUnusable(f"the secret {name} is empty: {places}")
    return value


def _in_file(name: str) -> str | None:
    if not settings.WEIR_SECRETS_DIR:
        return None
    path = Path(settings.WEIR_SECRETS_DIR) / name
    with _lock:
        read_at, text = _files.get(path, (-CACHED_S, None))
        if not text or time.monotonic() - read_at >= CACHED_S:  # an empty one may just be written
            text = _read(path)
            _files[path] = (time.monotonic(), text)
    return text


def _read(path: Path) -> str | None:
    """Return the text of the file without its last line end; None without a file. Raises SecretUnusable."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            raw = file.read(LONGEST + 1)
        text = raw.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        said = f"the file of the secret {path.name} in WEIR_SECRETS_DIR cannot be read: {type(error).__name__}"
        raise SecretUnusable(said) from None  # the error may quote the secret
    if len(raw) > LONGEST:
        raise SecretUnusable(f"the file of the secret {path.name} in WEIR_SECRETS_DIR has more than {LONGEST:,} bytes")
    return text.removesuffix("\n").removesuffix("\r")


def _without_waiting(path: str, flags: int) -> int:
    """Open the file; if it is a pipe that nobody writes to, reading it returns immediately."""
    return os.open(path, flags | os.O_NONBLOCK)
