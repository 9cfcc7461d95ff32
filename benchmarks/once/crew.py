"""Processes that send e-mails. Run as a script, this module is one of them.

Each line of its standard input is the name of a side in `queues.SENDERS`. The process sends until nothing is left,
and then writes a line. The environment names the mail server and PostgreSQL.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

READY = "ready\n"


class Crew:
    """Processes that are ready to send."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def begin(self, side: str) -> None:
        """Let all of them send."""
        for process in self._processes:
            print(side, file=process.stdin, flush=True)

    def wait(self) -> None:
        """Wait until all of them are ready. RuntimeError if one ended instead."""
        for process in self._processes:
            if not process.stdout or process.stdout.readline() != READY:
                raise RuntimeError("A process that was to send e-mails ended.")

    def send(self, side: str) -> None:
        """Let all of them send, and wait until nothing is left."""
        self.begin(side)
        self.wait()


@contextmanager
def running(count: int, host: str, port: int, **more: str) -> Iterator[Crew]:
    """Run `count` processes that send to this mail server, with more in their environment; kill them on leaving."""
    environment = {**os.environ, "EMAIL_HOST": host, "EMAIL_PORT": str(port), **more}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.once.crew"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    try:
        crew = Crew(processes)
        crew.wait()
        yield crew
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def main() -> None:
    """Send for the sides that the standard input names."""
    import django  # noqa: PLC0415  what follows needs Django's settings

    django.setup()
    from benchmarks.once import queues  # noqa: PLC0415
    from demo.fakes.children import die_with_parent  # noqa: PLC0415

    die_with_parent()
    with queues.peers(is_alone=False):
        print(READY, end="", flush=True)
        for line in sys.stdin:
            queues.SENDERS[line.strip()]()
            print(READY, end="", flush=True)


if __name__ == "__main__":
    main()
