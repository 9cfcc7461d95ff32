"""The distribution `django-weir` has one import name, `weir`, and nothing in it can be imported by another."""

import importlib
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from project.checkout import CHECKOUT
from tests import wheels
from tests.cases import for_each

WEIR = CHECKOUT / "weir"
ROOMS = sorted(path.name for path in WEIR.iterdir() if (path / "__init__.py").is_file())
LINKED = [room for room in ROOMS if (WEIR / room).is_symlink()]
HOST = CHECKOUT / "tests" / "acceptance" / "host"
FOREIGN = {HOST / "added", HOST / "mysite"}  # a project with apps of its own that have such names
EXAMPLE = "weir/workers/orders/"  # an app of the project's, as a reader would write one
# Salts: what was signed with one is believed for as long as it stays the same.
SALTS = {"notifications/web/polls.py": "notifications.web", "workers/mail/renderings.py": "workers.mail"}
ANY = "|".join(ROOMS)
# Of a statement, a program in a string, or an example on a page.
IMPORTS = re.compile(
    rf"(?:\b|(?<=\\n))from +(?:{ANY})(?:\.\w+)* +import\b|(?:^|[\"';>]|\\n) *import +(?:{ANY})\b", re.MULTILINE
)
QUOTED = re.compile(rf"(?:[\"'`]|django://|^#?[A-Z_]+=)(({ANY})\.(\w+))", re.MULTILINE)
# An app of which the room is the package; and `python -m` with a module of one.
ENTRIES = re.compile(rf"INSTALLED_APPS\b[^\])]*?[\"']({ANY})[\"']|(?<![\w-])-m +({ANY})\b(?!/)")


def of_the_library() -> Iterator[str]:
    """Yield the files below `weir`, by the paths that links give them."""
    for name in wheels.tracked():
        path = f"weir/{name}" if name.partition("/")[0] in LINKED else name
        if path.startswith("weir/") and not (CHECKOUT / name).is_symlink() and not path.startswith(EXAMPLE):
            yield path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The distribution, built once."""
    return zipfile.ZipFile(wheels.build(tmp_path_factory.mktemp("wheel")))


def test_the_wheel_has_the_library_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """Each module, statement, script, template and static file; of the project, the demo and the example, none."""
    names = {name for name in wheel.namelist() if not name.startswith("django_weir-")}
    assert names == set(of_the_library())
    assert {name.partition("/")[0] for name in names} == {"weir"}
    assert {".py", ".sql", ".lua", ".html", ".js", ".css", ".svg"} <= {Path(name).suffix for name in names}


def test_the_wheel_has_the_name_of_the_distribution(wheel: zipfile.ZipFile) -> None:
    """`weir` is a stranger's on PyPI."""
    [metadata] = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    assert "\nName: django-weir\n" in wheel.read(metadata).decode()


def test_links_give_the_rooms_at_the_top_their_names() -> None:
    """Relative ones, so that a checkout may be cloned and moved."""
    assert LINKED
    assert {room: str((WEIR / room).readlink()) for room in LINKED} == {room: f"../{room}" for room in LINKED}


@for_each("name", [*LINKED, *(f"{room}.models" for room in LINKED)])
def test_a_room_cannot_be_imported_without_weir_before_its_name(name: str) -> None:
    """A module with two names would have two of each class, and of each registry."""
    room = name.partition(".")[0]
    with pytest.raises(ImportError, match=rf"^This is weir\.{room}: import it by that name\."):
        importlib.import_module(name)
    assert room not in sys.modules


def test_each_file_of_a_room_that_is_imported_has_its_one_name() -> None:
    """Whoever imported it: Django, Celery, pytest, a test."""
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    rooms = [(WEIR / room).resolve() for room in ROOMS]
    names = [name for name, file in files.items() if file and {*Path(file).resolve().parents} & {*rooms}]
    assert "weir.ratelimit.models" in names
    assert [name for name in names if not name.startswith("weir.")] == []


def bare_names(text: str) -> Iterator[str]:
    """Yield what imports a room, or names a module of one, without `weir.` before it."""
    yield from (found[0] for pattern in (IMPORTS, ENTRIES) for found in pattern.finditer(text))
    for name, room, part in QUOTED.findall(text):
        if (WEIR / room / part).is_dir() or (WEIR / room / f"{part}.py").is_file():
            yield name


def test_no_text_names_a_room_without_weir_before_it() -> None:
    """Code, settings, paths of patches, examples on pages: what stands somewhere is copied from there."""
    found = {}
    for name in wheels.tracked():
        path = CHECKOUT / name
        if not path.is_symlink() and path != Path(__file__) and not FOREIGN & {*path.parents}:
            text = path.read_text(errors="replace")
            found[name] = [each for each in bare_names(text) if each != SALTS.get(name)]
    assert {name: names for name, names in found.items() if names} == {}


@for_each(
    "text",
    [
        "from ratelimit import slots",
        "x = 1\n    import workers.mail.models",
        r"run('import django\nfrom workers.mail import outbox')",
        'patch("workers.mail.outbox.send_once")',
        "`api.urls` is included",
        "WEIR_MAIL_RELAYS=smtp://host,django://workers.mail.smtp.EmailBackend",
        "#EMAIL_BACKEND=workers.mail.smtp.EmailBackend",
        'INSTALLED_APPS += ["ratelimit"]',
        "INSTALLED_APPS = [\n    'shop',\n    'notifications',\n]",
        "python -m workers.fetches.fetcher",
    ],
)
def test_a_bare_name_is_found(text: str) -> None:
    """In code, in a program in a string, in a path, on a page, in a variable."""
    assert list(bare_names(text))


@for_each(
    "text",
    [
        "from weir.ratelimit import slots",
        "from project.embedded import postgres",
        'INSTALLED_APPS = ["weir.ratelimit"]\nROOMS = ["ratelimit"]',
        "python -m weir.workers",
        '"weir.api.purge" is a task, "weir_ratelimit.Site" a model, "weir_ops.view" a permission',
    ],
)
def test_what_is_no_bare_name(text: str) -> None:
    """Names of tasks, models and permissions begin with the label of an app, which is not the name of a package."""
    assert list(bare_names(text)) == []
