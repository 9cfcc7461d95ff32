"""A storage that fails where a test says so."""

from typing import Any

from billiard.exceptions import SoftTimeLimitExceeded
from django.core.files import File
from django.core.files.storage import FileSystemStorage

failing: frozenset[str] = frozenset()  # names of methods, and of files that cannot be deleted


class _Lazy(File):  # type: ignore[type-arg]
    """A file that is asked for when it is read, as one of a bucket, and does not come."""

    def read(self, *_size: int) -> bytes:
        raise ConnectionError("the storage is down")


class Failing(FileSystemStorage):
    """A folder, as long as nothing is `failing`."""

    def _save(self, name: str, content: Any) -> str:
        if "save" in failing:
            raise OSError("the storage is down")
        return str(super()._save(name, content))  # type: ignore[misc]  # the stubs have no private methods

    def _open(self, name: str, mode: str = "rb") -> Any:
        if "limit" in failing:
            raise SoftTimeLimitExceeded
        if "open" in failing:
            raise ConnectionError("the storage is down")
        file = super()._open(name, mode)  # type: ignore[misc]  # as above
        return _Lazy(file) if "read" in failing else file

    def delete(self, name: str) -> None:
        if failing & {"delete", name}:
            raise OSError("the storage is down")
        super().delete(name)
