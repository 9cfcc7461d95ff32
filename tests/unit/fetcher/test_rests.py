"""What a fetcher tells of sites that are to be left alone: once, and the longest time."""

from datetime import UTC, datetime, timedelta

from workers.fetches.fetcher.refusals import rests
from workers.fetches.fetcher.refusals.rests import AGAIN_AFTER_S, MOST_TOLD, Rest, ToldQuotas, merged

AT = datetime(2026, 11, 21, tzinfo=UTC)


def test_rests_of_one_site_are_one_that_asks_for_the_most() -> None:
    """Hundreds at once cost one statement a site; one more where some state a moment, or refuse nothing."""
    assert merged(
        [
            Rest(site="a", slot_id=5, seconds=3.0, reason="three"),
            Rest(site="b", slot_id=6),
            Rest(site="a", slot_id=4, seconds=8.0, reason="eight"),
            Rest(site="a", slot_id=7, until=AT, reason="late"),
            Rest(site="a", slot_id=3, until=AT - timedelta(1), reason="early"),
            Rest(site="a", slot_id=9, seconds=60.0, is_refusal=False),
            Rest(site="b", slot_id=2, error="no connection"),
        ]
    ) == [
        Rest(site="a", slot_id=5, seconds=8.0, reason="eight"),
        Rest(site="b", slot_id=6),
        Rest(site="a", slot_id=7, until=AT, reason="late"),
        Rest(site="a", slot_id=9, seconds=60.0, is_refusal=False),
    ]


def test_a_quota_that_is_used_up_is_told_when_its_end_is_later_or_a_second_is_over() -> None:
    """A site says so on each answer, in whole seconds: a hundred a second are one statement."""
    told = ToldQuotas()
    news = [told.is_news(1, until=60.0 + (n % 10) / 10, now=n / 100) for n in range(100)]
    assert news == [True] + [False] * 99
    assert told.is_news(1, until=60.0, now=AGAIN_AFTER_S), "somebody may have resumed it"
    assert told.is_news(1, until=90.0, now=AGAIN_AFTER_S), "it is later"
    assert told.is_news(2, until=60.0, now=AGAIN_AFTER_S), "it is another site"


def test_no_more_sites_are_remembered_than_may_be() -> None:
    """However many sites say so."""
    told = ToldQuotas()
    for site in range(MOST_TOLD + 5):
        told.is_news(site, until=60.0, now=0.0)
    assert not told.is_news(MOST_TOLD + 4, until=60.0, now=0.5)
    assert told.is_news(0, until=60.0, now=0.5), "the oldest was forgotten"
    assert len(vars(told)["_told"]) == rests.MOST_TOLD
