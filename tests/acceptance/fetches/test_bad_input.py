"""Hostile URLs and hostile sites: each ends as a stated failure of that one fetch, and the others do not notice."""

from pathlib import Path

from demo.fakes import judge, site_log, sites
from tests.acceptance.conftest import Cluster, all_ended, set_rates
from tests.acceptance.judging import early
from tests.waiting import in_time, wait_for
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

GOOD, HOSTILE = 4, 12
ATTEMPTS = 2
CANARY = "CaNaRy"  # stands in the secret parts of URLs: no log may hold it


def _refused_urls(running: sites.Sites) -> dict[str, str]:
    """Return URLs that must not be connected to, with what their failure must say."""
    return {
        "no url at all": "not a URL",
        "": "not a URL",
        "ftp://example.com/file": "only http and https",
        "javascript:alert(1)": "only http and https",
        "http://user:secret@127.1.0.1/": "credentials",
        "http://exa\0mple.com/": "control characters",
        "http:///path": "no host",
        "http://example.com:99999/": "the port must be between 1 and 65535",
        "http://127.0.0.1/": "loopback",
        "http://[::1]/": "loopback",
        "http://[::ffff:127.0.0.1]/": "loopback",
        "http://10.0.0.1/": "private",
        "http://192.168.1.1:8080/": "private",
        "http://169.254.169.254/latest/meta-data/": "link-local",
        "http://224.0.0.1/": "multicast",
        "http://0.0.0.0/": "unspecified",
        "http://localhost/": "loopback",
        "http://2130706433/": "neither a name nor an IPv4 address",
        "http://0x7f.1/": "neither a name nor an IPv4 address",
        running.url(0, f"/redirect/http%3A%2F%2F127.0.0.1%2F{CANARY}%3F{CANARY}"): "loopback",
        running.url(1, "/redirect/http%3A%2F%2Flocalhost%2Fpage"): "loopback",
        running.url(2, f"/redirect/ftp%3A%2F%2Fexample.com%2F{CANARY}"): "only http and https",
        running.url(3, f"/redirect/http%3A%2F%2F{CANARY}%3A{CANARY}%40127.1.0.1%2F"): "credentials",
        running.url(3, f"/redirect/http%3A%2F%2F127.1.0.1%3A{CANARY}%2F"): "the port must be",
    }


def _hostile_urls(running: sites.Sites) -> dict[str, str]:
    """Return URLs of sites that misbehave, with what their failure must say."""
    at = iter(range(GOOD, GOOD + HOSTILE))
    return {
        running.url(next(at), "/big/20000000"): "larger than",
        running.url(next(at), "/gzipbomb/200"): "larger than",
        running.url(next(at), "/drip/"): "no complete answer within 3 s",
        running.url(next(at), "/slow/60000/"): "no complete answer within 3 s",
        running.url(next(at), "/close/"): "closed the connection",
        running.url(next(at), "/loop/0"): "more than 10 redirects",
        running.url(next(at), f"/status/503/{CANARY}?token={CANARY}"): "the site answered 503",
        running.url(next(at), "/status/429/"): "the site answered 429",
        "http://127.1.200.1:9/": "connection refused by 127.1.200.1 port 9 (ECONNREFUSED)",  # nothing listens there
    }


def test_each_ends_as_a_stated_failure_and_the_others_do_not_notice(cluster: Cluster, tmp_path: Path) -> None:
    """Every hostile fetch fails with its reason, odd but valid answers are stored, good sites keep their pace."""
    with sites.running(GOOD + HOSTILE, tmp_path) as running:
        rates = dict.fromkeys(running.hosts[:GOOD], "10/s") | dict.fromkeys(running.hosts[GOOD:], "5/s")
        intervals = set_rates(running, rates)
        cluster.start_together("ticks", "fetcher", "beat")
        expected = _refused_urls(running) | _hostile_urls(running)
        bad = request_fetches(expected, max_attempts=ATTEMPTS)
        good = request_fetches([running.url(place, f"/ok/{n}") for n in range(100) for place in range(GOOD)])
        odd = request_fetches(
            [running.url(GOOD, f"/{kind}/") for kind in ("badheader", "nolength", "status/404", "flaky/1/key")]
        )
        wait_for(all_ended, 90, "all fetches to end")

    failures = {row.pk: row for row in Fetch.objects.filter(pk__in=[fetch.pk for fetch in bad])}
    for fetch, (url, words) in zip(bad, expected.items(), strict=True):
        row = failures[fetch.pk]
        assert row.state == FetchState.FAILED, f"{url!r} ended {row.state}"
        assert words in row.error, f"{url!r} failed with {row.error!r}"
        assert "secret" not in row.error
    assert not [name for name in cluster.launched if CANARY in cluster.log(name).read_text(errors="replace")]
    assert any("fetch_failed" in cluster.log(name).read_text() for name in cluster.launched)
    assert set(Fetch.objects.filter(pk__in=[fetch.pk for fetch in good]).values_list("state", flat=True)) == {
        FetchState.DONE
    }
    assert [Fetch.objects.get(pk=fetch.pk).status_code for fetch in odd] == [200, 200, 404, 200]
    header = dict(Fetch.objects.get(pk=odd[0].pk).headers)["X-Bad"]
    assert header.encode("latin-1") == b"\xff\xfe"

    arrivals, _ = site_log.read_arrivals(running.log)
    assert early(arrivals, intervals) == 0
    used = [share for host in running.hosts[:GOOD] if (share := judge.verdicts(arrivals, intervals)[host].used_share)]
    print(f"\nused by the good sites, which also redirected: {used}")
    in_time(min(used) >= 0.9, "a good site was held up")
