"""The logs of the fake sites: when each request arrived, and when each answer was sent.

`site_server` writes them, one line a request or answer, the fields separated by spaces. Times are whole nanoseconds of
CLOCK_REALTIME. Lines are in the order in which the sites read the requests, which is almost that of arrival.
"""

from dataclasses import dataclass
from pathlib import Path

from demo.fakes.files import read_whole_lines

READ_WITHIN_S = 0.2  # how soon after its arrival a request is in the log, even if the process of the sites is busy


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """One request: what it asked for, from which address, and its number on its connection, counted from 1."""

    at_ns: int  # when the kernel received its first byte
    host: str
    path: str
    client: str = ""
    place: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """One answer, with the time right before the sites' process sent it."""

    at_ns: int
    host: str
    path: str
    status: int


def read_arrivals(path: Path, start_offset: int = 0) -> tuple[list[Arrival], int]:
    """Return the arrivals that follow an offset in the log, and the offset to continue from.

    A last line that is only half written is left for the next call.
    """
    lines, end_offset = _whole_lines(path, start_offset)
    return [
        Arrival(at_ns=int(at_ns), host=host, path=asked, client=client, place=int(place))
        for at_ns, host, asked, client, place in lines
    ], end_offset


def read_answers(path: Path, start_offset: int = 0) -> tuple[list[Answered], int]:
    """Return the answers that follow an offset in their log, and the offset to continue from, as `read_arrivals`."""
    lines, end_offset = _whole_lines(path, start_offset)
    return [
        Answered(at_ns=int(at_ns), host=host, path=asked, status=int(status)) for at_ns, host, asked, status in lines
    ], end_offset


def _whole_lines(path: Path, start_offset: int) -> tuple[list[list[str]], int]:
    whole, end_offset = read_whole_lines(path, start_offset)
    # Not splitlines(), which also splits at bytes that a path may hold.
    return [line.decode("latin-1").split(" ") for line in whole.split(b"\n")[:-1]], end_offset
