"""A mail server for `manage.py up` that delivers nothing: it stores each e-mail in a file, and prints the file's name.

`python -P mail_catcher.py PORT FOLDER` listens on 127.0.0.1. The name of a file begins with the time, so the last name
is the newest e-mail; a mail program can open the files. The newest `MOST` files are kept. The server accepts an e-mail
only after it has stored the file.
"""

import asyncio
import os
import re
import signal
import sys
import time
from email import message_from_bytes, policy
from itertools import count
from pathlib import Path

from aiosmtpd.smtp import SMTP, Envelope, Session

HOST = "127.0.0.1"
MOST = 1_000
LARGEST = 50 * 2**20  # bytes
SHOWN = 60  # characters of a subject
NAME = re.compile(r"\d{8}-\d{6}-\d{6}-\d{4}\.eml", re.ASCII)


class Folder:
    """The e-mails that were caught."""

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._numbers = count(1)
        self._names = sorted(file.name for file in path.iterdir() if NAME.fullmatch(file.name))

    def add(self, content: bytes) -> Path:
        """Store an e-mail; delete the oldest ones beyond MOST."""
        now = time.time_ns()
        at = time.strftime("%Y%m%d-%H%M%S", time.localtime(now // 10**9))
        name = f"{at}-{now // 1000 % 10**6:06}-{next(self._numbers) % 10**4:04}.eml"
        unfinished = self.path / f".{name}"
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        unfinished.rename(self.path / name)
        self._names.append(name)
        for old in self._names[:-MOST]:
            (self.path / old).unlink(missing_ok=True)
        del self._names[:-MOST]
        return self.path / name


class Handler:
    """Handles the e-mails of all of the server's connections."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802  aiosmtpd's name
        """Store the e-mail, and print a line about it. If the disk is full, answer 452: the sender tries again."""
        content = envelope.content if isinstance(envelope.content, bytes) else (envelope.content or "").encode()
        try:
            file = self._folder.add(content)
        except OSError as error:
            print(f"An e-mail could not be stored: {error}", flush=True)  # noqa: T201  the program's output
            return "452 4.3.1 It could not be stored"
        print(line(envelope.rcpt_tos, content, file), flush=True)  # noqa: T201  as above
        return "250 OK"


def line(recipients: list[str], content: bytes, file: Path) -> str:
    """Return the line about an e-mail: its recipients, its subject, and its file."""
    here = Path.cwd()
    shown = file.relative_to(here) if file.is_relative_to(here) else file
    return f"to {_printable(', '.join(recipients))}: {_printable(_subject(content))!r}, {shown}"


def _subject(content: bytes) -> str:
    try:
        subject = str(message_from_bytes(content, policy=policy.default).get("Subject", ""))
    except Exception:  # noqa: BLE001  whatever the parser makes of it, the e-mail is stored
        return "(its subject cannot be read)"
    return subject if len(subject) <= SHOWN else f"{subject[:SHOWN]}..."


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


async def serve(port: int, folder: Path) -> None:
    """Serve until SIGTERM."""
    handler, loop, ends = Handler(Folder(folder)), asyncio.get_running_loop(), asyncio.Event()

    def connected() -> SMTP:
        # Without `hostname`, aiosmtpd would look up the name of this host, which may take long.
        return SMTP(handler, hostname="localhost", data_size_limit=LARGEST, enable_SMTPUTF8=True, loop=loop)

    loop.add_signal_handler(signal.SIGTERM, ends.set)
    server = await loop.create_server(connected, HOST, port)
    await ends.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
