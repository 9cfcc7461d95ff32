"""The storage of large bodies: one of Django's (STORAGES), or none. Its files have names that nobody else chooses."""

from dataclasses import dataclass
from typing import IO
from uuid import uuid4

from django.core.files import File
from django.core.files.storage import storages
from django.core.files.storage.handler import InvalidStorageError

from weir.conf import settings

FOLDER = "weir-bodies"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """The body of an answer, in a file of a storage."""

    sha256: bytes
    size: int
    storage: str
    file: str


def new_name(sha256: bytes) -> str:
    """Return a name for a file with this body, which no other file has: purge may just be deleting an earlier one."""
    return f"{FOLDER}/{sha256.hex()[:2]}/{sha256.hex()}-{uuid4().hex[:12]}"


def save(name: str, file: IO[bytes]) -> str:
    """Write a file; returns the name that the storage has given it. Blocks. Raises what the storage raises."""
    return str(storages[settings.WEIR_FETCH_STORAGE].save(name, File(file, name)))


def has_lost(storage: str, name: str) -> bool:
    """Return whether a file cannot be read any more: its storage says so, or is not there any more. Blocks.

    A storage that raises an error may have the file.
    """
    try:
        return not storages[storage].exists(name)
    except InvalidStorageError:
        return True
    except Exception:  # noqa: BLE001  each storage has errors of its own
        return False


def delete(storage: str, name: str) -> None:
    """Delete a file, if there is one. Blocks. Raises what the storage raises, InvalidStorageError among it."""
    files = storages[storage]
    try:
        files.delete(name)
    except Exception:
        if files.exists(name):  # some storages raise an error if there is none
            raise
