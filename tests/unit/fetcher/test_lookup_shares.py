"""Look-up shares: names whose servers hang hold up no others, however many they are."""

import random

import pytest

from weir.workers.fetches.fetcher.http.lookup_shares import (
    CERTAIN,
    FIRST_WINDOW,
    MOST_LOOKUPS,
    WIDEST_WINDOW,
    LookupEnding,
    LookupShare,
    NotLookedUp,
    Shares,
    ZoneSilent,
)
from weir.workers.fetches.fetcher.http.zones import zone_of


class OneOf(LookupShare):
    """A look-up that notes what becomes of it."""

    def __init__(self, host: str, names: "Names") -> None:
        super().__init__(host, names.shares.zone(host))
        self._names = names

    def start(self) -> None:
        self._names.running.append(self)

    def give_up(self) -> None:
        self._names.told.append(self.host)


class Names:
    """Asks for names, and keeps a list of what goes on."""

    def __init__(self) -> None:
        self.shares = Shares(MOST_LOOKUPS)
        self.running: list[LookupShare] = []
        self.told: list[str] = []  # hosts that waited, and need wait no more

    def ask(self, host: str) -> bool:
        """Ask for a name; returns whether its look-up began at once."""
        share = OneOf(host, self)
        self.shares.ask(share)
        return share in self.running

    def end(self, share: LookupShare, ending: LookupEnding) -> None:
        self.running.remove(share)
        self.shares.ended(share, ending)

    def find(self, *hosts: str) -> None:
        """Let these names be found."""
        for host in hosts:
            self.ask(host)
            self.end(self.running[-1], LookupEnding.FOUND)

    def hang(self) -> None:
        """Let all that is being looked up take longer than a fetch waits."""
        for share in list(self.running):
            self.shares.slow(share)
        for share in list(self.running):
            self.shares.overdue(share)

    def fits(self, host: str) -> bool:
        """Ask for a name that may have to be refused; returns whether its look-up began at once."""
        try:
            return self.ask(host)
        except (NotLookedUp, ZoneSilent):
            return False


def test_zones() -> None:
    """What somebody can register is a zone; what is public is none, and a name without dots is its own."""
    zones = {
        "a.b.shop.example": "shop.example",
        "Shop.Example.": "shop.example",
        "a.shop.co.uk": "shop.co.uk",
        "co.uk": "co.uk",
        "kim.github.io": "kim.github.io",
        "a.xn--fass-8g3b.xn--p1ai": "xn--fass-8g3b.xn--p1ai",
        "localhost": "localhost",
        "a..b": "a..b",
        "": "",
        ".".join("a" * 120): "a.a",
    }
    assert {host: zone_of(host) for host in zones} == zones


def test_a_zone_that_hangs_has_a_few_threads_however_many_names_it_has() -> None:
    """Any other name is looked up at once; the rest of the zone is told at once, when its first names got no answer."""
    names = Names()
    began = [names.fits(f"h{number}.dead.example") for number in range(1_500)]
    assert sum(began) == FIRST_WINDOW
    assert names.ask("good.example")
    assert not names.told
    names.end(names.running[-1], LookupEnding.FOUND)
    names.hang()
    assert len(names.told) >= FIRST_WINDOW, "those that waited"
    with pytest.raises(ZoneSilent):
        names.ask("another.dead.example")
    assert len(names.running) == FIRST_WINDOW


def test_a_zone_that_answers_has_more_look_ups_at_once() -> None:
    """Its window grows with each answer, up to a bound; one that hangs then loses that as fast."""
    names = Names()
    names.find(*(f"h{number}.shop.example" for number in range(WIDEST_WINDOW)))
    assert sum(names.fits(f"new-{number}.shop.example") for number in range(500)) == WIDEST_WINDOW
    names.hang()
    for share in list(names.running):
        names.end(share, LookupEnding.UNANSWERED)
    assert len(names.running) <= 1


def test_names_that_were_found_are_looked_up_whatever_hangs() -> None:
    """Of 1,000 zones that hang, too; and where all that hangs is known, new names are looked up at once as well."""
    names = Names()
    names.find("known.example")
    hanging = [f"www.dead-{number}.example" for number in range(1_000)]
    assert sum(names.fits(host) for host in hanging) < MOST_LOOKUPS / 2
    for share in list(names.running):
        names.shares.slow(share)
    assert len(names.running) < MOST_LOOKUPS, "more began, as these took long"
    assert names.ask("known.example")
    while names.running:
        names.hang()
        names.end(names.running[0], LookupEnding.UNANSWERED)
    assert sum(names.fits(host) for host in hanging) == MOST_LOOKUPS / 5
    assert names.ask("new.example")


def test_500_zones_that_hang_leave_room_for_new_names() -> None:
    """As soon as they took long, which is long before they are over."""
    names = Names()
    for number in range(500):
        names.fits(f"www.dead-{number}.example")
    names.ask("new.example")
    for _ in range(3):
        for share in list(names.running):
            names.shares.slow(share)
    assert [share.host for share in names.running][-1] == "new.example"


def test_a_name_that_was_found_shares_no_fate_with_the_rest_of_its_zone() -> None:
    """It is looked up, while others of its zone hang; one that was found and hangs is one of them."""
    names = Names()
    names.find("www.shop.example")
    for number in range(CERTAIN + 1):
        names.fits(f"h{number}.shop.example")
    names.hang()
    assert names.ask("www.shop.example")
    names.hang()
    with pytest.raises(ZoneSilent):
        names.ask("www.shop.example")


def test_controls_are_found_names_of_zones_that_are_well() -> None:
    """One of each zone, in turn."""
    names = Names()
    names.find(*(f"{host}.{zone}.example" for zone in "abcdef" for host in ("x", "y")))
    names.ask("z.a.example")
    names.hang()
    seen = [{zone_of(host) for host in names.shares.controls()} for _ in range(2)]
    assert [len(zones) for zones in seen] == [3, 3]
    assert "a.example" not in set.union(*seen)


def test_all_that_waits_is_looked_up_or_told_in_the_end() -> None:
    """Whatever happens in whatever order, all bounds hold, and no look-up is forgotten."""
    for seed in range(40):
        names, chance = Names(), random.Random(seed)  # noqa: S311  any order will do
        for _ in range(1_000):
            if chance.random() < 0.6:
                names.fits(f"h{chance.randrange(300)}.zone-{chance.randrange(chance.choice((3, 300)))}.example")
            elif names.running:
                happen(names, chance)
            assert len(names.running) <= MOST_LOOKUPS
        while names.running:
            names.end(names.running[0], chance.choice(list(LookupEnding)))
        assert not [zone for zone in names.shares._zones.values() if zone.waiting or zone.running]
        assert (names.shares._running, names.shares._at_work, names.shares._of_silent) == (0, 0, 0)


def happen(names: Names, chance: random.Random) -> None:
    """Let something happen to one of the look-ups that go on."""
    share = chance.choice(names.running)
    happening = chance.random()
    if happening < 0.2:
        names.shares.slow(share)
    elif happening < 0.4:
        names.shares.overdue(share)
    else:
        names.end(share, chance.choice(list(LookupEnding)))
