"""The rows that programs find; this process remembers nothing of those of other tests."""

import pytest

from tests import programs
from tests.programs import World
from weir.api.operations import sites, status
from weir.ops.snapshots import OverviewSnapshot


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sites, status):
        for name, kept in vars(module).items():
            if isinstance(kept, OverviewSnapshot):
                monkeypatch.setattr(module, name, OverviewSnapshot())


@pytest.fixture
def world(transactional_db: None, messages: list[object]) -> World:  # noqa: ARG001  asked for their effect
    """Return the ids of the rows; messages to workers are not sent."""
    return programs.seed()
