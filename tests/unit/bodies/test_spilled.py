"""Spilled bodies: what a disk that is full does to them."""

from pathlib import Path

import pytest

from weir.workers.fetches.bodies import spilled
from weir.workers.fetches.bodies.spilled import SpilledBody


def test_a_body_that_a_full_disk_did_not_take_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a file writes what is left in its buffer: the thread of a keeper goes on."""
    monkeypatch.setattr(spilled, "TemporaryFile", lambda **_options: Path("/dev/full").open("w+b"))  # noqa: SIM115  `close`
    body = SpilledBody()
    body.write(b"beginning")
    with pytest.raises(OSError, match="No space left"):
        body.whole(b"rest")
    body.close()
    body.close()
