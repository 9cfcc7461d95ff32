"""Removes what a logger or a container's runtime puts around a line: its own time, the container's name, or JSON.

These wrappings are read: those of `docker logs -t`, `docker compose logs`, `kubectl logs --prefix` and
`journalctl -o json`, also for containers that log to journald; and those in the files of Docker's json-file and of
Kubernetes (the container runtime interface, which splits long lines: their parts are joined).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from weir.workers.mail.evidence.formats.files import LONGEST_LINE

_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))"
_COMPOSE = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*) *\| ?(?P<text>.*)", re.DOTALL)
_KUBECTL = re.compile(r"\[pod/(?P<name>[^/\]]+)/[^\]]*\] (?P<text>.*)", re.DOTALL)
_CRI = re.compile(_STAMP + r" (?P<stream>stdout|stderr) (?P<tag>[FP])(?::\S*)?(?: (?P<text>.*)|$)", re.DOTALL)
_DOCKER = re.compile(_STAMP + r" (?P<text>.*)", re.DOTALL)
_JSON = re.compile(r"\x1e?(?:data: )?(?P<text>\{.*\})\s*", re.DOTALL)
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
MOST_STREAMS = 1_000  # streams whose incomplete lines are kept


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A line without its wrapping, and what the wrapping said."""

    text: str
    host: str = ""
    moment: datetime | None = None
    header: tuple[str, str, str] | None = None  # host, program and process id, where JSON has them


PART = Wrapped("")  # stands for a part of a line whose last part is still to come


class Unwrapper:
    """Unwraps the lines of one file, and keeps the parts of lines that are not complete yet."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], str] = {}

    @property
    def has_parts(self) -> bool:
        """Whether the last part of some line has not come."""
        return bool(self._parts)

    def unwrap(self, text: str) -> Wrapped | None:
        """Return the line, or PART if the rest of the line is still to come; None if the text is not a wrapped line."""
        host = ""
        if found := _COMPOSE.match(text) or _KUBECTL.match(text):
            host, text = found["name"], found["text"]
        if found := _CRI.match(text):
            complete = self._joined((host, found["stream"]), found["text"] or "", whole=found["tag"] == "F")
            return PART if complete is None else Wrapped(complete, host, _moment(found["stamp"]))
        if found := _JSON.fullmatch(text):
            return self._of_json(found["text"], host)
        if found := _DOCKER.match(text):
            return Wrapped(found["text"], host, _moment(found["stamp"]))
        return Wrapped(text, host) if host else None

    def _of_json(self, text: str, host: str) -> Wrapped | None:
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if isinstance(fields, dict) and "__REALTIME_TIMESTAMP" in fields:
            return _of_journal(fields, host)
        if isinstance(fields, dict) and isinstance(log := fields.get("log"), str) and "time" in fields:
            complete = self._joined((host, str(fields.get("stream"))), log.rstrip("\n"), whole=log.endswith("\n"))
            return PART if complete is None else Wrapped(complete, host, _moment(str(fields["time"])))
        return None

    def _joined(self, stream: tuple[str, str], text: str, *, whole: bool) -> str | None:
        """Return the whole line, once its last part has come. A line that is too long is returned in pieces."""
        joined = self._parts.pop(stream, "") + text
        if whole or len(joined) > LONGEST_LINE or len(self._parts) >= MOST_STREAMS:
            return joined
        self._parts[stream] = joined
        return None


def _of_journal(fields: Mapping[str, Any], host: str) -> Wrapped | None:
    message = _text(fields.get("MESSAGE"))
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(fields["__REALTIME_TIMESTAMP"]))
    except (ValueError, TypeError, OverflowError):
        return None
    if message is None:
        return None
    if container := _text(fields.get("CONTAINER_NAME")):  # Docker logs to journald
        return Wrapped(message, host or container, moment)
    program = _text(fields.get("SYSLOG_IDENTIFIER")) or _text(fields.get("_COMM")) or ""
    pid = _text(fields.get("SYSLOG_PID")) or _text(fields.get("_PID")) or ""
    return Wrapped(message, host, moment, (_text(fields.get("_HOSTNAME")) or "", program, pid))


def _text(value: object) -> str | None:
    """Return a field's text. journalctl writes a text that is not UTF-8 as a list of bytes, and a long one as null."""
    if isinstance(value, list):
        try:
            return bytes(value).decode(errors="surrogateescape")
        except (ValueError, TypeError):  # not bytes: the field was given more than once
            value = value[0]
    return value if isinstance(value, str) else None


def _moment(stamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
