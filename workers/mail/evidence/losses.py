"""Knows how programs that keep or carry logs say that they lost lines, or were down and could not take lines.

The wordings are from the sources of these programs: rsyslog (runtime/ratelimit.c, action.c, stream.c, queue.c,
imuxsock, imjournal), systemd (journald-server.c, journald-syslog.c, journald-kmsg.c, journal-file.c), syslog-ng
(logqueue-fifo.c, afsql, diskq, logwriter.c), BusyBox (syslogd.c), FreeBSD's and Linux' sysklogd, Docker
(daemon/logger), the kubelet, logrotate, and the kernel.
"""

import re
from datetime import timedelta
from enum import Enum, auto
from typing import NamedTuple

# The lost lines stood within this time before or after the line that reports the loss. A program that drops lines
# because of a rate limit reports that when the limit's interval is over. A program whose disk or queue is full reports
# that when the loss begins.
AROUND = timedelta(hours=1)


class Reach(Enum):
    """Whose lines were lost."""

    HOST = auto()  # lines of the host whose logger reports the loss
    ALL = auto()  # lines of any host, because the reporting host may gather the logs of others
    DOWN = auto()  # lines of the reporting host since its previous line: its logger was started
    BOOT = auto()  # lines of the reporting host since its previous line: the machine was started


class Loss(NamedTuple):
    """A wording with which a program reports a loss."""

    words: str  # a regular expression
    reach: Reach


LOSSES = (
    # rsyslog: its rate limits for a program, for a process and for the journal.
    Loss(r"imuxsock.{0,200}lost \d+ messages", Reach.HOST),
    Loss(r"(?:imuxsock|imjournal|imklog).{0,200}(?:messages? lost due to|begins? to drop messages)", Reach.HOST),
    Loss(r"messages? lost due to|begins? to drop messages|lost \d+ messages", Reach.ALL),
    # A TCP frame that does not fit: the next line may begin in its middle.
    Loss(r"larger than (?:max msg size|log_msg_size)|received oversize message|Framing Error in received", Reach.ALL),
    # rsyslog: its disks, its queues, and the servers to which it forwards.
    Loss(r"message lost, could not be processed|line lost\b|message is being discarded", Reach.ALL),
    Loss(r"\bwrite error\b|No space left on device|file size limit cmd|Message suspended", Reach.ALL),
    Loss(r"queue is full|queue nearly full|messages? discarded|discarding message|discarded \d+ messages?", Reach.ALL),
    Loss(r"action '[^']*' suspended|globally suspended or unreachable", Reach.ALL),
    Loss(r"lost \d+ messages from diskqueue|queue files? .{0,200}(?:corrupt|damaged)", Reach.ALL),
    # journald.
    Loss(r"Suppressed \d+ messages from", Reach.HOST),
    Loss(r"Forwarding to syslog missed \d+|Missed \d+ kernel messages", Reach.HOST),
    Loss(r"Failed to (?:write|rotate|append|flush|forward).{0,200}(?:ignoring|journal|syslog|entr)", Reach.HOST),
    Loss(r"corrupted or uncleanly shut down|[Jj]ournal file (?:\S+ )?(?:is )?(?:corrupt|truncat)", Reach.HOST),
    Loss(r"[Dd]ropping message|Can't write entry|Can't read entry", Reach.ALL),
    # syslog-ng.
    Loss(r"queue full, dropping|[Mm]essage\(?s?\)? dropped|dropping (?:message|disk queue|input)", Reach.ALL),
    Loss(r"Suspending write operation|I/O error occurred while writing|[Dd]ropped messages; count='[1-9]", Reach.ALL),
    Loss(r"contents will be lost|messages will be lost|corrupt(?:ed)? (?:diskq|disk-queue)", Reach.ALL),
    Loss(r"dropped='[^']*=[1-9]", Reach.ALL),
    # Containers.
    Loss(r"[Ee]rror (?:writing|rotating) log|[Ff]ailed to (?:log|write|rotate|reopen) (?:message|log)", Reach.HOST),
    Loss(r"log data may have been lost|log messages have been skipped|has dropped \d+ logs", Reach.HOST),
    Loss(r"Error grabbing logs|failed to reopen container log", Reach.HOST),
    # logrotate, which copies and truncates.
    Loss(r"error (?:copying|truncating|ftruncate|renaming|opening|creating|writing to)\b.{0,200}(?:log|/)", Reach.HOST),
    Loss(r"failed to (?:rename|compress|truncate)\b", Reach.HOST),
    # The kernel killed the program that kept the log.
    Loss(r"[Kk]illed process \d+ \((?:r?syslogd|syslog-ng|systemd-journal|postlogd|dockerd|containerd)", Reach.HOST),
    # A logger ended: lines are lost until it starts again, and it may not log its start.
    Loss(r"exiting on signal \d+|syslog-ng shutting down|^syslogd exiting|^Journal stopped", Reach.HOST),
    # A logger was started: lines that programs wrote while it was down are lost.
    Loss(r"origin software=\"rsyslogd\".{0,200}\] start$|syslog-ng starting up|syslogd started: BusyBox", Reach.DOWN),
    Loss(r"^\S* ?[\d.]*: restart\b|syslogd.{0,200}\brestart|kernel boot file is|^Journal started", Reach.DOWN),
    Loss(r"^(?:\[ *\d+\.\d+\] )?Linux version \d", Reach.BOOT),
)  # fmt: skip
# Each wording contains one of these words. To look for the words first is many times faster than to try each wording.
_WORDS = (
    *("lost", "loss", "rror", "drop", "discard", "full", "uspend", "ailed", "orrupt", "Suppressed", "issed", "skipped"),
    *("larger than", "oversize", "Framing"),
    *(
        "read entry",
        "write entry",
        "No space",
        "size limit",
        "illed process",
        "start",
        "exiting on",
        "shutting down",
        "Journal stopped",
        "Linux version",
        "kernel boot",
    ),
)
_EACH = [(re.compile(loss.words), loss.reach) for loss in LOSSES]


def reach(text: str) -> Reach | None:
    """Return whose lines were lost, if a text of a program that is not a mail server says so; else None."""
    if not any(word in text for word in _WORDS):
        return None
    return next((reach for words, reach in _EACH if words.search(text)), None)
