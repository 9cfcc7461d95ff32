"""A private Postfix on a port of the loopback address, from Debian's package: it can be killed and started again.

It has configuration, queue, mailbox and log in one temporary folder, and touches nothing of the system's own instance.
Its programs log to a socket that the test reads, as they do to a syslog daemon: their log lines outlive them.
"""

import os
import pwd
import re
import shutil
import socket
import subprocess
import threading
from collections import Counter
from contextlib import AbstractContextManager, suppress
from email import message_from_bytes, policy
from functools import partial
from pathlib import Path

import psutil

from tests.daemons import running_in_folder
from tests.valkeys import free_port
from tests.waiting import wait_for

HOST = "127.0.0.1"
DOMAINS = ("customers.example", "example.com")
PROGRAMS = Path("/usr/lib/postfix/sbin")
LONGEST_RECORD = 65_536  # bytes of a datagram; Postfix cuts its text at 2,000
_QUEUE_ID = re.compile(r"\(Postfix\).*? id (\w+)", re.DOTALL)
UP_WITHIN_S = 30
EMPTY_WITHIN_S = 120
SERVICES = """
127.0.0.1:{port} inet n - n - - smtpd
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 5 1 qmgr
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
proxymap  unix  - - n - - proxymap
smtp      unix  - - n - - smtp
showq     unix  n - n - - showq
error     unix  - - n - - error
retry     unix  - - n - - error
discard   unix  - - n - - discard
virtual   unix  - n n - - virtual
anvil     unix  - - n - 1 anvil
"""
SETTINGS = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
daemon_directory = {programs}
command_directory = /usr/sbin
maillog_file = {folder}/unused.log
maillog_file_prefixes = {folder}
myhostname = relay.example
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
mydestination =
local_recipient_maps =
alias_maps =
smtpd_peername_lookup = no
disable_dns_lookups = yes
biff = no
smtpd_relay_restrictions = permit_mynetworks, reject
virtual_mailbox_domains = {domains}
virtual_mailbox_base = {folder}/mailboxes
virtual_mailbox_maps = static:all/
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
virtual_minimum_uid = 1
minimal_backoff_time = 2s
maximal_backoff_time = 4s
queue_run_delay = 2s
smtpd_client_connection_count_limit = 0
smtpd_client_connection_rate_limit = 0
in_flow_delay = 0
"""


def why_not() -> str:
    """Return why no Postfix can be started here, or an empty text."""
    if not (PROGRAMS / "master").exists():
        return "Postfix is not installed: apt-get install --no-install-recommends postfix"
    return "" if os.geteuid() == 0 else "only root can start a Postfix"


class Postfix:
    """The server. `settings` are further lines of its main.cf."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        self.port = free_port()
        self.log = folder / "mail.log"
        self._folder = folder
        self.mailbox = folder / "mailboxes" / "all"  # a Maildir
        self._master: subprocess.Popen[bytes] | None = None
        self._make_folders()
        self._write_configuration(settings)
        self._postlog = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._logger = threading.Thread(target=self._write_log, daemon=True)
        self._listen_to_log()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._master = subprocess.Popen(
            [PROGRAMS / "master", "-c", self._folder / "etc", "-d"],
            env={"PATH": os.environ["PATH"], "MAIL_CONFIG": str(self._folder / "etc"), "MAIL_LOGTAG": "postfix"},
            cwd=self._folder / "queue",
            start_new_session=True,  # as it ends, it signals its process group
            stdin=subprocess.DEVNULL,
        )
        wait_for(self._answers, UP_WITHIN_S, "Postfix")

    def kill(self) -> None:
        """End all its processes with SIGKILL."""
        self._end(psutil.Process.kill)

    def stop(self) -> None:
        """End it as `postfix stop` does: what it is doing is finished."""
        self._end(psutil.Process.terminate)

    def close(self) -> None:
        """Kill what is left, and end the log."""
        if self._master:
            self.kill()
        with suppress(OSError):
            self._postlog.shutdown(socket.SHUT_RDWR)
        self._logger.join()
        self._postlog.close()

    def received(self) -> Counter[tuple[str, str]]:
        """Return how often each e-mail lies in the mailbox, by its Message-ID and the queue id of its acceptance.

        One acceptance may be delivered more than once: by a delivery agent that is killed before it says that it did.
        """
        found = Counter[tuple[str, str]]()
        for path in self.mailbox.glob("new/*"):
            headers = message_from_bytes(path.read_bytes(), policy=policy.compat32)
            queue_id = _QUEUE_ID.search(str(headers["Received"]))
            assert queue_id, path.read_bytes()[:500]
            found["".join(str(headers["Message-ID"]).split()), queue_id[1]] += 1
        return found

    def queued(self) -> str:
        """Return what waits in its queue, as `postqueue -j` prints it."""
        return self.run("postqueue", "-j")

    def wait_until_queue_is_empty(self) -> None:
        wait_for(lambda: not self.queued(), EMPTY_WITHIN_S, "an empty queue")

    def run(self, program: str, *arguments: str) -> str:
        """Run one of its programs, and return what it prints."""
        command = [f"/usr/sbin/{program}", "-c", str(self._folder / "etc"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _end(self, end_one: object) -> None:
        assert self._master
        assert callable(end_one)
        master = psutil.Process(self._master.pid)
        children = master.children(recursive=True)
        for process in [master, *children]:
            with suppress(psutil.NoSuchProcess):
                end_one(process)
        self._master.wait()
        _, alive = psutil.wait_procs(children, timeout=UP_WITHIN_S)
        assert not alive
        self._master = None

    def _answers(self) -> bool:
        assert self._master
        assert self._master.poll() is None, self.log.read_text()[-2_000:]
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                return connection.recv(3) == b"220"
        except OSError:
            return False

    def _make_folders(self) -> None:
        owner, nobody = pwd.getpwnam("postfix"), pwd.getpwnam("nobody")
        group = shutil.os.stat("/usr/sbin/postdrop").st_gid  # type: ignore[attr-defined]
        self._folder.chmod(0o755)
        for name in ("etc", "mailboxes", "queue", "queue/pid"):
            (self._folder / name).mkdir(mode=0o755)
        os.chown(self._folder / "mailboxes", nobody.pw_uid, nobody.pw_gid)
        private = "active bounce corrupt defer deferred flush hold incoming private saved trace"
        for name in ("data", *(f"queue/{each}" for each in private.split())):
            (self._folder / name).mkdir(mode=0o700)
            os.chown(self._folder / name, owner.pw_uid, -1)
        for name, mode in (("queue/maildrop", 0o730), ("queue/public", 0o755)):
            (self._folder / name).mkdir()
            os.chown(self._folder / name, owner.pw_uid, group)
            (self._folder / name).chmod(mode)

    def _write_configuration(self, settings: str) -> None:
        nobody = pwd.getpwnam("nobody")
        values = {"folder": self._folder, "programs": PROGRAMS, "domains": ", ".join(DOMAINS)}
        values |= {"uid": nobody.pw_uid, "gid": nobody.pw_gid}
        (self._folder / "etc" / "main.cf").write_text(SETTINGS.format(**values) + settings)
        (self._folder / "etc" / "master.cf").write_text(SERVICES.format(port=self.port))

    def _listen_to_log(self) -> None:
        place = self._folder / "queue" / "public" / "postlog"
        self._postlog.bind(str(place))
        place.chmod(0o666)
        self._logger.start()

    def _write_log(self) -> None:
        with self.log.open("ab", buffering=0) as log:
            while record := self._postlog.recv(LONGEST_RECORD):
                log.write(record.rstrip(b"\n") + b"\n")


def running(settings: str = "") -> AbstractContextManager[Postfix]:
    """Run a Postfix; at the end it is gone, with all that it wrote."""
    return running_in_folder("postfix", partial(Postfix, settings=settings))
