"""Fake sites for the demo, tests and benchmarks: one process, many addresses (`site_server`)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.fakes.children import child
from demo.fakes.hosts import LOOPBACK


@dataclass(frozen=True, kw_only=True)
class Sites:
    """Sites that are running; `log` holds the arrivals, `answers` the answers (`site_log`)."""

    scheme: str
    port: int
    hosts: tuple[str, ...]
    log: Path
    answers: Path
    pid: int

    def url(self, host_index: int, path: str) -> str:
        """Return the URL of a path on one of the sites."""
        return f"{self.scheme}://{self.hosts[host_index]}:{self.port}{path}"


@contextmanager
def running(
    hosts: int,
    folder: Path,
    *,
    body_size: int = 2_000,
    network: str = LOOPBACK,
    inside: Sequence[str] = (),
    certificates: Path | None = None,
) -> Iterator[Sites]:
    """Run sites in one process, which writes its logs to `folder`; end it on leaving.

    `inside` is what the command begins with, such as `nsenter` and its options for a network of their own. With
    `certificates`, the folder that has each certificate with its key in `<address>.pem`, the sites speak TLS.
    RuntimeError if the process does not start, or ends with an error.
    """
    folder = folder.absolute()
    log, answers, ready = folder / "requests.log", folder / "answers.log", folder / "sites.json"
    options = {
        "--log": log,
        "--answers": answers,
        "--ready": ready,
        "--hosts": hosts,
        "--network": network,
        "--body-size": body_size,
    }
    if certificates:
        options["--certificates"] = certificates.absolute()
    words = [str(word) for option in options.items() for word in option]
    arguments = ["--die-with-parent", *words]
    with child("process of the fake sites", "demo.fakes.site_server", arguments, ready, inside=inside) as state:
        yield Sites(
            scheme="https" if certificates else "http",
            port=state["port"],
            hosts=tuple(state["hosts"]),
            log=log,
            answers=answers,
            pid=state["pid"],
        )
