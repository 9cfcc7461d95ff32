"""What a fetcher has to tell of starts out of their time is told until PostgreSQL has it, each site in one entry."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from django.db import OperationalError

from weir.ratelimit import out_of_time
from weir.ratelimit.out_of_time import NotedSite, OutOfTime, Told, merged
from weir.ratelimit.pacing import Confirmation, Run
from weir.workers.fetches.fetcher.out_of_time import StartsOutOfTime
from weir.workers.fetches.jobs import Job


def job(site: str, slot_id: int) -> Job:
    return Job(
        fetch_id=1,
        url="https://site.example/secret",
        redirects=0,
        attempts=0,
        max_attempts=5,
        site_id=1,
        site=site,
        slot_id=slot_id,
        start_at=0.0,
        run=Run(interval_s=1.0, burst=1, start_until=9.0, use_until=9.0, confirmation=Confirmation(asked_at=0.0)),
    )


def test_the_last_start_of_each_site_stands_for_all() -> None:
    """Whatever their order."""
    starts = [OutOfTime(site="a", slot_id=1, at=5.0), OutOfTime(site="b", slot_id=2, at=1.0)]
    later, earlier = OutOfTime(site="a", slot_id=3, at=9.0), OutOfTime(site="a", slot_id=4, at=2.0, starts=5)
    for order in permutations([*starts, later, earlier]):
        assert set(merged(order)) == {OutOfTime(site="a", slot_id=3, at=9.0, starts=7), starts[1]}
    assert merged([]) == []


def test_nothing_is_forgotten_that_postgresql_does_not_have(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither where it is away, nor where a site is locked."""
    asked: list[list[tuple[str, int]]] = []
    answers: list[Told | None] = [None]

    def note(starts: Sequence[OutOfTime]) -> Told:
        asked.append([(start.site, start.starts) for start in starts])
        locked = [start for start in starts if start.site == "locked"]
        answer = answers.pop(0) if answers else Told(noted=[NotedSite("open", True, 1.0)], left=locked)
        if answer is None:
            raise OperationalError("the database is away")
        return answer

    monkeypatch.setattr(out_of_time, "note", note)
    starts = StartsOutOfTime()
    starts.tell()
    assert asked == [], "where there is nothing to tell, nothing is asked"
    for slot_id, site in enumerate(["open", "locked", "open"]):
        starts.add(job(site, slot_id), 0.25)
    with pytest.raises(OperationalError):
        starts.tell()
    starts.tell()
    starts.add(job("open", 9), 0.25)
    starts.tell()
    assert asked == [[("open", 2), ("locked", 1)]] * 2 + [[("locked", 1), ("open", 1)]]
    starts.close()
    assert "starts_out_of_time_not_told" in caplog.text
    assert sum("started_out_of_time" in line for line in caplog.messages) == 4
    assert "secret" not in caplog.text
