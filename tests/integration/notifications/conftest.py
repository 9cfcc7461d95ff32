"""What several tests of notifications need: reconciliation that waits for nothing."""

import pytest

from weir.notifications.reconciliation import changed, drift


@pytest.fixture
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have reconciliation look again and again without a pause."""
    monkeypatch.setattr(drift, "APART_S", 0.0)


@pytest.fixture
def reconcile_at_once(looks_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001  for its effect
    """Have passes look at changes of any age, without a pause."""
    monkeypatch.setattr(changed, "SETTLED_S", 0.0)
