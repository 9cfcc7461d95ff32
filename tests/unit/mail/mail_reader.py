"""An e-mail as a mail program reads it, by the RFCs alone: neither Weir's code nor Python's e-mail package takes part.

It is strict where a lenient program might read something else: a bare line break, or what looks like an encoded word
and is none, is an error.
"""

import base64
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

WORD = re.compile(r"=\?utf-8\?([bq])\?([^? ]*)\?=", re.IGNORECASE)
LOOKS_ENCODED = re.compile(r"=\?[^?]*\?.*\?=")
STRING = r'"(?:[^"\\]|\\.)*"'


@dataclass(frozen=True, kw_only=True)
class Read:
    """Headers, each on one line and not decoded, and what stands below them."""

    headers: list[tuple[str, str]]
    body: bytes

    def get(self, name: str) -> str:
        (found,) = [value for each, value in self.headers if each.lower() == name.lower()]
        return found


def read(content: bytes) -> Read:
    """Take headers and body apart (RFC 5322, 2.1 and 2.2)."""
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", content)
    assert b"\x00" not in content
    head, _, body = content.partition(b"\r\n\r\n")
    lines: list[str] = []
    for line in head.decode().split("\r\n"):
        assert len(line.encode()) <= 998
        if line.startswith((" ", "\t")):
            assert line.strip()
            assert len(line) <= 76 or not WORD.search(line)
            lines[-1] += line
        else:
            lines.append(line)
    pairs = [line.split(":", 1) for line in lines]
    return Read(headers=[(name, value.strip(" ")) for name, value in pairs], body=body)


def text(value: str) -> str:
    """Decode a header of text (RFC 2047, 6.2)."""
    said, was_word = "", False
    for blanks, token in re.findall(r"( *)([^ ]+)", value):
        found = WORD.fullmatch(token)
        assert found or not LOOKS_ENCODED.search(token), token
        said += ("" if found and was_word else blanks) + (_word(found) if found else token)
        was_word = bool(found)
    return said


def _word(found: re.Match[str]) -> str:
    assert len(found[0]) <= 75
    if found[1].lower() == "b":
        return base64.b64decode(found[2], validate=True).decode()
    return unquote_to_bytes(found[2].replace("%", "%25").replace("_", " ").replace("=", "%")).decode()


def mailboxes(value: str) -> list[tuple[str, str]]:
    """Return names and addresses of a list (RFC 5322, 3.4)."""
    return [_mailbox(each.strip()) for each in re.findall(rf"(?:{STRING}|[^,\"])+", value)]


def _mailbox(value: str) -> tuple[str, str]:
    named = re.fullmatch(rf"(?:({STRING})|([^\"<>]*[^\"<> ])) <([^<> ]+)>", value)
    if not named:
        assert not re.search(r"[<> ]", value)
        return "", value
    quoted, phrase, address = named.groups()
    if quoted:
        assert not LOOKS_ENCODED.search(quoted)  # some programs decode there, too
        return re.sub(r"\\(.)", r"\1", quoted[1:-1]), address
    for word in phrase.split():
        assert re.fullmatch(r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+", word)  # an atom
        if word.startswith("=?"):
            assert re.fullmatch(r"=\?utf-8\?(b\?[A-Za-z0-9+/=]*|q\?[A-Za-z0-9!*+\-/=_]*)\?=", word)  # RFC 2047, 5 (3)
    return text(phrase), address


def value_and_parameters(value: str) -> tuple[str, dict[str, str]]:
    """Return the value of a MIME header and its parameters, put together and decoded (RFC 2045, RFC 2231)."""
    first, *others = re.findall(rf"(?:{STRING}|[^;\"])+", value)
    plain: dict[str, str] = {}
    pieces: dict[str, dict[int, str]] = {}
    for each in others:
        name, _, said = each.strip().partition("=")
        assert not LOOKS_ENCODED.search(said)
        if name.endswith("*"):
            base, _, number = name.removesuffix("*").partition("*")
            pieces.setdefault(base, {})[int(number or 0)] = said
        else:
            plain[name] = re.sub(r"\\(.)", r"\1", said[1:-1]) if said.startswith('"') else said
    for name, parts in pieces.items():
        assert sorted(parts) == list(range(len(parts)))
        charset, _, encoded = "".join(parts[number] for number in sorted(parts)).split("'", 2)
        assert charset == "utf-8"
        assert re.fullmatch(r"(?:%[0-9A-F]{2}|[A-Za-z0-9._~-])*", encoded)
        plain[name] = unquote_to_bytes(encoded).decode()
    return first.strip(), plain


def leaves(content: bytes) -> Iterator[tuple[Read, bytes]]:
    """Yield the parts that hold content, each with its bytes (RFC 2046, 5.1)."""
    whole = read(content)
    kind, given = value_and_parameters(whole.get("Content-Type"))
    if not kind.startswith("multipart/"):
        yield whole, _decoded(whole)
        return
    _, *parts = re.split(rb"(?:^|\r\n)--" + re.escape(given["boundary"].encode()) + rb"(?:--)? *(?=\r\n|$)", whole.body)
    for part in parts[:-1]:
        yield from leaves(part.removeprefix(b"\r\n"))


def _decoded(part: Read) -> bytes:
    encoding = part.get("Content-Transfer-Encoding").lower()
    if encoding == "base64":
        return base64.b64decode(part.body.replace(b"\r\n", b""), validate=True)
    return quopri.decodestring(part.body) if encoding == "quoted-printable" else part.body
