"""CONTRIBUTING.md names functions and files that exist, and says why a way comes by the same folder twice."""

import re
from operator import attrgetter
from pkgutil import resolve_name

from project.checkout import CHECKOUT
from tests.cases import for_each
from tests.unit.docs.test_glossary import unlinked
from tests.unit.project.test_deployment_files import TOP_LEVEL

PAGE = CHECKOUT / "CONTRIBUTING.md"
TEXT = PAGE.read_text()
MAP = TEXT.partition("\n## The map\n")[2].partition("\n## ")[0]
LISTS = TEXT.partition("\n## Add something\n")[2]
WAYS = dict(re.findall(r"^### (.+)\n((?:(?!### ).*\n?)*)", MAP, re.MULTILINE))
STATION = re.compile(r"`([a-z_.]+):([\w.]+)`")
STEP = re.compile(r"^\d+\. (?:.*\n)(?:^ +.*\n)*", re.MULTILINE)


def again(way: str) -> set[str]:
    """Return the folders that a way leaves and comes by again.

    Of a step's own line, where it goes on; of the lines below it, what is asked there and answers at once.
    """
    seen: set[str] = set()
    twice: set[str] = set()
    here = ""
    for step in STEP.findall(way):
        own, _, below = step.partition("\n   ")
        entered, *_ = [module.rpartition(".")[0] for module, _ in STATION.findall(own)]
        twice |= {entered} & seen - {here}
        asked = {module.rpartition(".")[0] for module, _ in STATION.findall(below)} - {entered}
        twice |= asked & seen
        seen |= {entered} | asked
        here = entered
    return twice


def import_name(path: str) -> str:
    """Return the name of the module whose file, without its suffix, has this path."""
    room = path.partition("/")[0]
    return (f"weir/{path}" if (CHECKOUT / "weir" / room).is_symlink() else path).replace("/", ".")


def is_there(module: str, function: str) -> bool:
    """Tell whether the module can be imported, and has the function or the method."""
    try:
        return callable(attrgetter(function)(resolve_name(module)))
    except (ImportError, AttributeError):
        return False


def test_the_stations_of_the_map_exist() -> None:
    stations = sorted(set(STATION.findall(TEXT)))
    assert len(stations) > 100
    assert [":".join(station) for station in stations if not is_there(*station)] == []


def test_a_file_that_is_named_exists() -> None:
    """Whatever begins like a path of the checkout is one."""
    named = {text for text in re.findall(r"`([^`\s:]+)`", TEXT) if text.partition("/")[0] in TOP_LEVEL}

    assert len(named) > 30
    assert {name for name in named if not (CHECKOUT / name).exists()} == set()


def test_a_file_holds_what_it_is_named_for() -> None:
    """Where the lists name a function or a constant beside its module, it is there."""
    pairs = re.findall(r"`(\S+)\.py`[,:]\s+`(\w+)`(?!\s+in\s)", LISTS)
    pairs += [(path, name) for name, path in re.findall(r"`(\w+)`\s+in\s+`(\S+)\.py`", LISTS)]

    assert len(pairs) > 5
    modules = [(resolve_name(import_name(path)), name) for path, name in pairs]
    assert [f"{module.__name__}: {name}" for module, name in modules if not hasattr(module, name)] == []


def test_what_is_installed_by_hand_is_what_ci_installs() -> None:
    """But Exim, which is unpacked, and the older servers of `make matrix`, in whose place it takes others."""
    of_ci = re.findall(r"^\t([\w-]+):/", (CHECKOUT / ".ci" / "programs").read_text(), re.MULTILINE)
    [by_hand] = re.findall(r"`apt-get install --no-install-recommends (.+)`", TEXT)

    assert by_hand.split() == [package for package in of_ci if package not in {"postgresql-15", "redis-server"}]


@for_each("way", WAYS)
def test_no_stage_is_entered_twice_without_a_reason(way: str) -> None:
    """Each folder that a way comes by again is named below it, with the reason, and no other is."""
    reasons = WAYS[way].partition("\nEntered again:\n")[2].partition("\n\nBeside it:\n")[0]

    assert set(re.findall(r"^- `(\S+)`: ", reasons, re.MULTILINE)) == again(WAYS[way])


def test_a_way_that_comes_by_again_is_noticed() -> None:
    """The check sees a step that comes back, and a line below a step; a folder that answers its own step is no news."""
    assert again("1. `a.b:f` x\n   - `a.c:g` y\n2. `d.e:h` z\n") == set()
    assert again("1. `a.b:f` x\n2. `d.e:h` z\n3. `a.c:g` y\n") == {"a"}
    assert again("1. `a.b:f` x\n   - `k.l:m` y\n2. `d.e:h` z\n   - `k.l:n` w\n") == {"k"}


def test_the_ways_are_there() -> None:
    """A fetch, a watch, a webhook, a notification, an e-mail, an effect, a throttled task, a request to the API."""
    ways = [
        *("A fetch", "A watch", "A webhook", "A notification", "An e-mail", "An effect"),
        *("A throttled task", "A request to the API"),
    ]
    assert list(WAYS) == ways
    assert all(len(STEP.findall(way)) > 4 for way in WAYS.values())


def test_terms_are_linked() -> None:
    """A newcomer finds each term in the glossary from here."""
    assert unlinked(PAGE) == []
