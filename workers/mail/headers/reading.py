"""Reads headers for a person or an API: unfolds and decodes them, and then checks the result.

The result is checked because a header that an older release stored may decode to a text with a line break, which an API
might write into a header.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from weir.workers.mail.headers import words
from weir.workers.mail.headers.texts import refuse_controls

_QUOTED = r'"(?:[^"\\]|\\.)*"?'  # without a closing quote, the rest of the text, which is then read only once
_TOKEN = re.compile(rf'(?P<quoted>{_QUOTED})|<(?P<address>[^<>]*)>|(?P<comma>,)|(?P<word>[^\s,<"]+|.)')
_PARAMETER = re.compile(rf';\s*(?P<name>[^\s=;"]+)\s*=\s*(?P<value>{_QUOTED}|[^\s;"]*)')
_SECTION = re.compile(r"filename(?:\*(?P<number>\d{1,4}))?(?P<is_encoded>\*)?", re.IGNORECASE)


def text(value: str, where: str) -> str:
    """Return what a header says. Raises CannotBeWritten if the text could end a header."""
    found = shown(value)
    refuse_controls(found, where)
    return found


def shown(value: str) -> str:
    """Return what a header says, for people to look at."""
    return words.decoded(_unfolded(value))


def mailboxes(value: str, where: str) -> list[tuple[str, str]]:
    """Return the names and addresses in a header of addresses. Raises CannotBeWritten as `text` does."""
    found = list(_mailboxes(_unfolded(value)))
    for each in found:
        refuse_controls("".join(each), where)
    return found


def file_name(value: str) -> str:
    """Return the file name in a Content-Disposition (RFC 2183, RFC 2231). Raises CannotBeWritten as `text` does."""
    sections: dict[int, tuple[bool, str]] = {}
    for parameter in _PARAMETER.finditer(_unfolded(value)):
        if section := _SECTION.fullmatch(parameter["name"]):
            said = parameter["value"]
            plain = re.sub(r"\\(.)", r"\1", said[1:-1]) if said.startswith('"') else said
            sections[int(section["number"] or 0)] = bool(section["is_encoded"]), plain
    charset, begin = "", sections.get(0, (False, ""))
    if begin[0] and begin[1].count("'") > 1:  # RFC 2231, 4: charset'language'text
        charset, _, text_of_first = begin[1].split("'", 2)
        sections[0] = True, text_of_first
    content = b"".join(
        unquote_to_bytes(said) if is_encoded else said.encode(errors="replace")
        for _, (is_encoded, said) in sorted(sections.items())
    )
    found = _decoded(content, charset or "utf-8")
    refuse_controls(found, "the name of an attachment")
    return found


def _decoded(content: bytes, charset: str) -> str:
    try:
        return content.decode(charset, "replace")
    except (LookupError, ValueError):
        return content.decode("utf-8", "replace")


def _mailboxes(value: str) -> Iterator[tuple[str, str]]:
    tokens: list[re.Match[str]] = []
    address = ""
    for token in _TOKEN.finditer(f"{value},"):
        if token["comma"]:
            if address or tokens:
                yield (_phrase(tokens), address) if address else ("", "".join(each[0] for each in tokens).strip())
            tokens, address = [], ""
        elif token["address"] is not None:
            address = token["address"].strip()
        else:
            tokens.append(token)


def _phrase(tokens: list[re.Match[str]]) -> str:
    """Return the name that these tokens form. Encoded words are decoded, but not inside quotes (RFC 2047, 5)."""
    said, plain = [], ""
    for token in tokens:
        if token["quoted"]:
            said += [words.decoded(plain.strip()), re.sub(r"\\(.)", r"\1", token["quoted"][1:-1])]
            plain = ""
        else:
            plain += token[0]
    said.append(words.decoded(plain.strip()))
    return " ".join(filter(None, said))


def _unfolded(value: str) -> str:
    """Return a header's text on one line; bytes beyond ASCII are read as UTF-8 (RFC 6532)."""
    line = value.replace("\r", "").replace("\n", "").strip()
    return line if line.isascii() else line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
