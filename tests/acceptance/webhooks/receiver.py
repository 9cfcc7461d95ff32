"""A receiver of webhooks, as a process: it verifies each by the package of Standard Webhooks, and appends it to a file.

python -m tests.acceptance.webhooks.receiver ADDRESS PORT SECRET FILE

It says its key in each answer, which no receiver should. A line of the file is `arrival <ns>`, by the kernel's clock,
or `<id> <type> <id of the fetch>`, or `refused`.
"""

import os
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from standardwebhooks import Webhook, WebhookVerificationError

from demo.fakes.children import die_with_parent
from demo.fakes.site_log import Arrival
from tests.acceptance.fetches.recording import Request, reply, serving

REFUSED = "refused"


class Received(NamedTuple):
    """What the file has."""

    arrived_ns: list[int]  # by the kernel
    ids: list[str]  # as often as they came
    fetches: set[int]
    refused: int


class Lines:
    """Appends each line by one call, so that a kill leaves no half of one before another."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def append(self, arrival: Arrival, /) -> None:
        self.write(f"arrival {arrival.at_ns}")

    def write(self, line: str) -> None:
        os.write(self._descriptor, f"{line}\n".encode())


def received(file: Path) -> Received:
    """Return what a receiver has written."""
    lines = [line.split(" ") for line in (file.read_text() if file.exists() else "").splitlines()]
    hooks = [line for line in lines if line[0] not in {"arrival", REFUSED}]
    return Received(
        [int(line[1]) for line in lines if line[0] == "arrival"],
        [line[0] for line in hooks],
        {int(line[2]) for line in hooks},
        sum(line[0] == REFUSED for line in lines),
    )


def main(address: str, port: str, secret: str, file: str) -> None:
    """Receive until the process is ended."""
    lines, webhook = Lines(Path(file)), Webhook(secret)

    def answer(request: Request) -> bytes:
        try:
            said = webhook.verify(request.body, dict(request.fields))
        except WebhookVerificationError:
            lines.write(REFUSED)
            return reply(401, "no")
        lines.write(f"{request.fields['webhook-id']} {said['type']} {said['data']['id']}")
        return reply(204, "", f"X-Key: {secret}")

    with serving(address, answer, lines, int(port)):
        print("ready", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    die_with_parent()
    main(*sys.argv[1:])
