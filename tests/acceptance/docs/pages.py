"""The code blocks of the pages, and what a reader does with each.

- A block below a paragraph that ends with "in `FILE`:" is that file. "At the end of `FILE`:" adds to it.
- `sh` and `console` are typed into a terminal; a `console` block says with `$` what is typed, and what is seen.
- A block below "in the terminal of `make up`:" is what that command shows some time.
- Any other `python` is typed into `python manage.py shell`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from project.checkout import CHECKOUT

FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r"(?<![\w`])(in|at the end of) `([\w./-]+)`:$", re.IGNORECASE)
SEEN = re.compile(r"in the terminal of `([^`]+)`:$")
PROMPT, CONTINUED = "$ ", "> "


@dataclass(frozen=True, kw_only=True)
class Block:
    """A code block; `line` is the number of its first line in the page."""

    page: str
    line: int
    language: str
    text: str
    caption: str  # the paragraph before it, in one line

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first(self) -> str:
        """The first line, by which a list names the block."""
        return self.text.partition("\n")[0]

    @property
    def file(self) -> str:
        """The file that it is, or that it adds to; empty if it is none."""
        found = CAPTION.search(self.caption)
        return found[2] if found else ""

    @property
    def is_added(self) -> bool:
        """Whether it is added to the end of the file."""
        found = CAPTION.search(self.caption)
        return found is not None and found[1].lower() != "in"

    @property
    def shown_by(self) -> str:
        """The command in whose terminal the block can be seen; empty if it is none."""
        found = SEEN.search(self.caption)
        return found[1] if found else ""

    @property
    def how(self) -> str:
        """What a reader does with it: `file`, `seen`, `sh`, `console`, `shell` (Django's), or only `read` it."""
        if self.file:
            return "file"
        if self.shown_by:
            return "seen"
        return {"sh": "sh", "console": "console", "python": "shell"}.get(self.language, "read")


@dataclass(frozen=True, kw_only=True)
class Command:
    """What is typed, and what is seen then; None where the page does not say."""

    line: int
    typed: str
    seen: str | None


def blocks(page: str, text: str | None = None) -> list[Block]:
    """Return the code blocks of a page, but for those that Sphinx fills."""
    text = (CHECKOUT / page).read_text(encoding="utf-8") if text is None else text
    return [
        Block(
            page=page,
            line=text.count("\n", 0, found.start(2)) + 1,
            language=found[1],
            text=found[2],
            caption=" ".join(text[: found.start()].rstrip("\n").rpartition("\n\n")[2].split()),
        )
        for found in FENCE.finditer(text)
        if not found[1].startswith("{")
    ]


def commands(block: Block) -> Iterator[Command]:
    """Yield what is typed in a block for a terminal; a command goes on where its line ends with a backslash."""
    if block.language == "console":
        yield from _with_output(block)
        return
    typed: list[str] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        typed.append(line)
        if not line.endswith("\\") and "".join(typed).strip():
            yield Command(line=number - len(typed) + 1, typed="\n".join(typed), seen=None)
            typed = []


def _with_output(block: Block) -> Iterator[Command]:
    typed: list[str] = []
    seen: list[str] = []
    began = block.line
    for number, line in enumerate([*block.text.splitlines(), PROMPT], block.line):
        if line.startswith(PROMPT):
            if typed:
                yield Command(line=began, typed="\n".join(typed), seen="\n".join(seen) or None)
            elif seen:
                raise ValueError(f"{block.name} shows output before a line that begins with {PROMPT!r}.")
            began, typed, seen = number, [line.removeprefix(PROMPT)], []
        elif line.startswith(CONTINUED) and typed and typed[-1].endswith("\\"):
            typed.append(line.removeprefix(CONTINUED))
        else:
            seen.append(line)


def all_pages() -> list[str]:
    """Return the pages whose blocks are run, in the order in which a reader comes to them."""
    index = (CHECKOUT / "docs" / "index.md").read_text(encoding="utf-8")
    how_to = re.findall(r"^(how-to/\S+)$", index, re.MULTILINE)
    pages = ["README.md", "docs/quickstart.md", "docs/tutorial.md", *(f"docs/{name}.md" for name in how_to)]
    return [page for page in pages if (CHECKOUT / page).exists()]
