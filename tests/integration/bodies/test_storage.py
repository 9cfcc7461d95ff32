"""Large bodies go to a storage: once, in pieces, and without harm to other fetches if the storage fails."""

import hashlib
import json
import os
import re
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from django.core.files.storage import FileSystemStorage
from django.core.management import CommandError, call_command
from pytest_django import Settings

from demo.fakes import sites
from tests.integration.bodies import storages
from tests.integration.conftest import Eventually, StartPython, database_now
from tests.integration.fetching import fetch_until, fetched
from tests.programs import Program, token
from weir.ratelimit import site_settings
from weir.workers.fetches.bodies.spilled import SpilledBody
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.results import keeper
from weir.workers.fetches.fetcher.results.keeper import THREADS
from weir.workers.fetches.maintenance import bodies
from weir.workers.fetches.maintenance.bodies import purge_bodies
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import (
    BodyFile,
    BodyGone,
    BodyKeeping,
    BodyUnreachable,
    Fetch,
    FetchBody,
    FetchState,
    KeptBody,
)

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = 3_000_000
FROM = 100_000
AT_LENGTH: Final = "WEIR_FAULTS" in os.environ
HUGE = 200_000_000 if AT_LENGTH else 60_000_000


class Panic(BaseException):
    """As of a storage that is written in Rust."""


@pytest.fixture(autouse=True)
def _storage(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.STORAGES = {
        **settings.STORAGES,
        "bodies": {"BACKEND": "tests.integration.bodies.storages.Failing", "OPTIONS": {"location": tmp_path / "kept"}},
    }
    settings.WEIR_FETCH_STORAGE = "bodies"
    settings.WEIR_FETCH_STORAGE_FROM = FROM
    settings.WEIR_FETCH_TIMEOUT = 10.0
    monkeypatch.setattr(storages, "failing", frozenset())
    monkeypatch.setattr(bodies, "YOUNG_S", 0.0)


def files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]


def fetch_all(fetcher: Fetcher, *urls: str, **options: Any) -> list[Fetch]:
    wanted = request_fetches(urls, **options)
    for site in {url.split("/")[2] for url in urls}:
        site_settings.set_rate(site, "50/s", grace=timedelta(seconds=5))
    fetch_until(fetcher, lambda: not Fetch.objects.unfinished().exists(), "the end of all fetches")
    return [Fetch.objects.get(pk=fetch.pk) for fetch in wanted]


def test_large_bodies_are_files_and_the_same_one_is_one_file(
    running_sites: sites.Sites, fetcher: Fetcher, tmp_path: Path
) -> None:
    """Packed or not, spilled or not; a small one stays in PostgreSQL. All are read as before, or in pieces."""
    paths = [f"/big/{LARGE}/{number}" for number in range(3)] + ["/gzipbomb/2", f"/big/{FROM}", "/ok"]
    *large, zeros, least, small = fetch_all(fetcher, *(running_sites.url(0, path) for path in paths))
    expected = {LARGE, 2_000_000, FROM}
    assert sorted(path.stat().st_size for path in files(tmp_path)) == sorted(expected)
    assert set(KeptBody.objects.values_list("size", flat=True)) == expected
    assert not KeptBody.objects.filter(content__isnull=False).exists()
    assert not BodyFile.objects.exists()
    for kept in KeptBody.objects.all():
        with kept.open() as file:
            assert hashlib.sha256(file.read()).digest() == bytes(kept.pk)
    assert zeros.content == bytes(2_000_000)
    assert {len(fetch.content or b"") for fetch in large} == {LARGE}
    assert len(least.content or b"") == FROM
    assert FetchBody.objects.get(pk=small.pk).own is not None
    opened = large[0].open_content()
    assert opened is not None
    with opened:
        assert len(opened.read(1_000)) == 1_000


def test_a_storage_that_fails_fails_this_fetch_and_no_other(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is tried again as often as others; the error says what is wrong. What was noted is cleaned up later."""
    monkeypatch.setattr(storages, "failing", frozenset({"save"}))
    urls = [running_sites.url(0, path) for path in (f"/big/{LARGE}", "/ok/1", "/ok/2")]
    failed, *others = fetch_all(fetcher, *urls, max_attempts=1)
    assert failed.state == FetchState.FAILED
    assert failed.error == "unexpected: the storage did not take the body: OSError (attempt 1 of 1)"
    assert {fetch.state for fetch in others} == {FetchState.DONE}
    assert (BodyFile.objects.count(), files(tmp_path)) == (1, [])
    again = request_fetch(running_sites.url(1, f"/big/{LARGE}/again"), max_attempts=2)
    fetch_until(fetcher, lambda: Fetch.objects.get(pk=again.pk).attempts == 1, "an attempt")
    assert Fetch.objects.get(pk=again.pk).error.endswith("did not take the body: OSError")
    monkeypatch.setattr(storages, "failing", frozenset())
    Fetch.objects.filter(pk=again.pk).update(not_before=database_now())
    assert fetched(again, fetcher).state == FetchState.DONE


def test_a_full_disk_fails_this_fetch_and_no_other(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the site nor the fetcher's other work is blamed."""

    def full(_body: SpilledBody, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SpilledBody, "write", full)
    urls = [running_sites.url(0, path) for path in (f"/big/{LARGE}", "/ok/1")]
    failed, other = fetch_all(fetcher, *urls, max_attempts=1)
    assert failed.error == "unexpected: the disk did not take the body: OSError (attempt 1 of 1)"
    assert other.state == FetchState.DONE
    assert not fetcher._session.is_paused()


def test_a_keeper_goes_on_after_whatever_a_storage_raises(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panic in Rust is no Exception: it comes more often than there are threads, and large bodies are kept again."""

    def panic(*_arguments: object) -> str:
        raise Panic

    with monkeypatch.context() as patched:
        patched.setattr(storages.Failing, "_save", panic)
        urls = [running_sites.url(0, f"/big/{LARGE}/{number}") for number in range(THREADS)]
        failed = fetch_all(fetcher, *urls, max_attempts=1)
    expected = "unexpected: the storage did not take the body: Panic (attempt 1 of 1)"
    assert {fetch.error for fetch in failed} == {expected}
    assert fetch_all(fetcher, running_sites.url(1, f"/big/{LARGE}/now"))[0].state == FetchState.DONE


def test_an_answer_that_comes_again_while_the_first_waits_takes_no_room_for_good(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """The storage is so slow that leases run out: what each answer holds is given back."""
    go_on = threading.Event()
    given = storages.Failing._save

    def slow(storage: storages.Failing, name: str, content: object) -> str:
        go_on.wait(30)
        return given(storage, name, content)

    monkeypatch.setattr(storages.Failing, "_save", slow)
    monkeypatch.setattr(keeper, "THREADS", 1)
    first, second = request_fetches([running_sites.url(0, f"/big/{LARGE + number}") for number in range(2)])
    waiting = fetcher._writer._keeper._held
    fetch_until(fetcher, lambda: len(waiting) == 2, "both answers")
    Fetch.objects.filter(state=FetchState.RUNNING).update(lease_until=database_now() - timedelta(seconds=1))
    sweep()
    Fetch.objects.update(not_before=database_now())
    fetch_until(fetcher, lambda: len(waiting) == 4, "both answers again")
    go_on.set()
    fetch_until(fetcher, lambda: not Fetch.objects.unfinished().exists(), "the end of both")
    eventually(lambda: fetcher._held == 0, "all places are free")
    eventually(lambda: not fetcher._session._shared.disk.room._held, "the disk is free")
    assert {len(fetch.content or b"") for fetch in Fetch.objects.all()} == {LARGE, LARGE + 1}
    assert {first.pk, second.pk} == set(Fetch.objects.values_list("pk", flat=True))


def test_a_body_larger_than_allowed_fails_and_a_part_may_be_kept(
    running_sites: sites.Sites, fetcher: Fetcher, settings: Settings
) -> None:
    """As in memory, packed or not."""
    settings.WEIR_FETCH_MAX_BODY = 1_500_000
    paths = (f"/big/{LARGE}", "/gzipbomb/3")
    for keep in (False, True):
        settings.WEIR_FETCH_KEEP_INCOMPLETE = keep
        for fetch in fetch_all(fetcher, *(running_sites.url(keep, f"{path}/{keep}") for path in paths)):
            assert fetch.error == "the body is larger than 1500000 bytes (WEIR_FETCH_MAX_BODY)"
            content = fetch.content
            assert (content and len(content)) == (1_500_000 if keep else None)


def test_a_file_goes_with_the_last_fetch_that_has_its_body(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A storage that cannot delete it is asked again in the next turn."""
    fetch_all(fetcher, *(running_sites.url(0, f"/big/{LARGE}/{number}") for number in range(2)))
    Fetch.objects.all()[:1].get().delete()
    purge_bodies()
    assert len(files(tmp_path)) == 1
    monkeypatch.setattr(storages, "failing", frozenset({"delete"}))
    Fetch.objects.all().delete()
    purge_bodies()
    assert (len(files(tmp_path)), KeptBody.objects.count(), BodyFile.objects.count()) == (1, 0, 1)
    monkeypatch.setattr(storages, "failing", frozenset())
    purge_bodies()
    assert (files(tmp_path), BodyFile.objects.count()) == ([], 0)


def test_a_file_that_was_written_and_never_kept_is_deleted_after_a_day(tmp_path: Path) -> None:
    """The fetcher died between the two; a younger one may still be kept."""
    storage = FileSystemStorage(tmp_path / "kept")
    for name, age in (("old", timedelta(hours=25)), ("young", timedelta(hours=23))):
        with (tmp_path / name).open("wb") as file:
            file.write(b"x")
        with (tmp_path / name).open("rb") as file:
            storage.save(name, file)
        BodyFile.objects.create(name=name, storage="bodies", noted_at=database_now() - age)
    purge_bodies()
    assert [path.name for path in files(tmp_path)] == ["young"]
    assert BodyFile.objects.get().name == "young"


def test_a_file_that_cannot_be_deleted_keeps_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor do those of a storage that is gone, however many there are; and one turn deletes more than one batch.

    Some storages raise an error if there is no such file: it was noted, and never written.
    """
    monkeypatch.setattr(bodies, "BATCH", 2)
    monkeypatch.setattr(storages, "failing", frozenset({"locked", "other 1"}))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "locked").touch()
    old = database_now() - timedelta(days=9)
    gone = [BodyFile(name=f"gone {number}", storage="gone", noted_at=old) for number in range(5)]
    others = [BodyFile(name=f"other {number}", storage="bodies", noted_at=old) for number in range(5)]
    BodyFile.objects.bulk_create([*gone, BodyFile(name="locked", storage="bodies", noted_at=old), *others])
    purge_bodies()
    assert BodyFile.objects.filter(storage="bodies").count() == 6
    purge_bodies()
    assert BodyFile.objects.get(storage="bodies").name == "locked"
    assert BodyFile.objects.filter(storage="gone").count() == 5


def test_who_reads_a_body_whose_file_is_lost_is_told_so(
    running_sites: sites.Sites, fetcher: Fetcher, settings: Settings, tmp_path: Path
) -> None:
    """And so is who has taken the storage out of the settings."""
    [fetch] = fetch_all(fetcher, running_sites.url(0, f"/big/{LARGE}"))
    [file] = files(tmp_path)
    file.unlink()
    with pytest.raises(BodyGone, match=f"storage 'bodies' has lost the file of the body, weir-bodies/.*{file.name}"):
        _ = fetch.content
    settings.STORAGES = {name: value for name, value in settings.STORAGES.items() if name != "bodies"}
    with pytest.raises(BodyGone, match="in the storage 'bodies', which STORAGES does not have"):
        _ = fetch.content


@pytest.mark.parametrize("down", ["open", "read"])
def test_who_reads_a_body_while_its_storage_is_away_is_told_to_come_again(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, down: str
) -> None:
    """In code, at the command line and over HTTP; and when the storage is back, the body is read, also in parts."""
    [fetch] = fetch_all(fetcher, running_sites.url(0, f"/big/{LARGE}"))
    program, path = Program(token("weir_fetches.view_fetch")), f"/fetches/{fetch.pk}/body"
    monkeypatch.setattr(storages, "failing", frozenset({down}))
    said = r"The body is in the storage 'bodies', which cannot be read now \(ConnectionError\): try again later\."
    for read in (lambda: fetch.content, lambda: fetch.text):
        with pytest.raises(BodyUnreachable, match=said):
            read()
    with pytest.raises(CommandError, match=said):
        call_command("fetches", "show", str(fetch.pk), "--body")
    answer = program.call("GET", path)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert re.fullmatch(said, answer.json()["detail"])
    monkeypatch.setattr(storages, "failing", frozenset({"limit"}))
    with pytest.raises(SoftTimeLimitExceeded):  # of the task that reads it
        _ = fetch.content
    monkeypatch.setattr(storages, "failing", frozenset())
    answer = program.call("GET", path)
    [file] = files(tmp_path)
    assert (answer.status_code, b"".join(answer.streaming_content)) == (200, file.read_bytes())
    content = fetch.open_content()
    assert content
    with content:
        assert content.seek(-3, 2) == content.tell() == LARGE - 3
        assert content.read() == file.read_bytes()[-3:]
        content.seek(1)
        assert content.read(2) == file.read_bytes()[1:3]


@pytest.mark.parametrize("lost", ["file", "storage", "bytes"])
def test_a_body_that_comes_again_is_written_if_its_file_is_lost(
    lost: str, running_sites: sites.Sites, fetcher: Fetcher, settings: Settings, tmp_path: Path
) -> None:
    """Or if PostgreSQL had its bytes, before there was a storage: then the file takes their place."""
    settings.WEIR_FETCH_STORAGE = "" if lost == "bytes" else "bodies"
    purge_bodies()
    [first] = fetch_all(fetcher, running_sites.url(0, f"/big/{LARGE}/first"))
    assert len(files(tmp_path)) == (lost != "bytes")
    settings.WEIR_FETCH_STORAGE = "bodies"
    BodyKeeping.objects.all().delete()
    if lost == "file":
        files(tmp_path)[0].unlink()
    if lost == "storage":
        settings.STORAGES = {"other" if name == "bodies" else name: value for name, value in settings.STORAGES.items()}
        settings.WEIR_FETCH_STORAGE = "other"
    [again] = fetch_all(fetcher, running_sites.url(1, f"/big/{LARGE}/again"))
    [kept] = KeptBody.objects.all()
    assert len(again.content or b"") == len(first.content or b"") == LARGE
    assert (kept.content, kept.storage) == (None, settings.WEIR_FETCH_STORAGE)
    assert len(files(tmp_path)) == 1 + (lost == "storage")
    assert not BodyFile.objects.exists()


def test_a_storage_that_names_files_by_their_content_keeps_the_file_of_who_was_first(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another process keeps the body, in the file with this name, while this one writes it."""
    file = tmp_path / "kept" / "by-content"

    def first(_storage: object, _name: str, content: Any) -> str:
        file.parent.mkdir()
        file.write_bytes(content.read())
        digest = hashlib.sha256(file.read_bytes()).digest()
        KeptBody.objects.create(pk=digest, size=LARGE, storage="bodies", file=file.name)
        return file.name

    monkeypatch.setattr(storages.Failing, "_save", first)
    [fetch] = fetch_all(fetcher, running_sites.url(0, f"/big/{LARGE}"))
    BodyFile.objects.update(noted_at=database_now() - timedelta(days=2))
    purge_bodies()
    assert len(fetch.content or b"") == LARGE


def test_a_fetcher_that_stops_gives_back_what_its_storage_has_not_taken(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for no storage: no attempt counts, and the fetch is not lost with the process."""
    taken, go_on = threading.Event(), threading.Event()

    def hang(*_arguments: object) -> str:
        taken.set()
        go_on.wait(30)
        return "too late"

    monkeypatch.setattr(storages.Failing, "_save", hang)
    fetch = request_fetch(running_sites.url(0, f"/big/{LARGE}"))
    fetch_until(fetcher, taken.is_set, "the storage to be asked")
    fetcher.close(0.5)
    fetch.refresh_from_db()
    assert (fetch.state, fetch.attempts) == (FetchState.QUEUED, 0)
    go_on.set()


SCRIPT = """
import json, os, time
from django.test import override_settings
override_settings(
    WEIR_FETCH_ALLOW_NETS=["127.1.0.0/16"], WEIR_FETCH_MAX_MEMORY=16 * 2**20, WEIR_FETCH_MAX_BODY=2**30,
    WEIR_FETCH_STORAGE="bodies", WEIR_FETCH_TIMEOUT=120.0,
    STORAGES={"bodies": {"BACKEND": "tests.integration.bodies.storages.Failing", "OPTIONS": {"location": sys.argv[1]}}},
).enable()
from tests.integration.fetching import reserve_all
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch

def fetch_all(urls):
    request_fetches(urls)
    give_up_at = time.monotonic() + 150
    while Fetch.objects.unfinished().exists():
        assert time.monotonic() < give_up_at, list(Fetch.objects.values_list("state", "error"))
        if slots := reserve_all():
            fetcher.run_batch(slots)
        time.sleep(0.02)

def peak():
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1])

fetcher = Fetcher()
fetch_all(sys.argv[2:3])
before, began_at = peak(), time.monotonic()
fetch_all(sys.argv[3:])
print(json.dumps({"kib": peak() - before, "s": time.monotonic() - began_at}), flush=True)
fetcher.close(3.0)
"""


@pytest.mark.parametrize("path", [f"/big/{HUGE}", f"/gzipbomb/{HUGE // 1_000_000}"], ids=["plain", "packed"])
def test_a_huge_body_needs_no_more_memory_than_a_small_one(
    path: str, running_sites: sites.Sites, start_python: StartPython, tmp_path: Path
) -> None:
    """With 16 MiB for all answers, a process grows by less than that. Its file has all bytes."""
    urls = running_sites.url(0, f"/big/{2 * 2**20}"), running_sites.url(1, path)
    output, _ = start_python(SCRIPT, tmp_path / "kept", *urls).communicate(timeout=170)
    told = json.loads(output)
    print(told)
    assert set(Fetch.objects.values_list("state", "error")) == {(FetchState.DONE, "")}
    assert max(file.stat().st_size for file in files(tmp_path)) == HUGE
    assert told["kib"] < 16 * 1024
