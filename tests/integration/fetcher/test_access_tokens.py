"""Access tokens: a header names an OAuth client, and each request has a token that is asked for once for all."""

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings
from structlog.testing import capture_logs

from tests.answering import answering
from tests.integration.conftest import claimed
from tests.integration.fetching import SITE, fetch_until, fetched, reserve_all, running
from tests.oauth import CLIENT, Server
from tests.rows import rows
from tests.waiting import wait_for
from weir.conf.oauth_clients import oauth_client
from weir.ratelimit import clock, site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.access_tokens import answers, gate, sealing, tokens
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.claim import successors_of
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.results import token_outcomes
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.fetcher.results.writer import outcome_of
from weir.workers.fetches.held_tokens import HeldToken, RefusedToken, TokenReading
from weir.workers.fetches.jobs import Failure, Snoozed
from weir.workers.fetches.maintenance.purge import purge
from weir.workers.fetches.maintenance.stepping import put_right
from weir.workers.fetches.models import AccessToken, Fetch, FetchState
from weir.workers.fetches.reports.fetch_way import fetch_way
from weir.workers.fetches.reports.why import why
from weir.workers.fetches.retrying import Retried, retry_failed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

Serving = Callable[[], Server]
ELSEWHERE = {**CLIENT, "token_url": "https://token.example/"}


@pytest.fixture(autouse=True)
def _soon(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR_OBEY_ROBOTS = False
    monkeypatch.setattr(gate, "WAIT", 0.05)


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Return a function that starts a server."""
    with ExitStack() as leaving:
        numbers = iter(range(1, 250))

        def started() -> Server:
            made = Server(f"127.1.251.{next(numbers)}")
            site_settings.set_rate(made.name, "100/s")
            leaving.enter_context(answering(made.server))
            return made

        yield started


@pytest.fixture
def api(serving: Serving, settings: Settings) -> Server:
    """Return an API that wants tokens of its own server, by which the client SHOP is known."""
    server = serving()
    settings.WEIR_SECRETS = {"SHOP": server.described()}
    site_settings.set_rate(server.name, headers={"Authorization": "Bearer {token:SHOP}"})
    return server


def test_each_request_has_a_token_that_was_asked_for_once(api: Server, fetcher: Fetcher) -> None:
    """The client says who it is as RFC 6749 wants it by default; its request takes a slot, before all others."""
    for number in range(3):
        assert fetched(request_fetch(api.url(f"/{number}")), fetcher).status_code == 200
    [request] = api.requests
    assert request.fields == {"grant_type": ["client_credentials"]}
    assert (request.headers["Accept"], request.headers["Content-Type"]) == (
        "application/json",
        "application/x-www-form-urlencoded",
    )
    [token] = api.issued
    assert [asked.token for asked in api.asked] == [token] * 3
    [asked] = Fetch.objects.exclude(token_client="")
    assert (asked.state, asked.token_client, asked.url) == (FetchState.DONE, "SHOP", api.url("/token"))
    assert asked.slot_id
    assert asked.priority == 32_767


def test_a_client_may_say_who_it_is_in_the_body_and_what_it_wants(
    api: Server, fetcher: Fetcher, settings: Settings
) -> None:
    """A secret may be JSON; a resource may be named twice (RFC 8707)."""
    wanted = {"scope": "orders:read", "resource": ["urn:a", "urn:b"], "parameters": {"account": "7"}}
    settings.WEIR_SECRETS = {"SHOP": json.dumps(api.described(auth="body", **wanted))}
    assert fetched(request_fetch(api.url("/")), fetcher).status_code == 200
    [request] = api.requests
    assert "Authorization" not in request.headers
    assert {name: values for name, values in request.fields.items() if name not in CLIENT} == {
        "grant_type": ["client_credentials"],
        "scope": ["orders:read"],
        "resource": ["urn:a", "urn:b"],
        "account": ["7"],
    }


def test_each_fetch_may_have_a_client_of_its_own(api: Server, fetcher: Fetcher, settings: Settings) -> None:
    """So each tenant has its own token."""
    settings.WEIR_SECRETS = {"SHOP": api.described(), "TENANT": api.described(scope="tenant")}
    fetched(request_fetch(api.url("/shop")), fetcher)
    fetched(request_fetch(api.url("/tenant"), headers={"Authorization": "Bearer {token:TENANT}"}), fetcher)
    assert [request.fields.get("scope") for request in api.requests] == [None, ["tenant"]]
    assert len({asked.token for asked in api.asked}) == 2


def test_neither_a_token_nor_what_describes_a_client_is_stored_or_logged(
    api: Server, serving: Serving, fetcher: Fetcher
) -> None:
    """Not where the site repeats the token, not where it redirects with it, not to another origin."""
    other = serving()
    api.extra["refresh_token"] = "canary-refresh"  # noqa: S105
    with capture_logs() as logged:
        found = fetched(request_fetch(api.url(f"/?to={other.url('/away')}")), fetcher)
        [token] = api.issued
        leaky = fetched(request_fetch(api.url(f"/?to=/again?said={token}")), fetcher)
        api.answers.append((400, {"Set-Cookie": f"t={token}"}, json.dumps({"error": CLIENT["client_secret"]}).encode()))
        AccessToken.objects.all().delete()
        refused = fetched(request_fetch(api.url("/"), max_attempts=1), fetcher)
    assert [asked.token for asked in other.asked] == [""]
    assert found.status_code == 401
    assert leaky.error == "redirected to a URL that contains a secret of the request"
    assert refused.error == "the secret SHOP brings no access token: the server answered 400 (attempt 1 of 1)"
    stored = rows()
    for text in (
        token,
        quote(token),
        "canary",
        *(base64.b64encode(each.encode()).decode() for each in CLIENT.values()),
    ):
        assert text not in stored.replace(found.url, "").replace(leaky.url, "")
        assert text not in str(logged)


def test_a_token_is_read_with_the_secret_key_and_the_description_alone(
    api: Server, fetcher: Fetcher, settings: Settings
) -> None:
    """Who has a dump can neither read it, nor find out by its key what the secret is."""
    fetched(request_fetch(api.url("/")), fetcher)
    row = AccessToken.objects.get()
    client = oauth_client("SHOP")
    assert sealing.unseal(client, bytes(row.sealed or b"")) in api.issued
    settings.WEIR_SECRETS = {"SHOP": api.described(client_secret="another")}  # noqa: S106
    assert sealing.unseal(oauth_client("SHOP"), bytes(row.sealed or b"")) is None
    assert sealing.key_of(oauth_client("SHOP")) != row.key
    settings.SECRET_KEY = "another"  # noqa: S105
    assert sealing.key_of(client) != row.key
    assert sealing.unseal(client, bytes(row.sealed or b"")) is None


def test_the_key_of_a_row_is_no_part_of_the_lock(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is SECRET_KEY alone enough: who reads a dump with it still lacks the secret."""
    monkeypatch.setattr(sealing, "key_of", lambda _client: UUID(int=1))
    settings.WEIR_SECRETS = {"SHOP": ELSEWHERE, "OTHER": ELSEWHERE}
    sealed = sealing.seal(oauth_client("SHOP"), "t")
    assert sealing.unseal(oauth_client("SHOP"), sealed) == "t"
    assert sealing.unseal(oauth_client("OTHER"), sealed) is None


def test_another_description_of_the_client_has_another_token(api: Server, fetcher: Fetcher, settings: Settings) -> None:
    """So a secret that is replaced counts from the next request on."""
    fetched(request_fetch(api.url("/")), fetcher)
    settings.WEIR_SECRETS = {"SHOP": api.described(scope="more")}
    fetched(request_fetch(api.url("/")), fetcher)
    assert len(api.requests) == len({asked.token for asked in api.asked}) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {}, b'{"error": "invalid_client"}'), "the server answered 401: invalid_client"),
        ((200, {}, b"<html>"), "the server answered 200, without an access_token"),
        ((307, {"Location": "/elsewhere"}, b""), "the server redirected the request (307), which is not followed"),
        ((200, {}, b" " * 70_000), "the body is larger than 65536 bytes"),
    ],
)
def test_a_fetch_fails_if_there_is_no_token_for_it_and_nothing_is_sent(
    api: Server, fetcher: Fetcher, answer: tuple[int, dict[str, str], bytes], said: str
) -> None:
    """The next fetch fails for the same reason, without another request for a token; a minute later there is one."""
    api.answers.append(answer)
    for _ in range(2):
        fetch = fetched(request_fetch(api.url("/"), max_attempts=1), fetcher)
        assert fetch.state == FetchState.FAILED
        assert f"the secret SHOP brings no access token: {said}" in fetch.error
    assert (len(api.requests), api.asked) == (1, [])
    AccessToken.objects.update(refresh_at=F("refresh_at") - timedelta(seconds=60))
    assert fetched(request_fetch(api.url("/"), max_attempts=1), fetcher).status_code == 200


def test_a_token_is_renewed_before_it_expires(api: Server, fetcher: Fetcher) -> None:
    """Nobody waits for that: until the new one is there, requests have the old one, even if the server is down."""
    fetched(request_fetch(api.url("/")), fetcher)
    AccessToken.objects.update(refresh_at=Now())
    api.answers.append((500, {}, b""))
    fetched(request_fetch(api.url("/")), fetcher)
    wait_for(lambda: dispatched(fetcher) and AccessToken.objects.get().version == 2, 20, "another token")
    fetched(request_fetch(api.url("/")), fetcher)
    assert [asked.token for asked in api.asked] == [*[next(iter(api.issued))] * 2, list(api.issued)[1]]


def test_a_token_that_will_have_expired_when_its_slot_comes_is_not_sent(settings: Settings) -> None:
    """It is judged by the start that is planned, and not by the moment at which a fetcher gets the fetch."""
    settings.WEIR_SECRETS = {"SHOP": ELSEWHERE}
    client, now = oauth_client("SHOP"), clock.now()
    reading = answers.read(client, 200, b'{"access_token": "t", "expires_in": 60}')
    tokens.note([replace(reading, requested_at=now)])
    [job] = running()
    [soon, late] = [
        replace(job, request_headers={"X": "{token:SHOP}"}, fetch_id=number, start_at=now + start_s)
        for number, start_s in enumerate((50, 58))
    ]
    [carries], [waits] = gate.admit([soon, late])
    assert carries.tokens["SHOP"].text == "t"
    assert isinstance(waits, Snoozed)


def test_a_token_that_has_expired_is_not_sent(api: Server, fetcher: Fetcher) -> None:
    """The fetch waits for another one; that counts as no attempt."""
    fetched(request_fetch(api.url("/")), fetcher)
    AccessToken.objects.update(expires_at=Now(), refresh_at=Now())
    fetch = fetched(request_fetch(api.url("/")), fetcher)
    assert (fetch.status_code, fetch.attempts) == (200, 1)
    assert len(api.issued) == 2


def test_a_site_that_refuses_a_token_gets_another_one_once(api: Server, fetcher: Fetcher) -> None:
    """A server may forget its tokens. All fetches have the new one; a new one that is refused, too, is not replaced."""
    fetched(request_fetch(api.url("/")), fetcher)
    api.revoke_all()
    AccessToken.objects.update(obtained_at=F("obtained_at") - timedelta(seconds=60))
    fetch = fetched(request_fetch(api.url("/"), max_attempts=1), fetcher)
    assert (fetch.state, fetch.status_code, fetch.attempts) == (FetchState.DONE, 200, 1)
    api.revoke_all()
    assert fetched(request_fetch(api.url("/")), fetcher).status_code == 401
    AccessToken.objects.update(obtained_at=F("obtained_at") - timedelta(seconds=60))
    api.life_s, api.extra["expires_in"] = 0.0, 3_600  # it refuses what it gives
    assert fetched(request_fetch(api.url("/")), fetcher).status_code == 401
    assert len(api.requests) == 3
    assert [asked.status for asked in api.asked] == [200, 401, 200, 401, 401, 401]


def test_a_second_refusal_in_a_row_is_the_answer(
    api: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where slots are far apart, each token is old when its fetch has one: it would be asked for without an end."""
    monkeypatch.setattr(token_outcomes, "ASKED_EVERY_S", 0.0)
    api.life_s, api.extra["expires_in"] = 0.0, 3_600  # it refuses what it gives
    assert fetched(request_fetch(api.url("/")), fetcher).status_code == 401
    assert len(api.asked) == len(api.requests) == 2


def test_a_refusal_voids_no_newer_token(api: Server, fetcher: Fetcher) -> None:
    """The answer may come after another process has got a token."""
    fetched(request_fetch(api.url("/")), fetcher)
    key = AccessToken.objects.get().key
    site_id = Site.objects.get(name=api.name).pk
    tokens.refuse([RefusedToken(key, 0, site_id)])
    fetched(request_fetch(api.url("/")), fetcher)
    assert len(api.requests) == 1
    tokens.refuse([RefusedToken(key, 1, site_id)])
    fetched(request_fetch(api.url("/")), fetcher)
    assert len(api.requests) == 2


def test_a_site_that_refuses_a_token_voids_it_for_no_other_site(
    api: Server, serving: Serving, fetcher: Fetcher
) -> None:
    """It waits for another one, and gets it; meanwhile the others go on. A token that most sites refuse is void."""
    client = oauth_client("SHOP")
    fetched(request_fetch(api.url("/")), fetcher)
    AccessToken.objects.update(obtained_at=F("obtained_at") - timedelta(seconds=60))
    other = serving()
    site_settings.set_rate(other.name, headers={"Authorization": "Bearer {token:SHOP}"})
    refused = fetched(request_fetch(other.url("/")), fetcher)  # it wants tokens of a server of its own
    assert (refused.status_code, [asked.status for asked in other.asked]) == (401, [401, 401])
    assert len(api.requests) == 2  # the second one was for `other`
    [job] = [replace(job, request_headers={"X": "{token:SHOP}"}) for job in running(1)]
    row = AccessToken.objects.get()
    tokens.refuse([RefusedToken(row.key, row.version, job.site_id)])
    [elsewhere] = gate.admit([replace(job, site_id=job.site_id + 1)])[0]
    assert elsewhere.tokens
    assert isinstance(gate.admit([job])[1][0], Snoozed)
    tokens.refuse(RefusedToken(row.key, row.version, 10_000 + n) for n in range(tokens.MOST_REFUSING))
    assert tokens.look_up([client], {})["SHOP"].token is None


def test_one_request_for_a_token_is_unfinished_at_most(settings: Settings) -> None:
    """However many fetchers ask, each in a transaction of its own; and none if the token is known by then."""
    settings.WEIR_SECRETS = {"SHOP": ELSEWHERE}
    client = oauth_client("SHOP")
    key = sealing.key_of(client)
    for _ in range(2):
        tokens.ask({key: client}, {"SHOP": "c-1"})
    [asked] = Fetch.objects.all()
    assert (asked.dedupe_key, asked.correlation_id) == (key, "c-1")
    Fetch.objects.all().delete()
    tokens.note([TokenReading(key=key, client="SHOP", sealed=b"x", lifetime_s=60.0, requested_at=clock.now())])
    tokens.ask({key: client}, {})
    assert not Fetch.objects.exists()


def test_an_older_token_never_replaces_a_newer_one() -> None:
    """A fetcher may have been frozen with it."""
    now = clock.now()
    common: dict[str, Any] = {"key": uuid4(), "client": "SHOP", "lifetime_s": 60.0}
    tokens.note([TokenReading(sealed=b"new", requested_at=now - 5, **common)])
    tokens.note([TokenReading(sealed=b"old", requested_at=now - 10, **common)])
    row = AccessToken.objects.get()
    assert (bytes(row.sealed or b""), row.version) == (b"new", 1)
    assert (row.expires_at - row.obtained_at, row.refresh_at - row.obtained_at) == (  # type: ignore[operator]
        timedelta(seconds=54),
        timedelta(seconds=30),
    )


def test_a_server_that_gives_the_same_token_until_it_has_expired_is_not_asked_again_and_again(
    settings: Settings,
) -> None:
    """Each time its life would be shorter, and be renewed sooner."""
    settings.WEIR_SECRETS = {"SHOP": ELSEWHERE}
    client, now = oauth_client("SHOP"), clock.now()
    for ago_s, lifetime_s in ((70.0, 60.0), (35.0, 25.0)):
        said = json.dumps({"access_token": "same", "expires_in": lifetime_s}).encode()
        tokens.note([replace(answers.read(client, 200, said), requested_at=now - ago_s)])
    row = AccessToken.objects.get()
    assert row.refresh_at == row.expires_at


def test_without_tokens_nothing_is_asked(django_assert_num_queries: Any) -> None:
    """Whatever else the headers of a site and of a fetch name."""
    site_settings.set_rate(SITE, "10/s", headers={"Authorization": "Bearer {secret:SHOP}"})
    jobs = running(2)
    with django_assert_num_queries(0):
        assert gate.admit(jobs) == (jobs, [])


def test_a_fetch_that_waits_keeps_its_place_and_says_for_what(api: Server, fetcher: Fetcher) -> None:
    """While the server of tokens is paused, for example."""
    site_settings.set_rate(SITE, "10/s", headers={"Authorization": "Bearer {token:SHOP}"}, obeys_robots=False)
    site_settings.pause(api.name)
    fetch = request_fetch(f"https://{SITE}/")
    waits = Fetch.objects.filter(pk=fetch.pk, state=FetchState.QUEUED, error__startswith="waits")
    wait_for(lambda: dispatched(fetcher) and waits.exists(), 20, "the fetch to wait")
    waiting = Fetch.objects.get(pk=fetch.pk)
    assert (waiting.state, waiting.attempts, waiting.due_since) == (FetchState.QUEUED, 0, fetch.not_before)
    blocker = next(blocker for blocker in why(fetch.pk).blockers if blocker.kind == "access token")
    assert blocker.text.startswith("It waits for an access token of SHOP")
    assert ("due", "it waits for its access token") in [(step.kind, step.text) for step in fetch_way(fetch.pk).steps]
    assert not Slot.objects.filter(released_at=None).exists()


def test_a_fetch_that_waits_is_woken_when_the_token_is_known(
    api: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it would wait otherwise; also if the token came before the fetch began to wait."""
    monkeypatch.setattr(gate, "WAIT", 30.0)
    began = time.monotonic()
    fetched(request_fetch(api.url("/")), fetcher)
    assert time.monotonic() - began < 10
    row = AccessToken.objects.get()
    [job] = running(1)
    late = Snoozed(job=job, delay_s=30.0, reason=tokens.waits_for("SHOP"), awaited_token=row.key)
    hour = timedelta(hours=1)
    for refused_by, fresh, is_woken in (
        ([job.site_id], hour, False),
        ([job.site_id + 1], -hour, False),
        ([job.site_id + 1], hour, True),
    ):
        AccessToken.objects.update(refused_by=refused_by, refresh_at=Now() + fresh)
        Fetch.objects.filter(pk=job.fetch_id).update(slot_id=job.slot_id, state="running", lease_until=Now())
        store([outcome_of(late)])
        assert (Fetch.objects.get(pk=job.fetch_id).due_since is None) is is_woken


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ("hidden", "it must be a JSON object"),
        ("[" * 5_000, "it must be a JSON object"),
        ({"token_url": "https://a.example/", "client_id": "hidden"}, "it needs client_secret, a text"),
        ({**CLIENT, "token_url": "ftp://hidden/"}, "no request may go to its token_url"),
        ({**CLIENT, "token_url": "https://kim:hidden@a.example/"}, "no request may go to its token_url"),
        ({**CLIENT, "token_url": "https://a.example/", "hidden": "hidden"}, "it may have audience, auth"),
    ],
)
def test_a_secret_that_describes_no_client_fails_the_fetch_and_is_not_quoted(
    api: Server, fetcher: Fetcher, settings: Settings, described: object, said: str
) -> None:
    settings.WEIR_SECRETS = {"SHOP": described}
    fetch = fetched(request_fetch(api.url("/"), max_attempts=1), fetcher)
    assert (fetch.state, api.asked, api.requests) == (FetchState.FAILED, [], [])
    assert said in fetch.error
    assert "hidden" not in fetch.error


def test_without_the_package_a_sentence_says_what_to_install(
    api: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography.hazmat.primitives.ciphers")]:
        monkeypatch.setitem(sys.modules, name, None)
    sealing._cipher.cache_clear()
    fetch = fetched(request_fetch(api.url("/"), max_attempts=1), fetcher)
    assert "install django-weir[oauth]" in fetch.error
    assert api.requests == []


def test_a_fetcher_that_knows_another_client_does_not_ask(settings: Settings) -> None:
    """While a secret is being replaced, a fetcher may get a request that another one asked for."""
    settings.WEIR_SECRETS = {"SHOP": ELSEWHERE}
    client = oauth_client("SHOP")
    tokens.ask({sealing.key_of(client): client}, {})
    settings.WEIR_SECRETS = {"SHOP": {**ELSEWHERE, "scope": "other"}}
    assert reserve_all()
    job = claimed(Fetch.objects.get().pk)
    let_through, [event] = gate.admit([job])
    assert let_through == []
    assert isinstance(event, Failure)
    assert "is another one at the fetcher that has asked" in event.error


def test_a_successor_has_neither_the_client_nor_the_tokens_of_the_fetch_before(settings: Settings) -> None:
    """It may be for another URL, and of another user."""
    settings.WEIR_SECRETS = {"SHOP": ELSEWHERE}
    [first, second] = running(2)
    held = HeldToken(text="t", key=uuid4(), version=1, obtained_at=0.0, expires_at=0.0)
    asking = replace(first, client=oauth_client("SHOP"), token_client="SHOP", tokens={"SHOP": held})  # noqa: S106
    Fetch.objects.filter(pk=first.fetch_id).update(slot_id=None, lease_until=None, state=FetchState.QUEUED)
    Fetch.objects.filter(pk=second.fetch_id).update(slot_id=first.slot_id)
    [(job, _)] = successors_of([asking])
    assert (job.fetch_id, job.client, job.token_client, job.tokens) == (second.fetch_id, None, "", {})


def test_what_weir_asks_for_itself_is_not_retried(api: Server, fetcher: Fetcher) -> None:
    api.answers.append((401, {}, b"{}"))
    fetched(request_fetch(api.url("/"), max_attempts=1), fetcher)
    assert retry_failed(Fetch.objects.all()) == Retried(queued=1, access_tokens=1)


def test_a_token_server_gets_none_of_the_headers_of_its_site_and_no_robots_txt_is_asked_for(
    api: Server, fetcher: Fetcher, settings: Settings
) -> None:
    """A token that needed a token would never come."""
    settings.WEIR_OBEY_ROBOTS = True
    site_settings.set_rate(api.name, headers={"Authorization": "Bearer {token:SHOP}", "X-A": "1"}, obeys_robots=True)
    client = oauth_client("SHOP")
    tokens.ask({sealing.key_of(client): client}, {})
    assert "robots.txt" not in [blocker.kind for blocker in why(Fetch.objects.get().pk).blockers]
    fetch_until(fetcher, lambda: api.issued, "the token")
    assert "X-A" not in api.requests[0].headers
    assert api.asked == []


def test_old_tokens_are_purged_and_times_are_stepped(api: Server, fetcher: Fetcher) -> None:
    fetched(request_fetch(api.url("/")), fetcher)
    row = AccessToken.objects.get()
    put_right(step=timedelta(hours=1))
    stepped = AccessToken.objects.get()
    assert stepped.expires_at == row.expires_at + timedelta(hours=1)  # type: ignore[operator]
    purge()
    assert AccessToken.objects.exists()
    put_right(step=timedelta(days=-3))
    purge()
    assert not AccessToken.objects.exists()


def dispatched(fetcher: Fetcher) -> bool:
    """Let the fetcher fetch what is due; returns True."""
    if slot_ids := reserve_all():
        fetcher.run_batch(slot_ids)
    return True


def test_a_token_that_ends_before_the_next_start_ends_the_attempt(api: Server, fetcher: Fetcher) -> None:
    """Otherwise the fetch would wait for one after the other, and none would ever count at its start."""
    api.life_s = 0.4
    site_settings.set_rate(api.name, "2/s")
    fetch = fetched(request_fetch(api.url("/"), max_attempts=1), fetcher)
    assert fetch.state == FetchState.FAILED
    assert "brings access tokens that count for 0 s, less than the time between two starts at this site" in fetch.error
    assert not api.asked


@pytest.mark.parametrize(("asked_s", "wait_s"), [(0.0, 0.05), (20.0, 20.0), (300.0, 30.0)])
@pytest.mark.usefixtures("api")
def test_a_fetch_waits_for_longer_the_longer_its_token_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked_s: float, wait_s: float
) -> None:
    """Each time it takes a slot that others could use."""
    monkeypatch.setattr(tokens, "look_up", lambda *_: {"SHOP": tokens.Known(asked_s=asked_s)})
    [job] = running()
    _, [event] = gate.admit([replace(job, request_headers={"Authorization": "Bearer {token:SHOP}"})])
    assert isinstance(event, Snoozed)
    assert (event.delay_s, event.awaited_token) == (wait_s, sealing.key_of(oauth_client("SHOP")))
