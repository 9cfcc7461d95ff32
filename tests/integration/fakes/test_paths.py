"""How the paths of the sites behave."""

import gzip
import time
from contextlib import closing
from http.client import RemoteDisconnected
from urllib.parse import quote
from urllib.request import urlopen

import psutil
import pytest

from demo.fakes.sites import Sites
from tests.integration.fakes.conftest import TIMEOUT_S, ask, client, connect, head_of, logged, read_to_end, wait_until
from tests.waiting import in_time


@pytest.mark.parametrize("path", ["/ok/page", "/", "/anything?else"])
def test_an_ordinary_path_answers_a_page(sites: Sites, path: str) -> None:
    """Whatever has no other meaning is a page of the given size that can be revalidated."""
    response, body = ask(sites, path)
    assert (response.status, len(body)) == (200, 2_000)
    assert response.headers["Content-Type"] == "text/html"
    assert response.headers["ETag"]
    assert response.headers["Last-Modified"]


@pytest.mark.parametrize("path", ["/ok/x", "/big/5000", "/drip/x", "/gzipbomb/1"])
def test_head_answers_the_headers_alone(sites: Sites, path: str) -> None:
    """HEAD states the length that GET would have, sends no body, and leaves the connection usable."""
    with closing(client(sites)) as connection:
        connection.request("HEAD", path)
        response = connection.getresponse()
        assert int(response.headers["Content-Length"]) > 0
        assert response.read() == b""
        connection.request("GET", "/ok/after-head")
        assert connection.getresponse().status == 200


def test_urllib_can_read_a_site(sites: Sites) -> None:
    """A `Connection: close` client gets the page by its URL, and the connection closed."""
    with urlopen(sites.url(2, "/ok/urllib"), timeout=TIMEOUT_S) as response:  # noqa: S310 it is http
        assert len(response.read()) == 2_000
    assert logged(sites, "/ok/urllib")[0].host == sites.hosts[2]
    with connect(sites) as connection:
        connection.sendall(head_of("/ok/x", "connection: close"))
        assert read_to_end(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_slow_page_comes_late_and_delays_no_other_connection(sites: Sites) -> None:
    """The answer waits at least so many ms; another connection is answered meanwhile."""
    with closing(client(sites)) as waiting:
        began = time.monotonic()
        waiting.request("GET", "/slow/300/x")
        logged(sites, "/slow/300/x")
        ask(sites, "/ok/meanwhile")
        answered_another_after_s = time.monotonic() - began
        assert len(waiting.getresponse().read()) == 2_000
        slow_after_s = time.monotonic() - began
    assert answered_another_after_s < 0.3 <= slow_after_s


def test_a_client_that_gives_up_on_a_slow_page_harms_no_other(sites: Sites) -> None:
    """What is still to be sent to a closed connection is dropped, and the site keeps answering."""
    with connect(sites) as impatient:
        impatient.sendall(head_of("/slow/100/given-up"))
        logged(sites, "/slow/100/given-up")
    assert ask(sites, "/slow/300/later")[0].status == 200


@pytest.mark.parametrize(("code", "length"), [(404, "6"), (429, "6"), (503, "6"), (599, "6"), (204, None), (304, None)])
def test_a_status_on_demand(sites: Sites, code: int, length: str | None) -> None:
    """The status is the one in the path, without a body where its meaning allows none."""
    response, _ = ask(sites, f"/status/{code}/x")
    assert (response.status, response.headers["Content-Length"]) == (code, length)


def test_a_page_given_once_closes_its_connection(sites: Sites) -> None:
    """The page is whole, says that it is the connection's last, and the connection is closed behind it."""
    with connect(sites) as connection:
        connection.sendall(head_of("/once/x"))
        head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close" in head
    assert len(body) == 2_000


@pytest.mark.parametrize(("status", "seconds", "stated"), [(429, "2", "2"), (503, "-", None)])
def test_a_site_is_busy_from_a_request_on_for_a_while(
    sites: Sites, status: int, seconds: str, stated: str | None
) -> None:
    """From the third request on, whatever its page, all are refused; when the time is over, none is."""
    path = f"/busy/3/300/{status}/{seconds}"
    began = time.monotonic()
    answers = [ask(sites, f"{path}/{page}")[0] for page in range(4)]
    assert [answer.status for answer in answers] == [200, 200, status, status]
    assert {answer.headers["Retry-After"] for answer in answers[2:]} == {stated}
    assert ask(sites, f"/busy/3/301/{status}/{seconds}/x")[0].status == 200, "another path counts for itself"
    assert ask(sites, f"{path}/x", host_index=1)[0].status == 200, "another site counts for itself"
    wait_until(lambda: ask(sites, f"{path}/x")[0].status == 200)
    assert time.monotonic() - began > 0.3


def test_a_flaky_path_recovers_at_each_site_by_itself(sites: Sites) -> None:
    """A key fails for its first n requests, then works; other keys and other sites count for themselves."""
    statuses = [ask(sites, "/flaky/2/a")[0].status for _ in range(4)]
    others = [ask(sites, "/flaky/1/b")[0].status, ask(sites, "/flaky/2/a", host_index=1)[0].status]
    assert (statuses, others) == ([500, 500, 200, 200], [500, 500])


@pytest.mark.parametrize(
    ("path", "location"),
    [
        (f"/redirect/{quote('http://127.1.0.2:81/a?b=c', safe='')}", "http://127.1.0.2:81/a?b=c"),
        ("/redirect/%2Fok%2Fx", "/ok/x"),
        ("/loop/3", "/loop/4"),
        ("/loop/99", "/loop/0"),
    ],
)
def test_redirects(sites: Sites, path: str, location: str) -> None:
    """A redirect goes where its path says, and a loop to its next number, for ever."""
    response, _ = ask(sites, path)
    assert (response.status, response.headers["Location"]) == (302, location)


def test_a_closing_path_answers_nothing_but_has_arrived(sites: Sites) -> None:
    """The connection closes without a byte; the request was made, so it counts."""
    with pytest.raises(RemoteDisconnected):
        ask(sites, "/close/x")
    assert len(logged(sites, "/close/x")) == 1


def test_a_dripping_body_comes_at_a_byte_a_second(sites: Sites) -> None:
    """The headers come at once, the body byte by byte; the site keeps answering when a client gives up."""
    with closing(client(sites)) as connection:
        began = time.monotonic()
        connection.request("GET", "/drip/x")
        response = connection.getresponse()
        in_time(time.monotonic() - began < 0.9, "the headers")
        assert response.headers["Content-Length"] == "2000"
        assert response.read(2) == b"ww"
        took_s = time.monotonic() - began
        assert took_s > 1.9
        in_time(took_s < 4, "two bytes")
    assert ask(sites, "/ok/x")[0].status == 200


def test_a_big_body_is_made_while_it_is_sent(sites: Sites) -> None:
    """The process stays small and answers others, however much a client asks for and does not read."""
    size = 200_000_001
    process = psutil.Process(sites.pid)
    before = process.memory_info().rss
    with closing(client(sites)) as connection:
        connection.request("GET", f"/big/{size}")
        response = connection.getresponse()
        assert ask(sites, "/ok/x")[0].status == 200
        assert process.memory_info().rss - before < size / 4
        received = sum(map(len, iter(lambda: response.read(1_000_000), b"")))
        assert process.memory_info().rss - before < size / 4
    assert received == size


def test_a_gzip_bomb_is_small_until_it_is_unpacked(sites: Sites) -> None:
    """A thousandth is sent of what comes out."""
    response, body = ask(sites, "/gzipbomb/5")
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(body) < 10_000
    assert len(gzip.decompress(body)) == 5_000_000


def test_a_bad_header_has_bytes_that_are_not_utf8(sites: Sites) -> None:
    """The header's bytes are sent as they are."""
    with connect(sites) as connection:
        connection.sendall(head_of("/badheader/x", "Connection: close"))
        assert b"\r\nX-Bad: \xff\xfe\r\n" in read_to_end(connection)


def test_a_body_without_length_ends_with_the_connection(sites: Sites) -> None:
    """No length is stated, and the connection is closed after the body."""
    with connect(sites) as connection:
        connection.sendall(head_of("/nolength/x"))
        answer = read_to_end(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-length" not in head.lower()
    assert len(body) == 2_000


def test_there_is_no_robots_txt(sites: Sites) -> None:
    """Everything is allowed."""
    assert ask(sites, "/robots.txt")[0].status == 404


@pytest.mark.parametrize(
    "path", ["/slow/soon/x", "/status/", "/big/x", "/loop", "/busy/1/2", "/busy/1/2/x/-/", f"/slow/{'9' * 400}"]
)
def test_a_path_without_its_number_is_the_clients_mistake(sites: Sites, path: str) -> None:
    """What makes no sense is answered with 400, and does not end the process."""
    assert ask(sites, path)[0].status == 400


def test_only_get_and_head_are_served(sites: Sites) -> None:
    """Another method is refused, and counts as a request."""
    assert ask(sites, "/ok/posted", method="POST")[0].status == 405
    assert len(logged(sites, "/ok/posted")) == 1
