"""The purge of bodies, once a minute: bodies that no fetch has any more, or that are older than their retention.

A KeptBody is deleted with the last fetch that has it:
1. Whoever deletes the body of a fetch leaves a ReleasedBody (a trigger).
2. The purge takes these out, and locks their KeptBodies. Those that a store refers to at this moment are left for
   later.
3. A second statement, whose snapshot is newer than the locks, deletes those that no fetch has.
A store locks the KeptBodies that it refers to, or inserts them (store.sql). So no fetch refers to a deleted one.

The files of KeptBodies that were deleted, and those that were noted and never kept, are BodyFiles: the purge asks their
storages to delete them, again and again if need be.

While this purge has its turns, bodies are kept once. A version that does not know them, and could not read them, does
not send it.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from django.db import transaction

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.workers.fetches.bodies import storage
from weir.workers.fetches.bodies.keeping import body_retention_s

log = get_logger(__name__)


class LeftFile(NamedTuple):
    """A file that no KeptBody names."""

    name: str
    storage: str


TURN_BODIES = Statement("turn_bodies", returns=int, commits=True)
TAKE_RELEASED = Statement("take_released", returns=bytes, commits=False)
LOCK_KEPT = Statement("lock_kept", returns=bytes, commits=False)
DELETE_KEPT = Statement("delete_kept", returns=int, commits=False)
PURGE_OLD_BODIES = Statement("purge_old_bodies", returns=int, commits=True)

LEFT_FILES = Statement("left_files", row=LeftFile, commits=True)
PUT_OFF_FILE = Statement("put_off_file", returns=str, commits=True)
FORGET_FILES = Statement("forget_files", returns=str, commits=True)

BATCH: Final = 1_000
WITHIN_S: Final = 5.0  # seconds for each kind of row, once a minute
YOUNG_S: Final = 3_600.0  # longer than any statement runs
NEVER_KEPT_S: Final = 86_400.0  # seconds after which a file that was noted will not be kept any more


def purge_bodies() -> None:
    """Delete the bodies that are older than WEIR_FETCH_BODY_RETENTION, and those that no fetch has any more.

    Works in short batches, and waits for no lock. May be killed anywhere, and run twice or together.
    """
    [newest] = TURN_BODIES()
    if body_retention_s() < settings.WEIR_FETCH_RETENTION:
        _repeat(lambda: PURGE_OLD_BODIES(older_than=body_retention_s(), batch=BATCH)[0])
    _repeat(lambda: _delete_released(newest))
    _delete_files()


def _repeat(delete: Callable[[], int]) -> None:
    """Repeat until a batch is short, or for WITHIN_S: the next turn goes on."""
    until = time.monotonic() + WITHIN_S
    while delete() >= BATCH and time.monotonic() < until:
        pass


def _delete_released(newest: int) -> int:
    """Delete the KeptBodies of a batch of ReleasedBodies that no fetch has; returns how many were looked at."""
    with transaction.atomic(durable=True):
        if released := TAKE_RELEASED(newest=newest, batch=BATCH):
            locked = LOCK_KEPT(released=released, young=YOUNG_S)
            DELETE_KEPT(locked=locked, released=released)
    return len(released)


def _delete_files() -> None:
    """Have the storages delete the files that no KeptBody names.

    A storage that fails is left to the next turn, which begins with another file: one that cannot be deleted, and a
    storage that is gone, keep no other file.
    """
    until, failed = time.monotonic() + WITHIN_S, set[str]()
    while files := LEFT_FILES(older_than=NEVER_KEPT_S, failed=sorted(failed), batch=BATCH):
        deleted = []
        for file in files:
            if file.storage in failed or time.monotonic() > until:
                continue
            try:
                storage.delete(file.storage, file.name)
            except Exception as error:  # noqa: BLE001  each storage has errors of its own
                failed.add(file.storage)
                log.warning("body_files_not_deleted", storage=file.storage, file=file.name, error=str(error))
                PUT_OFF_FILE(name=file.name, older_than=NEVER_KEPT_S)
            else:
                deleted.append(file.name)
        if deleted:
            FORGET_FILES(names=deleted)
        if time.monotonic() > until:
            break
