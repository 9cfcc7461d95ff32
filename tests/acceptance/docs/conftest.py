"""A newcomer, who reads the pages of a module one after the other, and the list of the examples that were run."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pytest

from project import embedded
from project.checkout import CHECKOUT
from tests.acceptance.docs import island, pages
from tests.acceptance.docs.newcomer import Newcomer, clone
from tests.acceptance.docs.reading import Example, Reader
from tests.acceptance.networks import Unavailable
from tests.home import HOME

HOST = re.compile(r"(?<![\w.@-])(?:[a-z]+\.)*example\.(?:com|net|org)\b")


def hosts() -> list[str]:
    """Return the hosts of others that the pages name."""
    texts = [(CHECKOUT / page).read_text(encoding="utf-8") for page in pages.all_pages()]
    return sorted({host for text in texts for host in HOST.findall(text)})


@pytest.fixture(scope="module")
def newcomer(request: pytest.FixtureRequest) -> Iterator[Newcomer]:
    """A newcomer who has cloned Weir, and has it installed, on an island where the pages' hosts are, and no network is.

    For the first pages `make demo` installs it, as README says; who has read them types `make install`.
    """
    if not (CHECKOUT / ".git").exists():
        pytest.skip("Only a git checkout can be cloned.")
    top = Path(tempfile.mkdtemp(prefix="weir-docs-"))
    top.chmod(0o711)  # as root, PostgreSQL runs as another user, who must reach its folder
    checkout, notes = top / "weir", top / "notes"
    notes.mkdir()
    clone(checkout)
    try:
        installing = Newcomer(folder=checkout, notes=notes)
        installing.open_terminal(getattr(request.module, "INSTALLS", "make install"))
        with island.inhabited(hosts(), notes) as made:
            working = Newcomer(
                folder=checkout, notes=notes, enter=made.enter, extra={"SSL_CERT_FILE": str(made.certificate)}
            )
            try:
                yield working
            finally:
                working.stop_all()
    except Unavailable as error:
        pytest.skip(f"No network of its own: {error}")
    finally:
        embedded.discard(checkout / ".weir")
        shutil.rmtree(top)


@pytest.fixture(scope="module")
def servers(newcomer: Newcomer) -> Iterator[ExitStack]:
    """What runs the servers that pages about servers of one's own are read with; they stop at the end."""
    with ExitStack() as running:
        yield running
        newcomer.stop_all()


@pytest.fixture(scope="module")
def examples(request: pytest.FixtureRequest) -> Iterator[list[Example]]:
    """The examples that were run, which are written to a file at the end."""
    run: list[Example] = []
    yield run
    report = HOME / f"examples-of-{request.path.stem}.json"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps([asdict(example) for example in run], indent=1) + "\n")
    print(f"\n{len(run)} examples were run, {sum(example.compared for example in run)} lines compared: {report}")
    for example in run:
        first, *more = example.typed.splitlines()
        print(f"  {example.page}:{example.line} {example.how} ({example.compared}) {first}{' ...' if more else ''}")


@pytest.fixture
def reader(newcomer: Newcomer, servers: ExitStack, examples: list[Example]) -> Reader:
    """Return who reads a page."""
    return Reader(newcomer, servers, examples)
