"""What several tests of notifications need: reconciliation without pauses."""

import pytest

from weir.notifications.reconciliation import changed, drift


@pytest.fixture
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reconciliation look again and again without a pause."""
    monkeypatch.setattr(drift, "APART_S", 0.0)


@pytest.fixture
def reconcile_at_once(looks_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001  for its effect
    """Make passes look at changes of any age, without a pause."""
    monkeypatch.setattr(changed, "SETTLED_S", 0.0)
