"""Makes the chapters of the settings reference, and .env.example, from the declarations of settings and variables.

`python -m project.environment.reference` writes both files; a test fails if they differ from the declarations.
"""

import inspect
import re
import textwrap

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from project.checkout import CHECKOUT
from project.environment.variables import GROUPS, OWN
from weir.conf import declared
from weir.conf.groups import SettingsGroup
from weir.conf.kinds import Shown, Unit

PAGE = CHECKOUT / "docs" / "reference" / "settings.md"
EXAMPLE = CHECKOUT / ".env.example"
BEGIN = (
    "<!-- From here on made by `python -m project.environment.reference`: change weir/conf/declared.py or "
    "project/environment/variables.py. -->"
)
END = "<!-- Made until here. -->"
EXAMPLE_HEAD = """\
Every variable that Weir reads, with its default. Copy this file to .env and take the # off the lines that you
change; variables of the real environment win over .env. An empty variable means its default. Times are in seconds;
90s, 10m, 2h and 1d may be written, too. Put a value with blanks, #, $ or " in single quotes, and write \\' for a '.
Made by `python -m project.environment.reference`.
"""
_WIDTH = 120
_NO_BREAK = "\N{NO-BREAK SPACE}"  # stands for a blank in code until the lines are filled


def page(text: str) -> str:
    """Return the page with new chapters between BEGIN and END; the text before and after them stays."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{chapters()}\n{END}{after}"


def chapters() -> str:
    """Return a chapter for each group: its title, its description and a table of its variables, in Markdown."""
    groups: tuple[type[SettingsGroup], ...] = (*declared.GROUPS, declared.OnlySettings, *OWN)
    return "\n".join(f"## {group.title}\n\n{_description(group)}\n{_table(group)}" for group in groups)


def example() -> str:
    """Return .env.example: each variable, commented out, with its meaning above it and its default."""
    head = textwrap.indent(EXAMPLE_HEAD, "# ")
    return "\n".join([head, *map(_example_of, GROUPS)])


def written(field: FieldInfo) -> str:
    """Return the default of a variable, as .env would write it."""
    match field.default:
        case bool(value):
            return str(value).lower()
        case list(value):
            return ",".join(value)
        case () | {}:
            return ""
        case SecretStr() as value:
            return value.get_secret_value()
        case value:
            return str(value)


def _description(group: type[SettingsGroup]) -> str:
    return f"{inspect.cleandoc(group.__doc__ or '')}\n"


def _table(group: type[SettingsGroup]) -> str:
    rows = [f"| `{name}` | {_default(field)} | {field.description} |\n" for name, field in _fields(group)]
    return "".join(["| Name | Default | Meaning |\n|---|---|---|\n", *rows])


def _fields(group: type[SettingsGroup]) -> list[tuple[str, FieldInfo]]:
    return [*group.model_fields.items()]


def _default(field: FieldInfo) -> str:
    for mark in field.metadata:
        if isinstance(mark, Shown):
            return mark.words
    text = written(field)
    units = [f" {mark.name}" for mark in field.metadata if isinstance(mark, Unit)]
    return f"`{text}`{''.join(units)}" if text else "none"


def _example_of(group: type[SettingsGroup]) -> str:
    head = f"# --- {group.title} ".ljust(_WIDTH - 2, "-")
    lines = [f"{_comment(field)}\n#{name}={written(field)}\n" for name, field in _fields(group)]
    return f"{head}\n{''.join(lines)}"


def _comment(field: FieldInfo) -> str:
    text = f"{field.description}{_empty(field)}"
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    unbroken = re.sub(r"`([^`]*)`", lambda code: code[1].replace(" ", _NO_BREAK), plain)
    filled = textwrap.fill(unbroken, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return filled.replace(_NO_BREAK, " ")


def _empty(field: FieldInfo) -> str:
    marks = [] if written(field) else field.metadata
    return "".join(f" Empty: {mark.words}." for mark in marks if isinstance(mark, Shown))


def main() -> None:
    """Write both files."""
    PAGE.write_text(page(PAGE.read_text()))
    EXAMPLE.write_text(example())


if __name__ == "__main__":
    main()
