"""Sites that cannot be reached: their own faults back them off, and faults of our network cost nothing."""

import socket
from collections.abc import Callable, Mapping

import pytest
from django.core.management import call_command

from demo.fakes import sites
from tests.integration.conftest import Eventually
from tests.integration.fetching import fetch_until, fetched
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.ratelimit.pacing import NEVER
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.http import reachability
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.reports.forecast import forecast

pytestmark = pytest.mark.django_db(transaction=True)

BringBack = Callable[[Mapping[str, str]], None]


@pytest.fixture
def without_name_servers(monkeypatch: pytest.MonkeyPatch) -> BringBack:
    """Take the name servers away; returns a function that brings back some, which know these addresses only."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    def bring_back(addresses: Mapping[str, str]) -> None:
        def answer(host: str, *_arguments: object, **_options: object) -> list[tuple[object, ...]]:
            if host not in addresses:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses[host], 0))]

        monkeypatch.setattr(socket, "getaddrinfo", answer)

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return bring_back


def wait_until_given_back(count: int, eventually: Eventually) -> list[Fetch]:
    queued = Fetch.objects.filter(state=FetchState.QUEUED)
    eventually(lambda: queued.count() == count, "the end of the attempts")
    return list(queued)


@pytest.mark.usefixtures("without_name_servers")
def test_an_outage_of_the_resolver_counts_no_attempts_and_slows_intake(
    fetcher: Fetcher, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, however many sites are concerned."""
    request_fetches([f"http://site-{number}.example/" for number in range(8)])
    fetch_until(fetcher, lambda: fetcher._session._paused_until > NEVER, "the rest")
    given_back = wait_until_given_back(8, eventually)
    assert {(fetch.attempts, fetch.error) for fetch in given_back} == {(0, "")}
    said = [record for record in caplog.records if "no_site_is_reached" in record.getMessage()]
    assert len(said) == 1


@pytest.mark.usefixtures("without_name_servers")
def test_one_site_that_cannot_be_looked_up_is_to_blame_itself(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else suggests that our name servers cannot be reached."""
    monkeypatch.setattr(reachability, "EVIDENCE_S", 0.1)
    fetch = fetched(request_fetch("http://site.example/", max_attempts=1), fetcher)
    assert fetch.state == FetchState.FAILED
    assert "name resolution" in fetch.error
    assert fetcher._session._paused_until == NEVER


def test_a_fetch_that_has_an_answer_or_has_failed_meets_the_next_outage_as_its_first(
    running_sites: sites.Sites, fetcher: Fetcher, eventually: Eventually, without_name_servers: BringBack
) -> None:
    """It is spared for an hour again, because an operator may retry it; and nothing about it is remembered."""
    names = [f"site-{number}.example" for number in range(4)]
    fetches = request_fetches([f"http://{name}:{running_sites.port}/ok" for name in names], max_attempts=1)
    fetch_until(fetcher, lambda: len(fetcher._session._outages) == 4, "an outage of each")
    wait_until_given_back(4, eventually)
    fetcher._session._closed_on |= dict.fromkeys(fetcher._session._outages, 1)
    assert set(fetcher._session._outages) == {fetch.pk for fetch in fetches}
    without_name_servers(dict.fromkeys(names[1:], running_sites.hosts[0]))
    states = [fetched(fetch, fetcher).state for fetch in fetches]
    assert states == [FetchState.FAILED] + [FetchState.DONE] * 3
    assert not fetcher._session._outages
    assert not fetcher._session._closed_on


DEAD = {
    "many names of one zone": [f"site-{number}.dead.example" for number in range(8)],
    "many zones": [f"dead-{number}.example" for number in range(8)],
}


@pytest.mark.parametrize("names", DEAD.values(), ids=DEAD)
def test_zones_that_cannot_be_looked_up_are_to_blame_where_others_can(
    names: list[str], running_sites: sites.Sites, fetcher: Fetcher, without_name_servers: BringBack
) -> None:
    """Even if no fetch looks anything else up: the resolver asks again for names that it had found."""
    known = [f"known-{number}.example" for number in range(2)]
    without_name_servers(dict.fromkeys(known, running_sites.hosts[0]))
    port = running_sites.port
    assert fetched(request_fetch(f"http://{known[0]}:{port}/ok"), fetcher).state == FetchState.DONE
    answer = socket.getaddrinfo

    def answer_for_known(host: str, *arguments: object, **options: object) -> list[tuple[object, ...]]:
        if host not in known:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return answer(host, *arguments, **options)  # type: ignore[arg-type,return-value]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", answer_for_known)
        fetches = request_fetches([f"http://{name}/" for name in names], max_attempts=1)
        fetch_until(fetcher, lambda: not Fetch.objects.unfinished().exists(), "the end of all")
    after = Fetch.objects.filter(pk__in=[fetch.pk for fetch in fetches])
    assert {(fetch.state, fetch.attempts) for fetch in after} == {(FetchState.FAILED, 1)}
    assert fetcher._session._paused_until == NEVER


def test_a_site_that_refuses_connections_is_left_alone(
    fetcher: Fetcher, eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    """After five attempts in a row. The other fetches go back, without one; operators see the error."""
    with socket.socket() as listener:  # holds the port, and does not listen
        listener.bind(("127.1.0.1", 0))
        name = f"127.1.0.1:{listener.getsockname()[1]}"
        site_settings.set_rate(name, "50/s")
        request_fetches([f"http://{name}/{number}" for number in range(30)])
        fetch_until(fetcher, Site.objects.exclude(backoff_error="").exists, "the back-off")
        wait_until_given_back(30, eventually)
        attempts = sum(Fetch.objects.values_list("attempts", flat=True))
        assert reachability.ROW <= attempts < 2 * reachability.ROW
        site = Site.objects.get(name=name)
        assert site.backoff_error.startswith("connection refused by 127.1.0.1 port ")
        expected = forecast(name)
        assert (expected.state, expected.backoff_error) == ("unreachable", site.backoff_error)
        call_command("sites")
        assert "unreachable, next try in" in capsys.readouterr().out
