"""The row of the gate is written anew after each `flush`, as between two tests of a project."""

import time

import pytest

from weir.postgres.timeline import gate

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("ago_s", "is_asked"), [(2 * gate.EVERY_S, False), (2 * gate.IDLE_S, True)])
def test_the_witness_is_asked_only_after_idleness(
    ago_s: float, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside, it would be asked by a thread, after the test in which Redis is replaced."""
    asked: list[object] = []

    def ask(whom: object) -> int:
        asked.append(whom)
        return 0

    monkeypatch.setattr(gate._memory, "witness", ask)
    monkeypatch.setattr(gate._memory, "asked_at", time.monotonic() - ago_s)
    monkeypatch.setattr(gate, "_started", ask)
    gate.begin()
    assert bool(asked) is is_asked
