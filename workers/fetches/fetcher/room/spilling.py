"""Spilling: a large body goes to the disk while it comes, so that memory never holds more than a piece of it.

Only where a storage takes large bodies (WEIR_FETCH_STORAGE). When PIECE bytes have come, the connection is not read
until a thread has written them to a temporary file; so the kernel slows the site down, as with memory (memory.py), and
the time-out stands still. The bytes on the disk have a bound, too: TIMES WEIR_FETCH_MAX_MEMORY. All but the writing is
on the loop's thread.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from weir.conf import settings
from weir.workers.fetches.bodies.spilled import SpilledBody
from weir.workers.fetches.fetcher.room.memory import Memory
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.jobs import HeldBytes, Job

PIECE: Final = 2**18  # bytes that go to the disk together
TIMES: Final = 4  # as many bytes may be on the disk as WEIR_FETCH_MAX_MEMORY times this
WRITERS: Final = 2  # threads


class BodyNotSpilled(Exception):
    """The temporary file of the body could not be written; the message says why."""


class Disk:
    """The bytes of all bodies that one fetcher has on the disk, and the threads that write them."""

    def __init__(self) -> None:
        self.room = Memory(times=TIMES)
        self.threads = ThreadPoolExecutor(WRITERS, thread_name_prefix="spill")

    def freed(self, all_held: Iterable[HeldBytes]) -> list[HeldBytes]:
        """Give back the bytes on the disk among these, and return the others, which are in memory."""
        held = list(all_held)
        self.room.free(each for each in held if each.is_on_disk)
        return [each for each in held if not each.is_on_disk]

    def close(self) -> None:
        """Begin no more threads."""
        self.threads.shutdown(wait=False)


class Spilling:
    """The body of one answer, while it is read."""

    def __init__(self, disk: Disk, job: Job) -> None:
        self._disk = disk
        self._held = HeldBytes(site_id=job.site_id, is_on_disk=True)
        self._body: SpilledBody | None = None
        self._has_ended = False
        self._may_spill = bool(settings.WEIR_FETCH_STORAGE) and not job.is_robots and not job.token_client

    def is_due(self, reader: AnswerReader) -> bool:
        """Return whether the next piece is to go to the disk."""
        from_size = PIECE if self._body else max(PIECE, settings.WEIR_FETCH_STORAGE_FROM)
        return self._may_spill and len(reader.body) >= from_size

    def spill(self, reader: AnswerReader, go_on: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        """Move the bytes that the reader has to the disk; then call `go_on`, or `fail` with BodyNotSpilled."""
        loop = asyncio.get_running_loop()
        body = self._body = self._body or SpilledBody()
        wanted = body.size + 2 * len(reader.body)

        def written(writing: Future[None]) -> None:  # in the thread
            loop.call_soon_threadsafe(ended, writing)

        def ended(writing: Future[None]) -> None:
            if self._has_ended:
                return
            if error := writing.exception():
                fail(BodyNotSpilled(f"unexpected: the disk did not take the body: {type(error).__name__}"))
            else:
                go_on()

        def begin() -> None:
            data = reader.take()
            body.size += len(data)
            body.writing = self._disk.threads.submit(body.write, data)
            body.writing.add_done_callback(written)

        if self._disk.room.ask(self._held, wanted, begin):
            begin()

    def keep(self) -> tuple[SpilledBody | None, HeldBytes | None]:
        """Hand over what is on the disk, and the room that it holds; None without any."""
        self._has_ended = True
        body, self._body = self._body, None
        if body is None:
            return None, None
        self._disk.room.hold(self._held, body.size)
        self._disk.room.free(())
        return body, self._held

    def end(self) -> None:
        """Remove the file, unless it was handed over."""
        self._has_ended = True
        if self._body is not None:
            self._disk.room.free((self._held,))
            self._disk.threads.submit(self._body.close)  # after a write that goes on
            self._body = None
