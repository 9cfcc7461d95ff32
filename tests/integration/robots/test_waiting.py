"""A fetch that waits for its robots.txt keeps its place in the queue, and has its turn."""

import pytest

from tests.integration.conftest import Message, database_now, dispatch_message
from tests.integration.robots.conftest import HOUR, ORIGIN, PAGE, answered, claimed, known, stored
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.jobs import Job, Snoozed
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile, RobotsState
from weir.workers.fetches.robots import gate as robots_gate
from weir.workers.fetches.robots.files import RobotsFiles

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


def waiting(files: RobotsFiles, *paths: str) -> list[Job]:
    """Claim, and turn away, pages of an origin whose robots.txt is on its way; returns their jobs."""
    known()
    request_fetches(f"{ORIGIN}/{path}" for path in paths)
    jobs = claimed()
    RobotsFile.objects.all().delete()
    let_through, events = robots_gate.admit(jobs, files)
    assert let_through == []
    for event in events:
        stored(event)
    return jobs


def free() -> None:
    """Let the sites be free for their next starts."""
    Site.objects.update(next_start=database_now() - HOUR)


def test_a_fetch_that_waited_has_its_place_in_the_queue_again(files: RobotsFiles) -> None:
    """What was asked for earlier is fetched earlier, though the later ones never waited."""
    waiting(files, "1", "2")
    request_fetches([f"{ORIGIN}/3", f"{ORIGIN}/4"])
    free()
    [robots] = claimed()
    answered(robots, 404)
    free()
    assert [job.url for job in claimed()] == [f"{ORIGIN}/{number}" for number in (1, 2, 3, 4)]


def test_it_keeps_its_place_however_often_it_waits(files: RobotsFiles) -> None:
    """The time at which it was due first counts, not that of the last wait."""
    due = [job.fetch_id for job in waiting(files, "1", "2")]
    was_due = list(Fetch.objects.filter(pk__in=due).order_by("pk").values_list("due_since", flat=True))
    Fetch.objects.filter(is_robots=True).update(not_before=database_now() + HOUR)
    Fetch.objects.filter(pk__in=due).update(not_before=database_now())
    free()
    for event in robots_gate.admit(claimed(), files)[1]:
        stored(event)
    again = Fetch.objects.filter(pk__in=due).order_by("pk")
    assert list(again.values_list("due_since", flat=True)) == was_due
    assert min(again.values_list("not_before", flat=True)) > database_now()


def test_a_fetch_that_lost_its_slot_after_it_had_waited_has_its_place_again(files: RobotsFiles) -> None:
    """A run that is over before its turn came is no reason to go behind others."""
    [job] = waiting(files, "1")
    Fetch.objects.filter(is_robots=True).delete()
    Fetch.objects.filter(is_robots=False).update(not_before=database_now())
    was_due = Fetch.objects.get(pk=job.fetch_id).due_since
    free()
    [job] = claimed()
    stored(Snoozed(job=job))
    fetch = Fetch.objects.get(pk=job.fetch_id)
    assert (fetch.state, fetch.not_before, fetch.due_since) == (FetchState.QUEUED, was_due, None)


def test_a_site_at_which_all_wait_is_dispatched_when_the_robots_txt_has_come(
    files: RobotsFiles, messages: list[Message]
) -> None:
    """Dispatch does not look at the site until the wait is over, which may be sooner than was noted."""
    waiting(files, "1", "2")
    free()
    [robots] = claimed()
    site = Site.objects.get()
    assert not site.has_backlog
    assert site.due_at is not None
    messages.clear()
    answered(robots, 404)
    assert dispatch_message("site.example") in messages
    assert Site.objects.get().has_backlog
    free()
    assert len(claimed()) == 2


def test_what_waits_for_another_robots_txt_goes_on_waiting(files: RobotsFiles) -> None:
    """Also where both are at one site."""
    site_settings.set_rate("example", "10/s", covers_subdomains=True)
    waits, other = "https://a.example", "https://b.example"
    request_fetches([f"{waits}/page", f"{other}/page"])
    Fetch.objects.filter(is_robots=True).delete()
    Site.objects.update(recalled_at=None)
    for event in robots_gate.admit(claimed(), files)[1]:
        stored(event)
    free()
    answered(next(job for job in claimed() if job.url == f"{other}/robots.txt"), 404)
    assert Fetch.objects.get(url=f"{other}/page").due_since is None
    assert Fetch.objects.get(url=f"{other}/page").not_before < database_now()
    assert Fetch.objects.get(url=f"{waits}/page").due_since is not None


def test_a_fetch_that_begins_to_wait_for_what_has_just_come_goes_on_at_once(
    files: RobotsFiles, messages: list[Message]
) -> None:
    """Whichever is committed first, the answer or the wait."""
    known()
    request_fetch(PAGE)
    jobs = claimed()
    RobotsFile.objects.all().delete()
    _, [event] = robots_gate.admit(jobs, files)
    known()
    messages.clear()
    stored(event)
    fetch = Fetch.objects.get(url=PAGE)
    assert (fetch.state, fetch.due_since) == (FetchState.QUEUED, None)
    assert fetch.not_before < database_now()
    assert dispatch_message("site.example") in messages
    assert Site.objects.get().has_backlog


def test_an_attempt_that_failed_goes_behind_though_it_had_waited(files: RobotsFiles) -> None:
    """Only a fetch that waits without an attempt keeps its place."""
    waiting(files, "1")
    known(state=RobotsState.UNREACHABLE, error="no answer")
    Fetch.objects.filter(is_robots=False).update(not_before=database_now())
    Fetch.objects.filter(is_robots=True).delete()
    free()
    _, [event] = robots_gate.admit(claimed(), files)
    stored(event)
    fetch = Fetch.objects.get()
    assert (fetch.attempts, fetch.due_since) == (1, None)
    assert fetch.not_before > database_now() + HOUR


def test_pages_of_many_origins_get_every_third_slot(files: RobotsFiles) -> None:
    """Also where what is known has expired whenever a page's turn comes, and new origins never cease to arrive."""
    site_settings.set_rate("example", "1/2h", covers_subdomains=True)
    pages = [f"https://{number}.example/" for number in range(5)]
    request_fetches(pages)
    Fetch.objects.filter(is_robots=True).delete()
    for number, url in enumerate(pages):
        Fetch.objects.filter(url=url).update(not_before=database_now() - HOUR * (20 - number))
    done: list[str] = []
    slots_used = 0
    while len(done) < len(pages) and slots_used < 100:
        slots_used += 1
        request_fetch(f"https://new{slots_used}.example/")
        Site.objects.update(recalled_at=None)
        free()
        let_through, events = robots_gate.admit(claimed(), files)
        for event in events:
            stored(event)
        RobotsFile.objects.all().delete()  # the fetch that needed it has seen it
        files = RobotsFiles()
        for job in let_through:
            answered(job, 404 if job.is_robots else 200)
            done.extend([job.url] if not job.is_robots else [])
    assert (done, slots_used) == (pages, 3 * len(pages))
