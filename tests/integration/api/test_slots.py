"""Programs take starts of sites, and keep the rate together with all other holders."""

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db.models import F, Min
from pytest_django import Settings

from tests.integration.conftest import InThreads
from tests.programs import Program, token
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Site, Slot

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "site.example"
PATH = f"/sites/{HOST}/slots"


@pytest.fixture
def program() -> Program:
    return Program(token("weir_ratelimit.add_slot"))


def ids(taken: Any) -> list[str]:
    return [slot["id"] for slot in taken.json()["slots"]]


def usable(program: Program, *of: str) -> list[str]:
    answer = program.call("POST", f"{PATH}/used", {"ids": list(of)})
    return sorted(slot["id"] for slot in answer.json()["usable"])


def test_the_slots_of_a_run_say_when_to_start(program: Program) -> None:
    site_settings.set_rate(HOST, "2/s")
    asked_at = time.monotonic()
    taken = program.call("POST", PATH, {"count": 3, "late_s": 0.5}).json()
    took_s = time.monotonic() - asked_at
    assert (taken["site"], taken["interval_s"], taken["ask_after_s"]) == (HOST, 0.5, 0.49)
    waits = [slot["start_in_s"] for slot in taken["slots"]]
    assert waits[0] == 0.0
    assert all(0.5 <= later - earlier <= 0.505 + took_s for earlier, later in pairwise(waits))
    assert 1.0 + 0.5 <= taken["start_within_s"] <= waits[-1] + 0.525 + took_s, "the grace and late_s after the last one"
    behind = program.call("POST", PATH, {}).json()["slots"][0]["start_in_s"]
    assert behind >= taken["start_within_s"] + 0.5 - took_s - (time.monotonic() - asked_at), (
        "an interval behind the run"
    )


def test_starts_of_a_late_answer_are_an_interval_apart(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first start is made when the answer comes; the others follow it, not the time that it should have had."""
    site_settings.set_rate(HOST, "2/s")
    real = clock.now
    late_s = iter([0.0, 0.0])  # before and after the reservation
    monkeypatch.setattr(clock, "now", lambda: real() + next(late_s, 0.3))
    waits = [slot["start_in_s"] for slot in program.call("POST", PATH, {"count": 3, "late_s": 0.5}).json()["slots"]]
    assert waits[0] == 0.0
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(waits))


def test_programs_and_weir_keep_the_rate_together(program: Program, in_threads: InThreads) -> None:
    """No run begins before an interval after the end of the one before, whoever holds them."""
    site_settings.set_rate(HOST, "20/s")

    def take(number: int) -> None:
        for count in (1, 3, 2):
            if number % 2:
                slots.reserve(HOST, count, max_wait=60.0)
            else:
                answer = Program(program.secret).call("POST", PATH, {"count": count, "max_wait_s": 60})
                assert len(ids(answer)) == count

    in_threads(6, take)
    assert Slot.objects.count() == 36
    runs = Slot.objects.values("use_until").annotate(start=Min("start_time")).order_by("start")
    gaps = [(later["start"] - earlier["use_until"]).total_seconds() for earlier, later in pairwise(runs)]
    assert min(gaps) >= 0.05


def test_programs_that_do_as_they_are_told_start_at_the_rate(program: Program, in_threads: InThreads) -> None:
    """As a site would see it: of starts by several programs, no two are closer than the interval."""
    site_settings.set_rate(HOST, "40/s")
    started: list[float] = []

    def work(_number: int) -> None:
        while len(started) < 24:
            asked_at = time.monotonic()
            taken = Program(program.secret).call("POST", PATH, {"count": 4, "late_s": 0.2}).json()
            came_at, late_s = time.monotonic(), 0.0
            for slot in taken["slots"]:
                start_at = came_at + slot["start_in_s"] + late_s
                while (now := time.monotonic()) < start_at:
                    time.sleep(start_at - now)  # a program that waits for its start
                if now - asked_at > taken["ask_after_s"]:
                    asked_again_at = time.monotonic()
                    told = program.call("POST", f"{PATH}/used", {"ids": [slot["id"]]}).json()["usable"]
                    now = time.monotonic()
                    if not told or now - asked_again_at > told[0]["start_within_s"]:
                        continue
                if now - asked_at < taken["start_within_s"]:
                    started.append(now)
                late_s = max(0.0, now - came_at - slot["start_in_s"])

    in_threads(3, work)
    gaps = [later - earlier for earlier, later in pairwise(sorted(started))]
    assert min(gaps) >= 0.025
    print(f"{len(started)} starts, the closest {min(gaps) * 1000:.1f} ms apart")


def pause() -> None:
    site_settings.pause(HOST)


def refuse() -> None:
    site_settings.back_off(HOST, 30.0)


def change_rate() -> None:
    site_settings.set_rate(HOST, "1/s")


@pytest.mark.parametrize("recall", [pause, refuse, change_rate])
def test_a_slot_that_was_recalled_is_not_used(program: Program, recall: Callable[[], None]) -> None:
    site_settings.set_rate(HOST, "2/s")
    first, second, third = ids(program.call("POST", PATH, {"count": 3}))
    assert usable(program, first, second) == sorted([first, second])
    recall()
    assert usable(program, first, second, third) == []
    assert Slot.objects.filter(finished_at=None).count() == 1, "what was recalled does not count as used"


def test_a_program_that_is_too_late_is_told_so(program: Program) -> None:
    """Its run is over: the site may belong to another holder."""
    site_settings.set_rate(HOST, "2/s")
    taken = ids(program.call("POST", PATH, {"count": 2}))
    Slot.objects.update(use_until=F("use_until") - timedelta(seconds=10))
    assert usable(program, *taken) == []


def test_used_slots_count_as_used_and_may_be_told_twice(program: Program) -> None:
    site_settings.set_rate(HOST, "2/s")
    taken = ids(program.call("POST", PATH, {"count": 2, "late_s": 5}))
    assert usable(program, *taken) == sorted(taken)
    noted = list(Slot.objects.order_by("pk").values_list("finished_at", flat=True))
    assert usable(program, *taken) == sorted(taken)
    assert None not in noted
    assert list(Slot.objects.order_by("pk").values_list("finished_at", flat=True)) == noted
    assert program.call("POST", f"{PATH}/released", {"ids": taken}).json() == {"released": 0}


def test_a_slot_that_is_given_back_is_for_the_next(program: Program) -> None:
    """At a site with one start an hour, nobody else has to wait for two hours."""
    site_settings.set_rate(HOST, "1/h")
    slots.finish(slots.reserve(HOST).slots[0].id)
    Site.objects.update(next_start=F("next_start") - timedelta(hours=1) + timedelta(seconds=30))
    [taken] = ids(program.call("POST", PATH, {"max_wait_s": 60}))
    far = program.call("POST", PATH, {"max_wait_s": 60})
    assert (far.status_code, far.json()["type"]) == (429, "/api/problems/slot-too-far")
    assert 3_500 <= int(far.headers["Retry-After"]) <= 3_600
    released = [program.call("POST", f"{PATH}/released", {"ids": [taken]}).json()["released"] for _ in range(2)]
    assert released == [1, 0]
    assert usable(program, taken) == []
    assert len(ids(program.call("POST", PATH, {"max_wait_s": 60}))) == 1


def test_a_run_is_not_long(program: Program, settings: Settings) -> None:
    """Other holders wait for its end, also if its program is killed."""
    for rate, count in (("100/s", 100), ("3/s", 14), ("1/s", 5), ("1/10s", 1)):
        site_settings.set_rate(HOST, rate)
        assert len(ids(program.call("POST", PATH, {"count": 100, "max_wait_s": 60}))) == count
    settings.WEIR_DEFAULT_RATE = "1/s"
    taken = program.call("POST", "/sites/new.example/slots", {"count": 100})
    assert (len(ids(taken)), Site.objects.get(name="new.example").rate) == (5, "1/s")


def test_a_paused_site_gives_no_slot(program: Program) -> None:
    site_settings.set_rate(HOST, "2/s")
    site_settings.pause(HOST)
    answer = program.call("POST", PATH, {})
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "3600")
    assert "is paused until it is resumed" in answer.json()["detail"]
    assert not Slot.objects.exists()


def test_a_refusal_holds_for_all(program: Program) -> None:
    """Refusals of a run count once: a series of back-offs would make the next one longer."""
    site_settings.set_rate(HOST, "2/s")
    taken = ids(program.call("POST", PATH, {"count": 3}))
    said = {"id": taken[0], "retry_after_s": 30, "reason": "429 Slow down"}
    answer = program.call("POST", f"/sites/{HOST}/refusals", said)
    assert 29 <= answer.json()["backed_off_for_s"] <= 30
    assert program.call("POST", f"/sites/{HOST}/refusals", {"id": taken[1]}).json() == {"backed_off_for_s": None}
    site = Site.objects.get(name=HOST)
    assert (site.backoff_level, site.backoff_reason) == (1, "429 Slow down")
    assert usable(program, taken[2]) == []
    assert int(program.call("POST", PATH, {}).headers["Retry-After"]) >= 29
