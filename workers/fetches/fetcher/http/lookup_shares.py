"""Look-up shares: which look-up may have a thread now. Names whose servers hang do not delay others. Pure.

A look-up of the system's resolver cannot be stopped: if name servers hang, it keeps its thread for some 10 to 30 s.
So threads are shared among zones (zones.py):
1. A zone has a window: how many of its look-ups may run together. The window begins at FIRST_WINDOW, grows by one with
   each answer, up to WIDEST_WINDOW, and is halved by each look-up without an answer. Further look-ups of the zone wait.
   Zones with waiting look-ups take turns.
2. Only three tenths of all threads are places at work. A look-up that has taken long leaves its place to another one,
   but keeps its thread.
3. A zone is silent if its last look-up got no answer. All silent zones share a fifth of all threads.
4. Names that were found lately are looked up before others: they need no place in their zone's window, and a tenth of
   all threads is kept for them.

After CERTAIN look-ups in a row without an answer, look-ups beyond the zone's window do not wait: they fail immediately.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from weir.workers.fetches.fetcher.http.zones import zone_of
from weir.workers.fetches.fetcher.remembered import Remembered

MOST_LOOKUPS = 640  # look-ups that run together, each in a thread of some 30 KiB; threads are made when needed
FIRST_WINDOW, WIDEST_WINDOW = 8, 64  # look-ups of one zone
CERTAIN = 8  # look-ups in a row without an answer, after which the zone is known not to answer
MOST_WAITING_EACH = 16  # look-ups of one zone that wait, for each place in its window
MOST_REMEMBERED = 50_000  # zones, and names that were found
CONTROLS = 3


class NotLookedUp(Exception):
    """Look-ups of other hosts had all threads, so this host was not looked up; that is not the host's fault."""


class ZoneSilent(Exception):
    """The name servers of the zone do not answer for other names, so they need not be asked for this one."""


class LookupEnding(Enum):
    """How a look-up ended."""

    FOUND = "found"
    DENIED = "denied"  # the name servers say that there is no such name, or no address
    UNANSWERED = "unanswered"
    OURS = "ours"  # no name server was asked: the system has run out of something


@dataclass(eq=False, slots=True)
class Zone:
    """What is known of one zone."""

    name: str
    running: int = 0
    window: int = FIRST_WINDOW
    silence: int = 0  # look-ups without an answer since the zone's last answer
    waiting: "OrderedDict[LookupShare, None]" = field(default_factory=OrderedDict)
    is_in_turn: bool = False  # the zone is in one of the rounds

    @property
    def is_full(self) -> bool:
        """Return whether no more look-ups fit into the window."""
        return self.running >= self.window


class LookupShare(ABC):
    """One look-up; `Shares` decides when it may have a thread."""

    def __init__(self, host: str, zone: Zone) -> None:
        self.host = host
        self.zone = zone
        self.is_at_work = False
        self.is_of_silent = False
        self.is_counted = False  # it was counted as a look-up that got no answer in time

    @abstractmethod
    def start(self) -> None:
        """Begin: the look-up has a thread now."""

    @abstractmethod
    def give_up(self) -> None:
        """End without having begun, because the name servers of the zone do not answer."""


class Shares:
    """Shares the threads of one fetcher among its look-ups."""

    def __init__(self, most: int) -> None:
        self._most = most  # look-ups that run together
        self._kept = most // 10  # threads that are kept for names that were found lately
        self._most_at_work = max(1, 3 * most // 10)
        self._most_of_silent = max(1, most // 5)
        self._running = self._at_work = self._of_silent = 0
        self._zones: OrderedDict[str, Zone] = OrderedDict()
        # By name that was found: its zone.
        self._found: Remembered[str, str] = Remembered(MOST_REMEMBERED)
        # Zones with waiting look-ups, in the order of their turns: silent ones (True), and others.
        self._rounds: dict[bool, deque[Zone]] = {False: deque(), True: deque()}

    def zone(self, host: str) -> Zone:
        """Return what is known of the host's zone."""
        name = zone_of(host)
        zone = self._zones.setdefault(name, Zone(name))
        self._zones.move_to_end(name)
        while len(self._zones) > MOST_REMEMBERED:
            oldest = next(iter(self._zones.values()))
            if oldest.running or oldest.waiting:
                self._zones.move_to_end(oldest.name)
            else:
                del self._zones[oldest.name]
        return zone

    def ask(self, share: LookupShare, *, may_wait: bool = True) -> None:
        """Start a look-up now, or let it wait for its turn; raises ZoneSilent or NotLookedUp if it must not wait."""
        zone = share.zone
        if self._may_start(share):
            self._start(share)
        elif zone.is_full and zone.silence >= CERTAIN:
            raise ZoneSilent
        elif not may_wait or len(zone.waiting) >= MOST_WAITING_EACH * zone.window:
            raise NotLookedUp("so many others wait for look-ups")
        else:
            zone.waiting[share] = None
            self._take_turns(zone)

    def withdraw(self, share: LookupShare) -> None:
        """Forget a waiting look-up that no fetch needs any more."""
        share.zone.waiting.pop(share, None)

    def slow(self, share: LookupShare) -> None:
        """Record that a look-up takes long: another one may have its place at work."""
        self._at_work -= share.is_at_work
        share.is_at_work = False
        self._go_on()

    def overdue(self, share: LookupShare) -> None:
        """Record that a look-up got no answer in time, though it goes on."""
        self._unanswered(share)
        zone = share.zone
        while zone.waiting and zone.is_full and zone.silence >= CERTAIN:
            zone.waiting.popitem(last=False)[0].give_up()

    def ended(self, share: LookupShare, ending: LookupEnding) -> None:
        """Record that a look-up has ended, and start those that waited for this."""
        zone = share.zone
        zone.running -= 1
        self._running -= 1
        self._at_work -= share.is_at_work
        self._of_silent -= share.is_of_silent
        if ending in (LookupEnding.FOUND, LookupEnding.DENIED):
            zone.silence = 0
            zone.window = min(WIDEST_WINDOW, max(FIRST_WINDOW, zone.window + 1))
        elif ending is LookupEnding.UNANSWERED:
            self._unanswered(share)
        if ending is LookupEnding.FOUND:
            self._found.note(share.host, zone.name)
        self._take_turns(zone)
        self._go_on()

    def controls(self) -> list[str]:
        """Return found names of several zones, the oldest first: looking them up again shows who is to blame."""
        chosen: dict[str, str] = {}
        for host, zone_name in islice(self._found.items(), 100):
            zone = self._zones.get(zone_name)
            if zone is None or not (zone.silence or zone.running):
                chosen.setdefault(zone_name, host)
        hosts = list(chosen.values())[:CONTROLS]
        for host in hosts:
            self._found.move_to_end(host)
        return hosts

    def _may_start(self, share: LookupShare) -> bool:
        zone, free = share.zone, self._most - self._running
        if share.host in self._found and zone.running < WIDEST_WINDOW:
            return free > 0
        has_room = self._of_silent < self._most_of_silent if zone.silence else self._at_work < self._most_at_work
        return not zone.is_full and free > self._kept and has_room

    def _start(self, share: LookupShare) -> None:
        share.is_at_work = True
        share.is_of_silent = share.zone.silence > 0
        share.zone.running += 1
        self._running += 1
        self._at_work += 1
        self._of_silent += share.is_of_silent
        share.start()

    def _unanswered(self, share: LookupShare) -> None:
        if share.is_counted:
            return
        share.is_counted = True
        share.zone.silence += 1
        share.zone.window = max(1, share.zone.window // 2)
        self._found.pop(share.host, None)

    def _take_turns(self, zone: Zone) -> None:
        if zone.waiting and not zone.is_in_turn:
            zone.is_in_turn = True
            self._rounds[zone.silence > 0].append(zone)

    def _go_on(self) -> None:
        """Start the look-ups that may start, one of each zone in turn."""
        for zones in self._rounds.values():
            while zones and self._turn(zones):
                pass

    def _turn(self, zones: deque[Zone]) -> bool:
        """Start a look-up of the first zone; return True if the next zone may have its turn, False if none may now."""
        zone = zones.popleft()
        zone.is_in_turn = False
        share = next(iter(zone.waiting), None)
        if share is None:
            return True
        if self._may_start(share):
            del zone.waiting[share]
            self._start(share)
            self._take_turns(zone)
        elif not zone.is_full:  # a full zone has its next turn when one of its look-ups has ended
            if zones is self._rounds[zone.silence > 0]:
                zone.is_in_turn = True
                zones.appendleft(zone)
                return False
            self._take_turns(zone)
        return True
