"""A project of somebody else's, in an environment of its own, to which Weir is added by the five steps of its page.

`mysite` is the project as it was before; `added` is what its team writes afterwards. Nothing of this checkout's is on
its path. What Weir stands on is installed before it, in the versions of constraints.txt: so pip needs no index, and
`pip install django-weir` finds the wheel that was built.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from typing import Any

from honcho.environ import parse_procfile

from project.checkout import CHECKOUT
from tests.acceptance.docs import pages
from tests.acceptance.docs.newcomer import Newcomer
from tests.acceptance.docs.pages import Block
from tests.waiting import comes_true

HERE = Path(__file__).parent
PAGE = "docs/add-to-your-project.md"
STEP = re.compile(r"^## ([1-9])\. ", re.MULTILINE)
FOR_OTHERS = re.compile(r"<details>.*?</details>", re.DOTALL)  # this project has a Celery app
BESIDE = (
    "ratelimit==2.2.1",
    "django-notifications-hq==1.8.3",
)  # PyPI's, whose packages are `ratelimit` and `notifications`
# The fake sites are on the loopback device, which is refused otherwise.
SITES_ARE_HERE = '\nWEIR_FETCH_ALLOW_NETS = ["127.1.0.0/16"]\n'
UV = (sys.executable, "-m", "uv", "--quiet")


def steps() -> dict[int, list[Block]]:
    """Return the blocks of each step of the page, but for what those do who have no Celery app."""
    text = (CHECKOUT / PAGE).read_text(encoding="utf-8")
    text = FOR_OTHERS.sub(lambda found: "\n" * found[0].count("\n"), text)
    begins = [found.start() for found in STEP.finditer(text)]
    ends = [*begins[1:], text.index("\n## ", begins[-1])]
    lines = [text.count("\n", 0, end) for end in ends]
    found: dict[int, list[Block]] = {number: [] for number in range(1, len(begins) + 1)}
    for block in pages.blocks(PAGE, text[: ends[-1]]):
        found[sum(line < block.line for line in lines) + 1].append(block)
    return found


def taking_out() -> str:
    """Return what the page says to type to take Weir out of the database."""
    text = (CHECKOUT / PAGE).read_text(encoding="utf-8")
    _, _, rest = text.partition("\n## Take it out\n")
    [block] = pages.blocks(PAGE, rest.partition("\n## ")[0])
    [command] = pages.commands(block)
    return command.typed


def make_environment(folder: Path, wheel: Path) -> None:
    """Make a virtual environment with what the wheel stands on, and the distributions with its rooms' names."""
    subprocess.run([*UV, "venv", "--seed", "--python", sys.executable, folder], check=True)
    packages: list[str | Path] = [*BESIDE, *_requirements(wheel), "-c", CHECKOUT / "constraints.txt"]
    subprocess.run([*UV, "pip", "install", "--python", folder / "bin" / "python", *packages], check=True)


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(files.read(name).decode())
    return [one for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one]


@dataclass(kw_only=True)
class Host:
    """The project, whose team types into `terminal`."""

    terminal: Newcomer
    port: int

    @property
    def folder(self) -> Path:
        return self.terminal.folder

    def type(self, command: str) -> str:
        """Type a command that must end well; return what it shows."""
        outcome = self.terminal.type(command)
        assert outcome.status == 0, f"{command}\n{outcome.output}"
        return outcome.output

    def looks_well(self, command: str, seconds: float) -> None:
        """Type a command that only looks again, until it ends well."""
        shown = ""

        def is_well() -> bool:
            nonlocal shown
            outcome = self.terminal.type(command)
            shown = outcome.output
            return outcome.status == 0

        assert comes_true(is_well, seconds), shown

    def follow(self, block: Block) -> list[str]:
        """Do what a block is for; return what the commands in it show."""
        if block.how == "file":
            file = self.folder / block.file
            assert block.is_added, f"{block.name}: this project has that file, {block.file}"
            file.write_text(f"{file.read_text()}\n{block.text}")
            return []
        assert block.how in {"sh", "console"}, f"{block.name}: what is that for?"
        return [self.type(command.typed) for command in pages.commands(block)]

    def write_what_uses_weir(self) -> None:
        """Let the team write its view, its task, its e-mail and its tests."""
        shutil.copytree(HERE / "added", self.folder, dirs_exist_ok=True)
        settings = self.folder / "mysite" / "settings.py"
        settings.write_text(settings.read_text() + SITES_ARE_HERE)

    def start(self, procfile: str) -> None:
        """Start the lines of a Procfile, and do not wait for what they start."""
        for command in parse_procfile(procfile).processes.values():
            self.terminal.start(command, "")

    def serve(self) -> None:
        """Start the web process, and wait until it answers."""
        command = f"python manage.py runserver --noreload {self.port}"
        outcome = self.terminal.start(command, "Quit the server")
        assert outcome.status == 0, outcome.output

    def ask(self, path: str, **sent: str) -> tuple[int, Any]:
        """Ask the web process, by POST where anything is sent; return the status, and what is in the JSON."""
        data = urllib.parse.urlencode(sent).encode() if sent else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310 -- it is HTTP
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, None

    def shown(self) -> str:
        """Return the last lines of all that runs, for people to read when something is wrong."""
        running = self.terminal.terminals
        return "\n".join(f"$ {command}\n{self.terminal.shown(command)[-3000:]}" for command in running)


def make(folder: Path, environment: Path, port: int, variables: dict[str, str]) -> Host:
    """Make the project in a folder that is not there yet, as it was before Weir."""
    shutil.copytree(HERE / "mysite", folder)
    notes = folder.with_name("notes")
    notes.mkdir()
    terminal = Newcomer(folder=folder, notes=notes, extra=variables)
    terminal.open_terminal(f"source {shlex.quote(str(environment / 'bin' / 'activate'))}")
    return Host(terminal=terminal, port=port)
