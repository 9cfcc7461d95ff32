"""Decides which messages are the same e-mail, so that a task that runs once more queues nothing twice.

A message has the key that its header or the block around it gives it. Without such a key, messages of the same content
to the same recipient are one e-mail if the second comes within WEIR_MAIL_SAME_WITHIN. Its key is then the hash of the
message, and a number that grows by one whenever the last such e-mail is older than that time. Of tasks that queue the
same message at once, all find the same last number. So they try the same key, and the unique constraint lets one of
them queue it.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.message import Message
from itertools import count
from typing import Any, cast

from weir.postgres.texts import storable
from weir.workers.mail.addresses import CannotBeWritten

LONGEST_KEY = 60  # characters, with the keys of the blocks around it; the e-mail's key has some more
DIGITS = 8  # of the number after a hash
MOST = 10**DIGITS - 1
_OF_THE_MOMENT = frozenset({"content-id", "date", "message-id"})  # headers that are new whenever a message is written
_BOUNDARY = re.compile(r';\s*boundary=(?:"[^"]*"|[^;\s]*)', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Block:
    path: str
    numbers: Iterator[int] = field(default_factory=lambda: count(1))


_block: ContextVar[_Block | None] = ContextVar("weir_outbox_key", default=None)


@contextmanager
def outbox_key(key: str) -> Iterator[None]:
    """Give the messages that Django sends in this block, through OutboxBackend, keys: KEY:1, KEY:2, in their order.

    A message whose key is known already, for the same kind and recipient, is not queued again, however long ago that
    was. A block in another block has both keys, KEY/INNER:1, and numbers of its own. The header `X-Weir-Key` takes
    precedence. Works in threads and coroutines that copy the context, and as a decorator. Raises ValueError if the key
    is empty, longer than 60 characters (with those around it), or not printable.
    """
    around = _block.get()
    token = _block.set(_Block(checked(f"{around.path}/{key}" if around and key else key)))
    try:
        yield
    finally:
        _block.reset(token)


def checked(key: str) -> str:
    """Return the key. Raises CannotBeWritten if it cannot be one."""
    if 0 < len(key) <= LONGEST_KEY and key.isprintable() and storable(key, LONGEST_KEY) == key:
        return key
    raise CannotBeWritten(f"The key of a message has 1 to {LONGEST_KEY} printable characters, but is {key!r}.")


def of_block() -> str:
    """Return the key of the next message in the innermost block; an empty string outside of blocks."""
    block = _block.get()
    return f"{block.path}:{next(block.numbers)}" if block else ""


def for_recipient(key: str, address: str) -> str:
    """Return the key of the e-mail to one recipient of a message that has this key. It does not show the address."""
    return f"{key}:{hashlib.sha256(f'{key} {address}'.encode()).hexdigest()[:16]}"


def digest(message: Message, sender: str) -> str:
    """Return the SHA-256 of what a message says, without what is new whenever the message is written.

    That is Date, Message-ID, the boundaries of the parts, and the names by which the HTML shows pictures.
    """
    found = hashlib.sha256(f"{sender}\n".encode())
    names = [str(part["Content-ID"]).strip(" <>").encode() for part in message.walk() if part["Content-ID"]]
    for piece in _pieces(message, [name for name in names if name]):
        found.update(piece)
    return found.hexdigest()


def alike(digest: str, address: str) -> str:
    """Return the beginning of the keys of all e-mails with this digest to this recipient."""
    return f"{hashlib.sha256(f'{digest} {address}'.encode()).hexdigest()}-"


def numbered(beginning: str, number: int) -> str:
    """Return the key with this number."""
    return f"{beginning}{number:0{DIGITS}}"


def _pieces(part: Message, names: Sequence[bytes]) -> Iterator[bytes]:
    for name, value in part.raw_items():
        if name.lower() not in _OF_THE_MOMENT:
            yield f"{name.lower()}:{_BOUNDARY.sub('', str(value))}\n".encode("utf-8", "surrogatepass")
    if part.is_multipart():
        yield b"(\n"
        for below in cast("list[Message[Any, Any]]", part.get_payload()):
            yield from _pieces(below, names)
        yield b")\n"
        return
    content = cast("bytes", part.get_payload(decode=True) or b"")
    if names and part.get_content_maintype() == "text":
        for number, shown in enumerate(names):
            content = content.replace(shown, b"picture %d" % number)
    yield b"\n%b\n" % content
