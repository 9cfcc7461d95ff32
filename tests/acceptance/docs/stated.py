"""What a page states of an output, held against what came.

In a `console` block, a line `...` stands for any lines, also none, and `...` within a line for any text of that line.
Everything else is literal, but for blanks at the end of a line. In a `python` block, a comment that begins with a value
states what the expression before it is: `inbox.unread_count(7)  # 1`, or `# 1: as the rows say`.
"""

import ast
import re
from difflib import unified_diff

ANY = "..."
CHECK = """\
def _is_stated(line, value, stated):
    assert value == stated, f"line {line} states {stated!r}, but it is {value!r}"
"""


def differs(stated: str, came: str) -> str:
    """Return the difference for people to read; empty if what came is what the page states."""
    wanted, got = _lines(stated), _lines(came)
    if re.fullmatch("".join(map(_pattern, wanted)), "".join(f"{line}\n" for line in got)):
        return ""
    return "\n".join(unified_diff(wanted, got, "the page", "what came", lineterm=""))


def is_among(stated: str, came: str) -> bool:
    """Tell whether the lines that a page states came in their order, with whatever before, between and behind."""
    lines = iter(_lines(came))
    return all(any(re.fullmatch(_pattern(wanted), f"{line}\n") for line in lines) for wanted in _lines(stated))


def compared(stated: str) -> int:
    """Return how many lines are compared."""
    return sum(line.strip() != ANY for line in _lines(stated))


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def _pattern(line: str) -> str:
    if line.strip() == ANY:
        return r"(?:.*\n)*?"
    return ".*".join(map(re.escape, line.split(ANY))) + r"\n"


def checked(code: str) -> tuple[str, int]:
    """Return the code with a check behind each expression whose value it states, and how many they are."""
    lines = code.splitlines()
    checks: dict[int, str] = {}
    for statement in ast.parse(code).body:
        last = statement.end_lineno or statement.lineno
        stated = _stated(lines[last - 1].encode()[statement.end_col_offset or 0 :].decode())
        if stated is None:
            continue
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value = statement.targets[0].id
        elif isinstance(statement, ast.Expr):
            value = "_"
            lines[statement.lineno - 1] = "_ = " + lines[statement.lineno - 1]
        else:
            continue
        checks[last] = f"_is_stated({last}, {value}, {stated!r})"
    if not checks:
        return code, 0
    for last in sorted(checks, reverse=True):
        lines.insert(last, checks[last])
    return CHECK + "\n".join(lines) + "\n", len(checks)


def _stated(rest: str) -> object | None:
    """Return the value that a comment begins with; None where it begins with words."""
    comment = rest.strip().removeprefix("#").strip()
    if not rest.strip().startswith("#"):
        return None
    ends = [len(comment), *(found.start() for found in re.finditer(r"[:;,]( |$)", comment))]
    for end in sorted(ends, reverse=True):
        try:
            value: object = ast.literal_eval(comment[:end])
        except (ValueError, SyntaxError):
            continue
        return value
    return None
