"""A fake mail server: it accepts e-mails, or misbehaves as the recipient's address says, and lists what it accepted.

The list has one JSON object a line, each written before the client gets the reply. The first word of the address says
how the server treats the e-mail, as in `late-300.17@example.com`:

| word | what happens |
|---|---|
| (any other) | it is accepted |
| `late-MS` | it is accepted, and the reply is sent MS milliseconds later |
| `cut-before-dot` | the first time, the connection is cut before the content is received; later it is accepted |
| `cut-unaccepted` | it is discarded after the final dot, and the connection is cut without a reply |
| `cut-accepted` | it is accepted, and the connection is cut without a reply |
| `cut-after-reply` | it is accepted, and the connection is cut after the reply |
| `closing` | the first time, its recipient is answered with 421 and the connection is cut; later it is accepted |
| `greylist-N` | the first N times, its recipient is answered with 451; later it is accepted |
| `refuse` | its recipient is answered with 550 |
| `refuse-content` | it is answered with 554 after the final dot |
| `stall-MS` | its recipient is answered MS milliseconds later, and it is accepted |

The sender's address can make the server refuse all e-mails: `says-550-5-4-5@example.com` is answered with 550 5.4.5.
So can the command line: with `--refuses "452 4.3.1 The disk is full"`, that is the answer to every sender. With
`--keeps`, the list has the contents of what was accepted.
"""

import argparse
import asyncio
import json
import logging
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session

from demo.fakes.children import child, die_with_parent
from demo.fakes.files import Entries, write_whole

HOST = "127.0.0.1"
MESSAGE_ID = re.compile(rb"^Message-ID:\s*(\S+)", re.MULTILINE | re.IGNORECASE)
REFUSED_SENDER = re.compile(r"says-(\d{3})-(\d-\d+-\d+)@")
ACCEPTED = "accepted"


class Record:
    """The list, as the server writes it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def add(self, event: str, recipient: str, message_id: str = "", content: str = "") -> None:
        entry = {"at_ns": time.time_ns(), "event": event, "recipient": recipient, "message_id": message_id}
        self._file.write(json.dumps(entry | ({"content": content} if content else {})) + "\n")


class Handler:
    """How the server treats e-mails, on all of its connections."""

    def __init__(self, record: Record, refuses: str = "", *, keeps: bool = False) -> None:
        self.record = record
        self.keeps = keeps  # the contents
        self.refuses = refuses  # the answer to every sender
        self.seen: Counter[str] = Counter()  # how often each recipient was named

    async def handle_MAIL(  # noqa: N802  aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, sender: str, options: list[str]
    ) -> str:
        """Record that an e-mail begins, and accept the sender, or answer it as its address says."""
        self.record.add("began", "")
        if self.refuses:
            return self._refused(self.refuses, "")
        if refusal := REFUSED_SENDER.match(sender):
            return self._refused(f"{refusal[1]} {refusal[2].replace('-', '.')} So says the sender's address", "")
        envelope.mail_from = sender
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(  # noqa: N802  aiosmtpd's name
        self, server: SMTP, _session: Session, envelope: Envelope, recipient: str, _options: list[str]
    ) -> str:
        """Answer the recipient as its address says."""
        word, number = behaviour(recipient)
        self.seen[recipient] += 1
        if word == "stall":
            await asyncio.sleep(number / 1000)
        if word == "refuse":
            return self._refused("550 5.1.1 There is no such recipient", recipient)
        if word == "greylist" and self.seen[recipient] <= number:
            return self._refused("451 4.7.1 Come back later", recipient)
        if word == "closing" and self.seen[recipient] == 1:
            await server.push(self._refused("421 4.3.2 The service is closing", recipient))
            _cut(server)
        envelope.rcpt_tos.append(recipient)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802  aiosmtpd's name
        """Answer the e-mail, whose final dot has come, as its address says."""
        (recipient,) = envelope.rcpt_tos
        word, number = behaviour(recipient)
        message_id = _message_id(envelope)
        if word == "refuse-content":
            return self._refused("554 5.6.0 The content is refused", recipient, message_id)
        if word == "cut-unaccepted":
            self.record.add("cut", recipient, message_id)
            _cut(server)
        self.record.add(ACCEPTED, recipient, message_id, _content(envelope) if self.keeps else "")
        if word == "late":
            await asyncio.sleep(number / 1000)
        if word.startswith("cut-a"):
            self.record.add("cut", recipient, message_id)
            if word == "cut-after-reply":
                await server.push("250 OK, and farewell")
            _cut(server)
        return "250 OK"

    def _refused(self, reply: str, recipient: str, message_id: str = "") -> str:
        self.record.add(f"refused {reply[:3]}", recipient, message_id)
        return reply


class Server(SMTP):
    """aiosmtpd's protocol, one instance a connection."""

    event_handler: Handler

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802  aiosmtpd's name
        """Receive the content, or cut the connection before it."""
        recipients = self.envelope.rcpt_tos if self.envelope else []
        if (
            recipients
            and behaviour(recipients[0])[0] == "cut-before-dot"
            and self.event_handler.seen[recipients[0]] == 1
        ):
            self.event_handler.record.add("cut before dot", recipients[0])
            await self.push("354 Go ahead")
            _cut(self)
        await super().smtp_DATA(arg)


def behaviour(recipient: str) -> tuple[str, int]:
    """Return the first word of the address, without its number, and the number."""
    word, _, number = recipient.partition("@")[0].partition(".")[0].rpartition("-")
    return (word, int(number)) if number.isdecimal() else (f"{word}-{number}" if word else number, 0)


def _cut(server: SMTP) -> None:
    """End the connection, and the coroutine that serves it."""
    if isinstance(server.transport, asyncio.WriteTransport):
        server.transport.abort()
    raise asyncio.CancelledError


def _content(envelope: Envelope) -> str:
    content: Any = envelope.content
    return bytes(content).decode(errors="replace")


def _message_id(envelope: Envelope) -> str:
    content: Any = envelope.content
    found = MESSAGE_ID.search(content)
    return found[1].decode() if found else ""


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    handler = Handler(Record(arguments.record), arguments.refuses, keeps=arguments.keeps)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for stop_signal in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop_signal, stop.set)
    server = await loop.create_server(
        lambda: Server(handler, hostname="mail.example", loop=loop), HOST, arguments.port, backlog=1_000
    )
    write_whole(arguments.ready, {"port": server.sockets[0].getsockname()[1], "pid": os.getpid()})
    await stop.wait()
    os._exit(0)  # the connections end with the process


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description="Accept e-mails, or misbehave as their recipients' addresses say.")
    parser.add_argument("--record", type=Path, required=True, help="the list of events; it is appended to")
    parser.add_argument("--ready", type=Path, required=True, help="JSON file, written when the server listens")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--refuses", default="", help="the answer to every sender")
    parser.add_argument("--keeps", action="store_true", help="list the contents, too")
    arguments = parser.parse_args()
    die_with_parent()
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)  # a cut connection is not an error here
    asyncio.run(serve(arguments))


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of the list."""

    at_ns: int
    event: str
    recipient: str
    message_id: str
    content: str = ""


@dataclass(frozen=True, kw_only=True)
class MailServer:
    """A mail server that is running."""

    port: int
    pid: int
    record: Path

    @cached_property
    def _entries(self) -> Entries[Event]:
        return Entries(self.record, Event)

    def events(self) -> list[Event]:
        """Return all events so far."""
        return self._entries.all()

    def events_since(self, start_offset: int) -> tuple[list[Event], int]:
        """Return the events that follow an offset in the list, and the offset to continue from.

        A last line that is only half written is left for the next call.
        """
        return self._entries.since(start_offset)

    def received(self) -> Counter[str]:
        """Return how often each Message-ID was accepted."""
        return Counter(event.message_id for event in self.events() if event.event == ACCEPTED)


@contextmanager
def running(folder: Path, port: int = 0, refuses: str = "", *, keeps: bool = False) -> Iterator[MailServer]:
    """Run a mail server in a process of its own, which keeps its list in `folder`; end it on leaving.

    `port` 0 picks a free one. `refuses` is its answer to every sender; if it `keeps` contents, its events have them.
    RuntimeError if the process does not start, or ends with an error.
    """
    record, ready = folder.absolute() / "mail.jsonl", folder.absolute() / "mail.json"
    words = ["--record", str(record), "--ready", str(ready), "--port", str(port), "--refuses", refuses]
    words += ["--keeps"] if keeps else []
    with child("fake mail server", "demo.fakes.mail_server", words, ready) as state:
        yield MailServer(port=state["port"], pid=state["pid"], record=record)


if __name__ == "__main__":
    main()
