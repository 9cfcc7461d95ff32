"""Memory: how many bytes of answers a fetcher holds at once, from the first byte of each until it is stored.

An answer holds what has come of it, heads and body. Beyond SMALL it is read on when all that it may become is reserved:
what its length says, or the cap. While it waits, the kernel slows the site down, and nobody counts its time. While all
bytes are held, no further request is written. So the memory of a fetcher has a bound, whatever sites send, and however
long PostgreSQL is away: WEIR_FETCH_MAX_MEMORY, and SMALL for each request that was written before.

On the loop's thread only.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from django.conf import settings

from workers.fetches.fetcher.wire.answers import AnswerReader
from workers.fetches.jobs import Reservation

SMALL = 2**15  # bytes: most answers have no more, and never wait
ONE_SITE = 0.25  # the part of all bytes that one site may have, if it has more than one answer


class Memory:
    """The bytes that the answers of one fetcher hold."""

    def __init__(self) -> None:
        self._held = 0
        self._moving: Counter[int] = Counter()  # by site: bytes of answers that do not wait for more
        self._all_moving = 0
        self._waiting: list[Reservation] = []
        self._is_short = False  # an answer waits for bytes that others hold, not for those of its own site

    def is_full(self) -> bool:
        """Tell whether all bytes are held, or waited for."""
        return self._is_short or self._held >= settings.WEIR_FETCH_MAX_MEMORY

    def hold(self, reservation: Reservation, size: int) -> None:
        """Have it hold so many bytes, whether they are free or not."""
        self._held += size - reservation.size
        self._move(reservation.site_id, size - reservation.size)
        reservation.size = size

    def ask(self, reservation: Reservation, wanted: int, granted: Callable[[], None]) -> bool:
        """Have it hold so many bytes, and return True; or return False, and call `granted` when it does.

        It waits behind those that have waited for longer; a site that has its part lets others pass. What waits holds
        what it had, so the first is let through, whatever is held, where every other answer waits, too.
        """
        self._move(reservation.site_id, -reservation.size)
        reservation.wanted = wanted
        self._waiting.append(reservation)
        if not self._is_short:  # those before it wait for their sites
            self._is_short = not self._grant(reservation) and not self._has_its_part(reservation)
        if self._is_short and not self._all_moving:
            self._grant_all()
        reservation.granted = granted if reservation.wanted is not None else None
        return reservation.wanted is None

    def free(self, reservations: Iterable[Reservation]) -> None:
        """Give all their bytes back. May be called twice."""
        for reservation in reservations:
            if reservation.wanted is None:
                self._move(reservation.site_id, -reservation.size)
            else:
                self._waiting.remove(reservation)
                reservation.wanted = reservation.granted = None
            self._held -= reservation.size
            reservation.size = 0
        self._grant_all()

    def _move(self, site_id: int, size: int) -> None:
        self._all_moving += size
        self._moving[site_id] += size
        if not self._moving[site_id]:
            del self._moving[site_id]

    def _has_its_part(self, waiting: Reservation) -> bool:
        of_site = self._moving.get(waiting.site_id, 0)
        return bool(of_site) and of_site + (waiting.wanted or 0) > ONE_SITE * settings.WEIR_FETCH_MAX_MEMORY

    def _grant_all(self) -> None:
        """Let those go on for which there is room, in turn."""
        self._is_short = False
        granted = []
        for waiting in list(self._waiting):
            if self._grant(waiting):
                granted.append(waiting.granted)
            elif not self._has_its_part(waiting):
                self._is_short = True
                break
        for go_on in filter(None, granted):
            go_on()

    def _grant(self, waiting: Reservation) -> bool:
        wanted = waiting.wanted or 0
        if self._has_its_part(waiting):
            return False
        if self._all_moving and self._held + wanted - waiting.size > settings.WEIR_FETCH_MAX_MEMORY:
            return False
        self._waiting.remove(waiting)
        self._held += wanted - waiting.size
        self._move(waiting.site_id, wanted)
        waiting.size, waiting.wanted = wanted, None
        return True


class AnswerMemory:
    """The bytes of one answer, while it is read."""

    def __init__(self, memory: Memory, site_id: int) -> None:
        self._memory = memory
        self._reservation = Reservation(site_id=site_id)
        self._has_all = False  # that the answer may come to hold

    def has_room(self, reader: AnswerReader, granted: Callable[[], None]) -> bool:
        """Tell whether more of the answer may be held now; if not, `granted` is called when it may."""
        if self._has_all:
            return True
        held = reader.held()
        if held <= SMALL:
            self._memory.hold(self._reservation, held)
            return True
        self._has_all = True
        return self._memory.ask(self._reservation, max(held, reader.may_hold()), granted)

    def keep(self, size: int) -> Reservation:
        """Have the answer, which is read, hold so many bytes until it is stored; returns its reservation."""
        kept, self._reservation = self._reservation, Reservation(site_id=self._reservation.site_id)
        self._memory.hold(kept, size)
        if self._has_all:
            self._memory.free(())  # it holds fewer bytes than it had reserved
        return kept

    def drop(self) -> None:
        """Give back what is not kept."""
        self._memory.free((self._reservation,))
