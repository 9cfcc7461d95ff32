"""A private Exim on a port of the loopback address, from Debian's package.

It has configuration, spool, mailbox and log in one temporary folder, and touches nothing of the system's own instance.
Debian has either Postfix or Exim installed: `WEIR_TEST_EXIM` names a binary that was unpacked elsewhere.
"""

import os
import pwd
import socket
import subprocess
from collections import Counter
from contextlib import AbstractContextManager, suppress
from email import message_from_bytes, policy
from pathlib import Path

import psutil

from tests.daemons import running_in_folder
from tests.valkeys import free_port
from tests.waiting import wait_for

HOST = "127.0.0.1"
BINARY = Path(os.environ.get("WEIR_TEST_EXIM", "/usr/sbin/exim4"))
USER = "Debian-exim"  # the binary was built with this user
UP_WITHIN_S = 30
EMPTY_WITHIN_S = 300
CONFIGURATION = """
exim_path = {binary}
primary_hostname = relay.example
spool_directory = {folder}/spool
log_file_path = {folder}/log/%slog
pid_file_path = {folder}/exim.pid
daemon_smtp_ports = {port}
local_interfaces = 127.0.0.1
host_lookup =
rfc1413_query_timeout = 0s
smtp_accept_max = 0
deliver_drop_privilege = true
keep_environment =
timezone =
acl_smtp_rcpt = accept
acl_smtp_data = check
begin acl
check:
  deny message = refused
       condition = ${{if match{{$h_subject:}}{{^refuse}}}}
  accept
begin routers
all:
  driver = accept
  transport = mailbox
begin transports
mailbox:
  driver = appendfile
  maildir_format
  directory = {folder}/mailbox
  create_directory
begin retry
* * F,1h,1m
"""


def why_not() -> str:
    """Return why no Exim can be started here, or nothing."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return "Exim is not installed: apt-get install --no-install-recommends exim4-daemon-light"
    if not BINARY.exists():
        return f"There is no {BINARY}: WEIR_TEST_EXIM names the binary of Exim"
    return "" if os.geteuid() == 0 else "only root can start an Exim"


class Exim:
    """The server."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.log = folder / "log" / "mainlog"
        self._folder, self._mailbox = folder, folder / "mailbox"
        owner = pwd.getpwnam(USER)
        folder.chmod(0o755)
        for name in ("spool", "log", "mailbox"):
            (folder / name).mkdir(mode=0o750)
            os.chown(folder / name, owner.pw_uid, owner.pw_gid)
        values = {"folder": folder, "port": self.port, "binary": BINARY}
        self._configuration = folder / "exim.conf"
        self._configuration.write_text(CONFIGURATION.format(**values))
        self._daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._daemon = subprocess.Popen(
            [BINARY, "-C", self._configuration, "-bdf", "-q5s"], stdin=subprocess.DEVNULL, start_new_session=True
        )
        wait_for(self._answers, UP_WITHIN_S, "Exim")

    def close(self) -> None:
        """End it, whatever it is doing."""
        if self._daemon:
            processes = [psutil.Process(self._daemon.pid)]
            processes += processes[0].children(recursive=True)
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self._daemon.wait()

    def received(self) -> Counter[str]:
        """Return how often each e-mail lies in the mailbox, by its Message-ID."""
        found = Counter[str]()
        for path in self._mailbox.glob("new/*"):
            headers = message_from_bytes(path.read_bytes(), policy=policy.compat32)
            found["".join(str(headers["Message-ID"]).split())] += 1
        return found

    def wait_until_queue_is_empty(self) -> None:
        command: list[str | Path] = [BINARY, "-C", self._configuration, "-bpc"]
        wait_for(
            lambda: subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "0",
            EMPTY_WITHIN_S,
            "an empty queue",
        )

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                return connection.recv(3) == b"220"
        except OSError:
            return False


def running() -> AbstractContextManager[Exim]:
    """An Exim, which is gone at the end with all that it wrote."""
    return running_in_folder("exim", Exim)
