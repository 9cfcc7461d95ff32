"""A fake provider of e-mail, with an HTTP API such as Resend's: in a process of its own (`provider_server`)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from demo.fakes.children import child
from demo.fakes.files import Entries
from demo.fakes.provider_server import ACCEPTED, API_KEY, HOST, KEY_LIFETIME_S


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of the list."""

    at_ns: int
    event: str
    key: str
    id: str
    recipient: str
    message_id: str
    request: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class MailProvider:
    """A provider that is running."""

    port: int
    pid: int
    record: Path

    @property
    def url(self) -> str:
        """The URL that names it in Weir's setting of relays."""
        return f"resend+http://{API_KEY}@{HOST}:{self.port}"

    @cached_property
    def _entries(self) -> Entries[Event]:
        return Entries(self.record, Event)

    def events(self) -> list[Event]:
        """Return all events so far."""
        return self._entries.all()

    def received(self) -> Counter[str]:
        """Return how often an e-mail with each Message-ID was accepted."""
        return Counter(event.message_id for event in self.events() if event.event == ACCEPTED)


@contextmanager
def running(folder: Path, port: int = 0, key_lifetime_s: float = KEY_LIFETIME_S) -> Iterator[MailProvider]:
    """Run a provider in a process of its own, which keeps its list in `folder`; end it on leaving.

    `port` 0 picks a free one. RuntimeError if the process does not start, or ends with an error.
    """
    record, ready = folder.absolute() / "provider.jsonl", folder.absolute() / "provider.json"
    words = ["--record", str(record), "--ready", str(ready), "--port", str(port), "--key-lifetime", str(key_lifetime_s)]
    with child("fake mail provider", "demo.fakes.provider_server", words, ready) as state:
        yield MailProvider(port=state["port"], pid=state["pid"], record=record)
