"""A mail server for tests that is killed, comes back, and refuses us at times."""

import os
import signal
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

from demo.fakes import mail_server


class ComingAndGoing:
    """A mail server that is killed, comes back, and refuses us at times; its list goes on."""

    REFUSAL = "452 4.3.1 The disk is full"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()
        self.server = self._running.enter_context(mail_server.running(folder))
        self._next = "go away"
        self.changes: Counter[str] = Counter()
        self.killed_at: list[float] = []

    def change(self) -> None:
        """Go on to the next stage: away, back and refusing us, away, back and working, and so on."""
        match self._next:
            case "go away":
                self._kill()
                self._next = "refuse"
            case "refuse":
                self._start(self.REFUSAL)
                self._next = "work"
            case _:
                self.work()

    def work(self) -> None:
        """Be there, and take e-mails."""
        if self._next == "go away":
            return
        if self._next == "work":
            self._kill()
        self._start()
        self._next = "go away"

    def close(self) -> None:
        """End it."""
        with suppress(RuntimeError):
            self._running.close()

    def _kill(self) -> None:
        os.kill(self.server.pid, signal.SIGKILL)
        self.killed_at.append(time.time())
        self.changes["killed"] += 1
        self.close()

    def _start(self, refuses: str = "") -> None:
        self.server = self._running.enter_context(mail_server.running(self._folder, self.server.port, refuses))
        self.changes["refusing us" if refuses else "back"] += 1
