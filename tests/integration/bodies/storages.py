"""A storage that fails where a test says so."""

from typing import Any

from django.core.files.storage import FileSystemStorage

failing: frozenset[str] = frozenset()  # names of methods, and of files that cannot be deleted


class Failing(FileSystemStorage):
    """A folder, as long as nothing is `failing`."""

    def _save(self, name: str, content: Any) -> str:
        if "save" in failing:
            raise OSError("the storage is down")
        return str(super()._save(name, content))  # type: ignore[misc]  # the stubs have no private methods

    def delete(self, name: str) -> None:
        if failing & {"delete", name}:
            raise OSError("the storage is down")
        super().delete(name)
