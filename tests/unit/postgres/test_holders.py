"""Which foreign keys keep rows that a purge deletes: those of other apps, with a constraint in PostgreSQL."""

import pytest

from weir.notifications import checks as of_notifications
from weir.notifications.models import Notification
from weir.postgres import weir_apps
from weir.workers.fetches import checks as of_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email


def test_weirs_own_are_left_out() -> None:
    """Its statements delete the bodies of fetches with them."""
    for model in (Fetch, Notification):
        assert weir_apps.holders(model) == []


def test_those_of_other_apps_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what has no constraint, as that of a result to the one whose body it has."""
    monkeypatch.setattr(weir_apps, "is_weirs", lambda _label: False)
    assert weir_apps.holders(Fetch) == ["weir_fetches.FetchBody.fetch"]
    assert "weir_mail.Rendering.email" in weir_apps.holders(Email)
    [warning] = of_fetches.fetches_can_be_purged()
    assert warning.id == "weir.W033"
    assert warning.msg.startswith("weir_fetches.FetchBody.fetch has a foreign key to fetches.")
    assert of_notifications.notifications_can_be_purged() == []
