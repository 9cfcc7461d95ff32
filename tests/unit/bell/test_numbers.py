"""When a number that a browser has is still right, by what Redis tells."""

from dataclasses import replace

from tests.cases import for_each
from weir.notifications.watching import Polled
from weir.notifications.web.polls import ShownNumber

NUMBER = ShownNumber(user="7", unread=3, checked_at=1.0, marker="m", version="v", incarnation="1-a", epoch=100, delta=2)
TOLD = Polled(version="v", incarnation="1-a", epoch=104, delta=1.0, since=2.0)


def test_the_same_number_is_of_the_later_epoch() -> None:
    """Redis keeps few epochs; the session is not looked at."""
    assert NUMBER.after(TOLD) == replace(NUMBER, epoch=104, delta=1)


@for_each(
    "told",
    [
        None,
        TOLD._replace(version="w"),
        TOLD._replace(incarnation="1-b"),
        TOLD._replace(since=3.0),
        TOLD._replace(since=2.5),
        TOLD._replace(since=0.0),
        TOLD._replace(since=float("inf")),
        TOLD._replace(delta=0.5),
        TOLD._replace(delta=float("inf")),
    ],
)
def test_what_is_not_known_to_be_the_same(told: Polled | None) -> None:
    """Somebody else may have written a delta that is none."""
    assert NUMBER.after(told) is None
