"""The admin behind a proxy with TLS, and without one: the Procfile's web process, a browser, and the proxy."""

import re
import socket
from collections.abc import Callable, Iterator
from email.message import Message
from http.client import HTTPConnection, HTTPException
from http.cookies import SimpleCookie
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import connection

from tests.integration.conftest import Eventually
from tests.integration.project import tls_proxy
from tests.integration.project.conftest import Procfile
from tests.integration.project.tls_proxy import Proxy

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "the right one"  # noqa: S105  of a user that only these tests have
HERE, THERE = "127.0.0.21", "127.0.0.22"  # two clients
StartWeb = Callable[..., int]


class Browser:
    """A browser that keeps cookies, and sends the Origin of the page with its form.

    It says of each request that it comes from somewhere else.
    """

    def __init__(self, origin: str, connect: Callable[[], HTTPConnection]) -> None:
        self.origin, self.connect, self.cookies = origin, connect, SimpleCookie()
        self.elsewhere = (f"10.0.0.{number % 256}" for number in count())

    def ask(self, method: str, path: str, **form: str) -> tuple[int, str, Message]:
        """Return the status of the answer, its page and its headers."""
        link = self.connect()
        cookies = "; ".join(f"{cookie.key}={cookie.value}" for cookie in self.cookies.values())
        headers = {"Cookie": cookies, "Referer": f"{self.origin}{path}", "X-Forwarded-For": next(self.elsewhere)}
        if method == "POST":
            headers |= {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"}
        link.request(method, path, urlencode(form) or None, headers)
        answer = link.getresponse()
        for header in answer.headers.get_all("Set-Cookie", []):
            self.cookies.load(header)
        page = answer.read().decode()
        link.close()
        return answer.status, page, answer.headers

    def log_in(self, password: str) -> tuple[int, str]:
        """Fill in the admin's form and send it; return the status and the page."""
        _, page, _ = self.ask("GET", "/admin/login/")
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token, page
        form = {"csrfmiddlewaretoken": token[0], "username": "root", "password": password}
        status, page, _ = self.ask("POST", "/admin/login/", **form)
        return status, page


def through(proxy: Proxy, address: str) -> Browser:
    """Return a browser at this address that asks the proxy."""
    return Browser(f"https://{tls_proxy.ADDRESS}:{proxy.port}", lambda: proxy.connection(address))


@pytest.fixture
def start_web(procfile: Procfile, eventually: Eventually) -> StartWeb:
    """Return a function that runs the Procfile's web process, and returns its port; root may log in there."""
    User.objects.create_superuser("root", password=PASSWORD)

    def start(**environment: str) -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
        procfile.start(
            "web", PORT=str(port), DJANGO_SETTINGS_MODULE="tests.integration.project.quick_passwords", **environment
        )
        eventually(lambda: status(port, "/livez") == 200, "the web process")  # which is asked without TLS
        return port

    return start


@pytest.fixture
def proxy(start_web: StartWeb, tmp_path: Path) -> Iterator[Proxy]:
    """Run the web process, and the proxy before it."""
    hosts = f"{tls_proxy.ADDRESS},127.0.0.1"
    port = start_web(DJANGO_ALLOWED_HOSTS=hosts, WEIR_TLS_PROXIES=tls_proxy.ADDRESS, WEIR_HSTS_MAX_AGE="1d")
    with tls_proxy.running(("127.0.0.1", port), tmp_path) as running:
        yield running


def status(port: int, path: str) -> int:
    """Return what the web process answers to a program on its host, which says that it speaks TLS; 0 if none."""
    link = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        link.request("GET", path, headers={"X-Forwarded-Proto": "https"})
        return link.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        link.close()


def test_the_login_works_and_its_cookies_leave_by_tls_only(proxy: Proxy) -> None:
    """Django knows that the browser speaks TLS, by the word of this proxy alone."""
    browser = through(proxy, HERE)
    assert browser.log_in(PASSWORD)[0] == 302
    assert {name: cookie["secure"] for name, cookie in browser.cookies.items()} == {
        "csrftoken": True,
        "sessionid": True,
    }
    code, page, headers = browser.ask("GET", "/admin/")
    assert (code, "Site administration" in page) == (200, True)
    assert headers["strict-transport-security"] == "max-age=86400"
    assert status(proxy.web[1], "/admin/login/") == 301, "who does not come through the proxy is sent there"


def test_passwords_are_guessed_slowly_and_by_nobody_for_another(proxy: Proxy) -> None:
    """After ten attempts an address waits, whatever it says, and others do not; when the time is over it is let in."""
    here, there = through(proxy, HERE), through(proxy, THERE)
    pages = [here.log_in(f"wrong {attempt}")[1] for attempt in range(20)]
    assert ["Too many attempts" in page for page in pages] == [False] * 10 + [True] * 10
    code, page = here.log_in(PASSWORD)
    assert (code, "Too many attempts" in page) == (200, True), "the password itself must not be tried"
    assert there.log_in(PASSWORD)[0] == 302
    with connection.cursor() as cursor:
        cursor.execute("UPDATE weir_logins_rate SET next_attempt = next_attempt - interval '1 minute'")
    assert here.log_in(PASSWORD)[0] == 302


def test_who_asks_from_the_same_host_does_not_choose_the_address_that_is_counted(start_web: StartWeb) -> None:
    """Nor do the clients of a proxy there that hands on what they say: without the setting nobody is believed."""
    port = start_web()
    browser = Browser(f"http://127.0.0.1:{port}", lambda: HTTPConnection("127.0.0.1", port, timeout=20))
    pages = [browser.log_in(f"wrong {attempt}")[1] for attempt in range(12)]
    assert ["Too many attempts" in page for page in pages] == [False] * 10 + [True] * 2
