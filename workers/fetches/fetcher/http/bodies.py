"""Bodies: how much of an answer is read, and how much of all of them a fetcher holds at once.

A body beyond SMALL is read on when its bytes are reserved in the budget, and holds them until it is stored. While it
waits, the kernel slows the site down. So the memory of a fetcher has a bound, whatever sites send, and however long
PostgreSQL is away.

On the loop's thread only.
"""

import asyncio
from collections import Counter

import aiohttp
from django.conf import settings

from workers.fetches.jobs import Reservation

SMALL = 2**16  # bytes, as much as aiohttp reads ahead: a body that is not longer reserves nothing
ONE_SITE = 0.25  # the part of the budget that one site may have, if it has more than one body


class Budget:
    """The bytes of bodies that a fetcher may hold: WEIR_FETCH_MAX_MEMORY."""

    def __init__(self) -> None:
        self.is_full = False  # a body waits until another one is stored
        self._held = 0
        self._by_site: Counter[int] = Counter()
        self._waiting: list[Reservation] = []

    async def reserve(self, site_id: int, size: int) -> Reservation:
        """Reserve so many bytes; waits until they are free, behind those that have waited for longer."""
        reservation = Reservation(site_id=site_id, size=size)
        self._waiting.append(reservation)
        self._grant()
        try:
            await reservation.granted.wait()
        except BaseException:
            self.free(reservation)
            raise
        return reservation

    def free(self, reservation: Reservation, *, but: int = 0) -> None:
        """Give the bytes back, but so many of them; `reservation` holds these from now on. May be called twice."""
        if not reservation.granted.is_set():
            self._waiting.remove(reservation)
            self._grant()  # it may have been the first
            return
        freed = reservation.size - but
        reservation.size = but
        self._held -= freed
        self._by_site[reservation.site_id] -= freed
        if not self._by_site[reservation.site_id]:
            del self._by_site[reservation.site_id]
        self._grant()

    def _grant(self) -> None:
        """Let those go on for which there is room, in turn. A site that has its part lets others pass."""
        most = settings.WEIR_FETCH_MAX_MEMORY
        for waiting in list(self._waiting):
            of_site = self._by_site.get(waiting.site_id, 0)
            if of_site and of_site + waiting.size > ONE_SITE * most:
                continue
            if self._held and self._held + waiting.size > most:
                self.is_full = True
                return
            self._held += waiting.size
            self._by_site[waiting.site_id] = of_site + waiting.size
            self._waiting.remove(waiting)
            waiting.granted.set()
        self.is_full = False


class Body:
    """The body of one answer, while it is read."""

    def __init__(self, budget: Budget, site_id: int) -> None:
        self._budget = budget
        self._site_id = site_id
        self._reservation: Reservation | None = None

    async def read(self, response: aiohttp.ClientResponse, most: int, deadline: asyncio.Timeout) -> bytes:
        """Return the body; of one that is longer than `most` bytes, a beginning of more than `most` bytes.

        The deadline is put off for as long as the body waits for its bytes, as that is not the site's fault.
        """
        if (response.content_length or 0) > SMALL:
            await self._reserve(min(most, response.content_length or 0), deadline)
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            chunks.append(chunk)
            if size > most:
                response.close()
                break
            if size > SMALL and self._reservation is None:
                await self._reserve(most, deadline)
        return b"".join(chunks)

    def keep(self, size: int) -> Reservation | None:
        """Have the body, which is read, hold so many bytes from now on; returns its reservation, if it has one."""
        kept, self._reservation = self._reservation, None
        if kept is not None:
            self._budget.free(kept, but=size)
        return kept

    def drop(self) -> None:
        """Give back what is not kept."""
        if self._reservation is not None:
            self._budget.free(self._reservation)

    async def _reserve(self, size: int, deadline: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        left_s = (deadline.when() or loop.time()) - loop.time()
        deadline.reschedule(None)
        self._reservation = await self._budget.reserve(self._site_id, size)
        deadline.reschedule(loop.time() + left_s)
