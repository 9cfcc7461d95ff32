"""What a fetcher tells of sites that are to be left alone: once, and the longest time."""

from datetime import UTC, datetime, timedelta

from weir.workers.fetches.fetcher.refusals import rests
from weir.workers.fetches.fetcher.refusals.asked import AskedPause
from weir.workers.fetches.fetcher.refusals.rests import AGAIN_AFTER_S, MOST_TOLD, SiteRest, ToldQuotas, merged

AT = datetime(2026, 11, 21, tzinfo=UTC)
LONGEST_S = 3_600.0


def is_news(told: ToldQuotas, site_id: int, *, until: float, now: float) -> bool:
    asked = AskedPause(seconds=until - now, reason="its quota is used up", is_refusal=False)
    return told.is_news(site_id, asked, now=now, time_s=0.0)


def test_rests_of_one_site_are_one_that_asks_for_the_most() -> None:
    """Hundreds at once cost one statement a site; one more where some state a moment, or refuse nothing."""
    assert merged(
        [
            SiteRest(site="a", slot_id=5, seconds=3.0, reason="three"),
            SiteRest(site="b", slot_id=6),
            SiteRest(site="a", slot_id=4, seconds=8.0, reason="eight"),
            SiteRest(site="a", slot_id=7, until=AT, reason="late"),
            SiteRest(site="a", slot_id=3, until=AT - timedelta(1), reason="early"),
            SiteRest(site="a", slot_id=9, seconds=60.0, is_refusal=False),
            SiteRest(site="b", slot_id=2, error="no connection"),
        ]
    ) == [
        SiteRest(site="a", slot_id=5, seconds=8.0, reason="eight"),
        SiteRest(site="b", slot_id=6),
        SiteRest(site="a", slot_id=7, until=AT, reason="late"),
        SiteRest(site="a", slot_id=9, seconds=60.0, is_refusal=False),
    ]


def test_a_quota_that_is_used_up_is_told_when_its_end_is_later_or_a_second_is_over() -> None:
    """A site says so on each answer, in whole seconds: a hundred a second are one statement."""
    told = ToldQuotas(LONGEST_S)
    news = [is_news(told, 1, until=60.0 + (n % 10) / 10, now=n / 100) for n in range(100)]
    assert news == [True] + [False] * 99
    assert is_news(told, 1, until=60.0, now=AGAIN_AFTER_S), "somebody may have resumed it"
    assert is_news(told, 1, until=90.0, now=AGAIN_AFTER_S), "it is later"
    assert is_news(told, 2, until=60.0, now=AGAIN_AFTER_S), "it is another site"


def test_a_moment_counts_by_the_time_of_day_and_no_rest_is_longer_than_it_may_be() -> None:
    """What is beyond the longest rest is no later than it: it would be told again on each answer."""
    told, time_s = ToldQuotas(LONGEST_S), AT.timestamp()

    def news(until: datetime) -> bool:
        asked = AskedPause(until=until, reason="its quota is used up", is_refusal=False)
        return told.is_news(1, asked, now=5.0, time_s=time_s)

    assert news(AT + timedelta(seconds=60))
    assert not news(AT + timedelta(seconds=60.5))
    assert news(AT + timedelta(days=1))
    assert not news(AT + timedelta(days=30))


def test_no_more_sites_are_remembered_than_may_be() -> None:
    """However many sites say so."""
    told = ToldQuotas(LONGEST_S)
    for site in range(MOST_TOLD + 5):
        is_news(told, site, until=60.0, now=0.0)
    assert not is_news(told, MOST_TOLD + 4, until=60.0, now=0.5)
    assert is_news(told, 0, until=60.0, now=0.5), "the oldest was forgotten"
    assert len(vars(told)["_told"]) == rests.MOST_TOLD
