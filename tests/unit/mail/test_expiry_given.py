"""Until when an e-mail may be sent: what is refused before the database is asked."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.cases import for_each
from weir.workers.mail import kinds, outbox
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.kinds import Content

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _no_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_kinds", {})
    monkeypatch.setattr(kinds, "_expires_after", {})


def login_code() -> Content:
    return Content(subject="Your code", text="123456")


@for_each(
    "life",
    [timedelta(), -HOUR, timedelta.max, timedelta(days=3_651), 900, 0.5, "15m", datetime.now(UTC), True],
)
def test_a_kind_is_refused_whose_emails_would_never_be_sent(life: Any) -> None:
    """Or that says no time, or one that no database can add: with what to write instead, when the app is loaded."""
    with pytest.raises(ValueError, match=r"login\.code must be a timedelta above 0.*minutes=15") as told:
        kinds.register("login.code", expires_after=life)
    assert repr(life) in str(told.value)
    assert kinds.names() == []


def test_a_kind_says_how_long_or_nothing() -> None:
    kinds.register("login.code", expires_after=timedelta(minutes=15))(login_code)
    kinds.register("news")(login_code)
    assert (kinds.expires_after("login.code"), kinds.expires_after("news")) == (timedelta(minutes=15), None)


NOW, THEN = timezone.now(), datetime(2100, 1, 1, tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ({"expires_at": datetime(2100, 1, 1)}, "expires_at must have a time zone"),  # noqa: DTZ001  that is the point
        ({"expires_at": date(2100, 1, 1)}, "expires_at must be an aware datetime, not"),
        ({"expires_at": 900}, "expires_at must be an aware datetime, not 900"),
        ({"expires_at": timedelta(minutes=15)}, "expires_at must be an aware datetime, not"),
        ({"expires_at": "2100-01-01"}, "expires_at must be an aware datetime, not"),
        ({"expires_at": NOW + HOUR, "not_before": NOW + 2 * HOUR}, "must be after not_before"),
        ({"expires_at": THEN, "not_before": THEN}, "never begins"),
        ({"not_before": LATEST}, "out of range"),  # its kind adds a quarter of an hour
    ],
)
@pytest.mark.parametrize("raises", [True, False])
def test_bad_times_are_refused_with_a_sentence(times: dict[str, Any], sentence: str, raises: bool) -> None:
    """Whatever the caller allows: nothing of it can be stored."""
    kinds.register("login.code", expires_after=timedelta(minutes=15))(login_code)
    with pytest.raises(CannotBeWritten, match=sentence):
        outbox.send_once("login.code", "17", to="kim@example.com", raises=raises, **times)
