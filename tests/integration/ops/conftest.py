"""Pages that no visitor has looked at yet."""

from collections.abc import Callable

import pytest

from weir.ops import answers, histories
from weir.ops.snapshots import OverviewSnapshot, Snapshots
from weir.ops.views import audit, effects, emails, fetches, overview, sites, unread

Forget = Callable[[], None]


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Forget:
    """Make this process forget its snapshots and answers, now and when the function is called."""

    def forget_all() -> None:
        answers.forget()
        for module in (audit, effects, emails, fetches, histories, overview, sites, unread):
            for name, kept in vars(module).items():
                if isinstance(kept, OverviewSnapshot | Snapshots):
                    monkeypatch.setattr(module, name, type(kept)())

    forget_all()
    return forget_all
