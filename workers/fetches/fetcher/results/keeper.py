"""The keeper: threads that bring large bodies to the storage, so that the writer waits for no storage.

For each answer, one after the other in each thread,
1. the content is decompressed into a temporary file, and hashed (large.py);
2. it is judged, as the writer does it (outcomes.py). An outcome without a body, or with a small one, goes back as it
   is.
3. The lease is prolonged, and the name of the file noted (sql/hold_for_storing.sql). A body that is kept in a file
   already is not written again, unless its storage has lost the file.
4. The storage writes the file, which is kept from then on (sql/keep_file.sql). If it raises an error, this fetch is
   tried again, or fails; no other is concerned. The same body is written by one thread at a time.

The outcome goes back to the writer, which stores it with the others. The bytes that came count until then
(room/memory.py, room/spilling.py), so a slow storage slows large answers down, and nothing else.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import SimpleQueue
from random import random
from threading import Condition, Lock, Thread
from typing import Final, NamedTuple

from django.db import Error, connection

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.workers.fetches.bodies import storage
from weir.workers.fetches.bodies.storage import StoredFile
from weir.workers.fetches.fetcher.results.contents import is_bodiless
from weir.workers.fetches.fetcher.results.decoding import Decoded
from weir.workers.fetches.fetcher.results.large import LargeContent, large_content
from weir.workers.fetches.fetcher.results.outcomes import unjudged, unstored
from weir.workers.fetches.jobs import Answer, Event, FetchOutcome

log = get_logger(__name__)

THREADS: Final = 4
STORING_S: Final = 300.0  # seconds for which a lease is prolonged while a storage writes
YOUNG_S: Final = 600.0  # seconds after which a kept body is made young again: purge leaves it alone for an hour
DATABASE_RETRY_S: Final = 1.0


class Held(NamedTuple):
    """Whether the fetch is still held, and the file that has its body already, if there is one."""

    is_held: bool
    storage: str
    file: str


class FileOfBody(NamedTuple):
    """A file that has the body, and its storage."""

    storage: str
    file: str


class StorageFailed(Exception):
    """The storage raised an error, which is the cause of this one."""


HOLD_FOR_STORING = Statement("hold_for_storing", row=Held, commits=True)
KEEP_FILE = Statement("keep_file", row=FileOfBody, commits=True)
NOTE_BODY_FILE = Statement("note_body_file", returns=str, commits=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """An answer whose body is stored, or that has none, with its outcome."""

    answer: Answer
    outcome: FetchOutcome


class Keeper:
    """The large bodies of one fetcher. `judge` judges an answer whose content is known; `give` gets each result."""

    def __init__(self, judge: Callable[[Answer, Decoded], FetchOutcome], give: Callable[[Kept], None]) -> None:
        self._judge, self._give = judge, give
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._held: dict[int, Answer] = {}  # by `id`: a fetch that was lost meanwhile may be answered again
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._writing: set[bytes] = set()  # hashes of the bodies that are being stored: the same one waits
        self._turn = Condition()

    def __bool__(self) -> bool:
        return bool(self._held)

    def put(self, answer: Answer) -> None:
        """Hand over an answer; never blocks."""
        with self._lock:
            self._held[id(answer)] = answer
        if len(self._threads) < THREADS:
            self._threads.append(Thread(target=self._work, name=f"keeper-{len(self._threads)}", daemon=True))
            self._threads[-1].start()
        self._answers.put(answer)

    def abandon(self) -> list[Answer]:
        """Return the answers that are not stored yet: their results are dropped."""
        with self._lock:
            abandoned = list(self._held.values())
            self._held.clear()
        return abandoned

    def take(self, kept: Kept) -> bool:
        """Return whether the result counts: its answer was not abandoned."""
        with self._lock:
            return self._held.pop(id(kept.answer), None) is not None

    def _work(self) -> None:
        while True:
            answer = self._answers.get()
            if id(answer) in self._held:
                self._give(Kept(answer=answer, outcome=self._outcome_of(answer)))
            connection.close()
            if answer.spilled:
                answer.spilled.close()

    def _outcome_of(self, answer: Answer) -> FetchOutcome:
        try:
            with large_content(answer, answer.job.most_body, keep=settings.WEIR_FETCH_KEEP_INCOMPLETE) as content:
                outcome = self._judge(answer, content.found)
                return outcome if outcome.content is None else self._stored(answer, outcome, content)
        except (StorageFailed, Error, OSError) as error:  # the storage, the database or the disk
            cause = error.__cause__ if isinstance(error, StorageFailed) and error.__cause__ else error
            log.warning("body_not_stored", **answer.job.named, exc_info=cause)
            return unstored(answer.job, type(cause).__name__, random())  # noqa: S311  jitter
        except Exception as error:
            log.exception("event_not_judged", **answer.job.named)
            return unjudged(answer.job, error, random())  # noqa: S311  jitter

    def _stored(self, answer: Answer, outcome: FetchOutcome, content: LargeContent) -> FetchOutcome:
        if content.size < settings.WEIR_FETCH_STORAGE_FROM:
            return replace(outcome, content=content.file.read())
        with self._turn:
            self._turn.wait_for(lambda: content.sha256 not in self._writing)
            self._writing.add(content.sha256)
        try:
            file = self._file_with(answer, content)
        finally:
            with self._turn:
                self._writing.discard(content.sha256)
                self._turn.notify_all()
        if file is None:  # nor is the outcome stored
            return replace(outcome, content=None)
        stored = StoredFile(sha256=content.sha256, size=content.size, storage=file.storage, file=file.file)
        return replace(outcome, content=None, stored_file=stored)

    def _file_with(self, answer: Answer, content: LargeContent) -> FileOfBody | None:
        """Return the file that has the body, or a new one; None if the fetch is not held. Raises StorageFailed."""
        name, in_storage = storage.new_name(content.sha256), settings.WEIR_FETCH_STORAGE
        held = self._hold(answer, content.sha256, name)
        if not held.is_held:
            return None
        if held.file:
            if not storage.has_lost(held.storage, held.file):
                return FileOfBody(held.storage, held.file)
            log.warning("body_file_lost", storage=held.storage, file=held.file)
            NOTE_BODY_FILE(name=name, in_storage=in_storage)
        try:
            file = storage.save(name, content.file)
        except BaseException as error:  # a panic in Rust and a time-out of gevent are no Exceptions
            raise StorageFailed from error
        if file != name:
            NOTE_BODY_FILE(name=file, in_storage=in_storage)
        kept = {"sha256": content.sha256, "size": content.size, "in_storage": in_storage, "name": file}
        while not (found := KEEP_FILE(**kept, lost=held.file)):
            pass  # another process has kept it a moment ago
        return found[0]

    def _hold(self, answer: Answer, sha256: bytes, name: str) -> Held:
        """Prolong the lease and note the file, however long the database is away."""
        while True:
            try:
                return HOLD_FOR_STORING(
                    fetch=answer.job.fetch_id,
                    slot=answer.job.slot_id,
                    sha256=sha256,
                    name=name,
                    in_storage=settings.WEIR_FETCH_STORAGE,
                    storing=STORING_S,
                    young=YOUNG_S,
                )[0]
            except Error as error:
                log.warning("store_waits_for_database", outcomes=1, error=str(error))
                connection.close()
                if id(answer) not in self._held:
                    return Held(is_held=False, storage="", file="")
                time.sleep(DATABASE_RETRY_S)


def stored_from(event: Event) -> int | None:
    """Return from how many bytes on the content of the answer goes to the storage; None if none does."""
    if not settings.WEIR_FETCH_STORAGE or event.job.is_robots or event.job.token_client:
        return None
    return int(settings.WEIR_FETCH_STORAGE_FROM)


def is_large(event: Event) -> bool:
    """Return whether the event is for the keeper, before anything of its body is read."""
    from_size = stored_from(event)
    if not isinstance(event, Answer) or from_size is None or is_bodiless(event):
        return isinstance(event, Answer) and event.spilled is not None
    return event.spilled is not None or len(event.body) >= from_size
