"""Memory: how many bytes of answers a fetcher holds at a time, from the first byte of each until it is stored.

An answer holds the bytes of its heads and body that have come. Beyond SMALL, more of it is read only when as many bytes
again are reserved, so an answer never reserves more than twice the bytes that have come. While an answer waits for
bytes, the kernel slows the site down, and the time-out stands still. When FULL_FROM of all bytes are held, further
requests are written only to sites that hold less than SMALL. So the memory of a fetcher has a bound, whatever sites
send, and however long PostgreSQL is away: WEIR_FETCH_MAX_MEMORY, plus the bytes of one read for each request that was
written before.

On the loop's thread only.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable
from operator import attrgetter

from weir.conf import settings
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.jobs import HeldBytes

SMALL = 2**15  # bytes: most answers have no more, and never wait
FULL_FROM = 0.5  # from this part of all bytes on, memory counts as full: answers that are being read still grow
ONE_SITE = 0.25  # the part of all bytes for answers of one site that are being read, if there is more than one
WAITING = 0.125  # a further part for answers of the same site that wait for more bytes, and keep those they have


class Memory:
    """The bytes that the answers of one fetcher hold: `times` WEIR_FETCH_MAX_MEMORY at most.

    Bytes on the disk are counted in the same way (spilling.py).
    """

    def __init__(self, times: int = 1) -> None:
        self._times = times
        self._held = 0
        self._of_site: Counter[int] = Counter()  # by site: bytes that are held
        self._moving: Counter[int] = Counter()  # by site: bytes of answers that do not wait for more
        self._all_moving = 0
        self._waiting: list[HeldBytes] = []  # in the order of their places
        self._last_place = 0
        self._is_short = False  # an answer waits for bytes that other sites hold

    def has_room_for(self, site_id: int) -> bool:
        """Return whether a request may be written to this site.

        If memory is full, or an answer waits for bytes, this site must hold less than SMALL. So the large answers of
        other sites do not stop a site with small answers, some of which may be waiting to be stored.
        """
        is_full = self._is_short or self._held >= FULL_FROM * self._most
        return not is_full or self._of_site[site_id] < SMALL

    def hold(self, held: HeldBytes, size: int) -> None:
        """Make the answer hold `size` bytes, whether they are free or not; it no longer waits."""
        if held.wanted is not None:
            self._waiting.remove(held)
            held.wanted = held.go_on = None
            self._move(held.site_id, held.size)
        self._hold(held.site_id, size - held.size)
        self._move(held.site_id, size - held.size)
        held.size = size

    def ask(self, held: HeldBytes, wanted: int, go_on: Callable[[], None]) -> bool:
        """Make the answer hold `wanted` bytes, and return True; or return False, and call `go_on` when it holds them.

        An answer waits behind those that began to wait before it. So one answer after the other becomes whole, while
        the others keep the bytes that they have. Answers of a site that has its part (ONE_SITE) are passed over. If all
        answers wait, the first one goes on, however many bytes are held.
        """
        self._move(held.site_id, -held.size)
        held.wanted = wanted
        if not held.place:
            self._last_place += 1
            held.place = self._last_place
        insort(self._waiting, held, key=attrgetter("place"))
        if not self._is_short or self._waiting[0] is held:  # the answers before it wait for bytes of their own sites
            is_short = not self._grant(held) and not self._has_its_part(held)
            self._is_short = self._is_short or is_short
        if self._is_short and not self._all_moving:
            self._grant_all()
        held.go_on = go_on if held.wanted is not None else None
        return held.wanted is None

    def free(self, all_held: Iterable[HeldBytes]) -> None:
        """Give back all bytes that these answers hold. May be called twice."""
        for held in all_held:
            self.hold(held, 0)
        if self._waiting:
            self._grant_all()
        else:
            self._is_short = False

    @property
    def _most(self) -> int:
        return self._times * int(settings.WEIR_FETCH_MAX_MEMORY)

    def _hold(self, site_id: int, size: int) -> None:
        self._held += size
        self._of_site[site_id] += size
        if not self._of_site[site_id]:
            del self._of_site[site_id]

    def _move(self, site_id: int, size: int) -> None:
        self._all_moving += size
        self._moving[site_id] += size
        if not self._moving[site_id]:
            del self._moving[site_id]

    def _has_its_part(self, waiting: HeldBytes) -> bool:
        moving, wanted = self._moving.get(waiting.site_id, 0), waiting.wanted or 0
        in_all = self._of_site[waiting.site_id] + wanted - waiting.size
        most = self._most
        return bool(moving) and (moving + wanted > ONE_SITE * most or in_all > (ONE_SITE + WAITING) * most)

    def _grant_all(self) -> None:
        """Let waiting answers go on, in turn, as long as there is room."""
        self._is_short = False
        going_on: list[Callable[[], None] | None] = []
        have_their_part: set[int] = set()  # sites whose further answers need not be looked at
        for waiting in list(self._waiting):
            if waiting.site_id in have_their_part:
                continue
            if self._grant(waiting):
                going_on.append(waiting.go_on)
            elif self._has_its_part(waiting):
                have_their_part.add(waiting.site_id)
            else:
                self._is_short = True
                break
        for go_on in filter(None, going_on):
            go_on()

    def _grant(self, waiting: HeldBytes) -> bool:
        wanted = waiting.wanted or 0
        if self._has_its_part(waiting):
            return False
        if self._all_moving and self._held + wanted - waiting.size > self._most:
            return False
        self._waiting.remove(waiting)
        self._hold(waiting.site_id, wanted - waiting.size)
        self._move(waiting.site_id, wanted)
        waiting.size, waiting.wanted = wanted, None
        return True


class AnswerMemory:
    """The bytes of one answer, while it is read."""

    def __init__(self, memory: Memory, site_id: int) -> None:
        self._memory = memory
        self._held_bytes = HeldBytes(site_id=site_id)

    def may_go_on(self, reader: AnswerReader, go_on: Callable[[], None]) -> bool:
        """Return whether more of the answer may be held now; if not, `go_on` is called when it may."""
        held = reader.held()
        if held <= SMALL or held > self._held_bytes.size:
            self._memory.hold(self._held_bytes, held)
        if held <= SMALL or held < self._held_bytes.size:
            return True
        wanted = min(2 * held, reader.may_hold())
        return wanted <= held or self._memory.ask(self._held_bytes, wanted, go_on)

    def shrink(self, size: int) -> None:
        """Make the answer hold `size` bytes, fewer than before."""
        self._memory.hold(self._held_bytes, size)
        self._memory.free(())

    def keep(self, size: int) -> HeldBytes:
        """Make the answer, which has been read, hold `size` bytes until it is stored; returns these bytes."""
        kept, self._held_bytes = self._held_bytes, HeldBytes(site_id=self._held_bytes.site_id)
        had = kept.size
        self._memory.hold(kept, size)
        if size < had:
            self._memory.free(())
        return kept

    def drop(self) -> None:
        """Give back the bytes that are not kept."""
        self._memory.free((self._held_bytes,))
