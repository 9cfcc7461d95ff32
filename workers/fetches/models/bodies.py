"""The bodies of answers and of requests. They are not in Fetch, so that the rows of the queue stay small.

A short body of an answer is in its FetchBody. A longer one is a KeptBody, which all fetches with the same body share:
its bytes are in its row, or in a file of a storage (WEIR_FETCH_STORAGE).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_SET, BufferedReader, BytesIO, RawIOBase
from typing import IO, Any, BinaryIO, cast

from billiard.exceptions import SoftTimeLimitExceeded
from django.core.files.storage import storages
from django.core.files.storage.handler import InvalidStorageError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class BodyGone(Exception):
    """The fetch had a body, which is not kept any more, or cannot be read; the message says why."""


class BodyUnreachable(Exception):
    """The storage that has the body cannot be read now; the message says which. Try again later."""


class KeptBody(models.Model):
    """A body that is kept once, for all fetches that have it. The last of them takes it along when it is deleted."""

    sha256 = models.BinaryField(primary_key=True, help_text="its SHA-256")
    content = models.BinaryField(null=True, help_text="NULL: it is in a file")
    size = models.BigIntegerField(help_text="bytes")
    storage = models.TextField(blank=True, default="", db_default="", help_text="of `STORAGES`, if it is in a file")
    file = models.TextField(blank=True, default="", db_default="", help_text="its name in that storage")
    kept_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "kept bodies"

    def __str__(self) -> str:
        return f"a body of {self.size} bytes"

    def open(self) -> BinaryIO:
        """Return the body as a file that is open for reading.

        Raises BodyGone if its storage does not have it, and BodyUnreachable if the storage is away. Some storages, such
        as buckets, find out only when the file is read.
        """
        if not self.file:
            return BytesIO(bytes(self.content or b""))
        with _explained(self):
            file = cast("IO[bytes]", storages[self.storage].open(self.file, "rb"))
            return cast("BinaryIO", BufferedReader(_InStorage(self, file)))


@contextmanager
def _explained(kept: KeptBody) -> Iterator[None]:
    """Raise BodyGone or BodyUnreachable for an error of the storage."""
    try:
        yield
    except (BodyGone, BodyUnreachable, MemoryError, SoftTimeLimitExceeded):
        raise
    except InvalidStorageError as error:
        raise BodyGone(f"The body is in the storage {kept.storage!r}, which STORAGES does not have.") from error
    except FileNotFoundError as error:
        raise BodyGone(f"The storage {kept.storage!r} has lost the file of the body, {kept.file}.") from error
    except Exception as error:  # each storage has errors of its own
        why = f"which cannot be read now ({type(error).__name__})"
        raise BodyUnreachable(f"The body is in the storage {kept.storage!r}, {why}: try again later.") from error


class _InStorage(RawIOBase):
    """A file in a storage, whose errors are explained."""

    def __init__(self, kept: KeptBody, file: IO[bytes]) -> None:
        self._kept, self._file = kept, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        with _explained(self._kept):
            return bool(self._file.seekable())

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  a buffer of bytes
        with _explained(self._kept):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        with _explained(self._kept):
            return bytes(self._file.read())

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        with _explained(self._kept):
            self._file.seek(offset, whence)
            return int(self._file.tell())

    def tell(self) -> int:
        with _explained(self._kept):
            return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            try:
                self._file.close()
            finally:
                super().close()


class FetchBody(models.Model):
    """The body of a fetch that has ended, decompressed: its own bytes, or the KeptBody that it shares with others.

    If it has neither, the body was deleted before the fetch (WEIR_FETCH_BODY_RETENTION).
    """

    fetch = models.OneToOneField("Fetch", models.CASCADE, primary_key=True, related_name="body")
    own = models.BinaryField(null=True, db_column="content", help_text="NULL: it is a KeptBody, or was deleted")
    # No constraint: its check would lock the shared row in each store. Purge looks for fetches before it deletes one.
    sha256 = models.BinaryField(null=True, help_text="of its KeptBody")

    class Meta:
        indexes = (
            # Purge: does another fetch have this KeptBody?
            models.Index(fields=["sha256"], condition=Q(sha256__isnull=False), name="weir_fetchbody_sha256"),
        )

    def __str__(self) -> str:
        return f"body of fetch {self.pk}"

    @property
    def content(self) -> bytes:
        """The whole body. Raises BodyGone if it is not kept any more, and BodyUnreachable if its storage is away."""
        if self.own is not None:
            return bytes(self.own)
        with self.open() as file:
            return file.read()

    def open(self) -> BinaryIO:
        """Return the body as a file that is open for reading: one in a storage is read in pieces.

        Raises BodyGone and BodyUnreachable, the latter also when the file is read.
        """
        if self.own is not None:
            return BytesIO(bytes(self.own))
        kept = None if self.sha256 is None else KeptBody.objects.filter(pk=self.sha256).first()
        if kept is None:
            raise BodyGone(f"The body of fetch {self.pk} was deleted before the fetch: WEIR_FETCH_BODY_RETENTION.")
        return kept.open()


class ReleasedBody(models.Model):
    """A fetch that had this KeptBody was deleted: has another fetch the same? Triggers write it; purge asks."""

    id = models.BigAutoField(primary_key=True)
    sha256 = models.BinaryField(help_text="of the KeptBody")

    class Meta:
        verbose_name_plural = "released bodies"

    def __str__(self) -> str:
        return f"released body {self.pk}"


class BodyFile(models.Model):
    """A file that a storage may have. It is noted before it is written; purge deletes it if no KeptBody names it."""

    name = models.TextField(primary_key=True, help_text="in its storage")
    storage = models.TextField(help_text="of `STORAGES`")
    noted_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class BodyKeeping(models.Model):
    """How far the purge of bodies has come; one row."""

    id = models.SmallIntegerField(primary_key=True, default=1, db_default=1)
    turned_at = models.DateTimeField(help_text="its last turn: bodies are kept once as long as there are turns")
    deleted_until = models.DateTimeField(null=True, help_text="the bodies of fetches that ended before are deleted")

    class Meta:
        verbose_name_plural = "body keeping"

    def __str__(self) -> str:
        return f"body keeping of {self.turned_at}"


class RequestBody(models.Model):
    """The body of a fetch's request, as it is sent. It is deleted with its fetch, which may be retried until then."""

    # The constraint is the migration's: it deletes the body with the fetch, also for a version that knows no bodies.
    fetch = models.OneToOneField("Fetch", models.CASCADE, primary_key=True, db_constraint=False, related_name="+")
    content = models.BinaryField()

    def __str__(self) -> str:
        return f"body of the request of fetch {self.pk}"
