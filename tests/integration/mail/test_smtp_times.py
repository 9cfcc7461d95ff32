"""How long a mail server may take for each step, whatever it does meanwhile."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.integration.mail import tls_servers
from tests.integration.mail.shipments import scripted_server
from tests.integration.mail.test_smtp_tls import EMAIL
from tests.integration.mail.tls_servers import AUTHORITY, GOOD, HOST
from weir.conf import settings as weir_settings
from weir.workers.mail.phases import Phase
from weir.workers.mail.smtp import EmailBackend
from weir.workers.mail.transports.base import BrokenOff, OutcomeUnknown, Refused, RelayRefuses, Unreachable

HELLO = [b"220 mail.example\r\n", b"250 mail.example\r\n"]
GO_AHEAD = [b"250 OK\r\n", b"250 OK\r\n", b"354 Go ahead\r\n"]
TRICKLE = b"250-this reply takes for ever: " + b"." * 1_000
LIMIT_S = 0.2  # of a step
MOST_S = 10.0  # of a step with the limit LIMIT_S; the whole trickle takes 50, and the content in sips 180
Serve = Callable[[socket.socket], object]


@contextmanager
def server(settings: Settings, serve: Serve) -> Iterator[None]:
    """Run a mail server for one connection; the settings name it."""

    def accept() -> None:
        peer, _ = listener.accept()
        with peer, suppress(OSError):
            serve(peer)

    with socket.create_server((HOST, 0)) as listener:
        settings.EMAIL_HOST, settings.EMAIL_PORT = listener.getsockname()
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield
        thread.join(10)
        assert not thread.is_alive()


def trickling_after(replies: list[bytes]) -> Serve:
    """Return a server that gives these replies, and then sends byte after byte, each long before a time-out is over."""

    def serve(peer: socket.socket) -> None:
        for reply in replies:
            peer.sendall(reply)
            peer.recv(10_000)
        for byte in TRICKLE:
            peer.sendall(bytes([byte]))
            time.sleep(0.05)

    return serve


def submit(content: bytes = EMAIL.content, begin: Callable[[], None] = lambda: None) -> None:
    """Submit an e-mail over a connection of its own."""
    mailer = EmailBackend()
    mailer.connect()
    try:
        mailer.submit(replace(EMAIL, content=content), begin)
    finally:
        mailer.close()


@pytest.mark.parametrize(
    ("replies", "setting", "error", "phase"),
    [
        ([], "EMAIL_TIMEOUT", Unreachable, None),
        (HELLO[:1], "EMAIL_TIMEOUT", Unreachable, None),
        (HELLO, "WEIR_MAIL_COMMAND_TIMEOUT", BrokenOff, Phase.NOT_BEGUN),
        ([*HELLO, b"250 OK\r\n"], "WEIR_MAIL_COMMAND_TIMEOUT", BrokenOff, Phase.NOT_BEGUN),
        ([*HELLO, *GO_AHEAD[:2]], "WEIR_MAIL_COMMAND_TIMEOUT", BrokenOff, Phase.NOT_BEGUN),
        ([*HELLO, *GO_AHEAD], "WEIR_MAIL_REPLY_TIMEOUT", OutcomeUnknown, Phase.AFTER_DOT),
    ],
)
def test_a_reply_that_trickles_in_does_not_hold_a_sender(
    settings: Settings, replies: list[bytes], setting: str, error: type[Exception], phase: Phase | None
) -> None:
    """The limit is for each step as a whole, however often a byte comes."""
    setattr(settings, setting, LIMIT_S)
    started = time.monotonic()
    with server(settings, trickling_after(replies)):
        with pytest.raises(error, match="timed out") as raised:
            submit()
        assert time.monotonic() - started < MOST_S
    assert getattr(raised.value, "phase", None) == phase


@pytest.mark.parametrize(
    ("refusal", "error"), [(b"550 5.4.5 Daily limit\r\n", RelayRefuses), (b"552 5.3.4 Too large\r\n", Refused)]
)
def test_a_farewell_that_trickles_in_does_not_hold_a_sender(
    settings: Settings, refusal: bytes, error: type[Exception]
) -> None:
    """The refusal is known, and waits to be recorded, while QUIT or RSET is answered."""
    settings.WEIR_MAIL_COMMAND_TIMEOUT = LIMIT_S
    started = time.monotonic()
    with server(settings, trickling_after([*HELLO, refusal])):
        with pytest.raises(error):
            submit()
        assert time.monotonic() - started < MOST_S


def _read_slowly(peer: socket.socket, end: threading.Event) -> None:
    """Read on until the sender has left; what the kernel still has would take long."""
    while not end.wait(0.05) and peer.recv(16_384):
        pass


def _talk_then_read_slowly(peer: socket.socket, end: threading.Event) -> None:
    for reply in [*HELLO, *GO_AHEAD]:
        peer.sendall(reply)
        if reply != GO_AHEAD[-1]:
            peer.recv(1_000)
    _read_slowly(peer, end)


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_server_that_takes_the_content_in_sips_does_not_hold_a_sender(
    settings: Settings, tmp_path: Path, *, is_tls: bool
) -> None:
    """The e-mail is certainly not accepted, as its dot was not sent."""
    AUTHORITY.cert_pem.write_to_path(tmp_path / "authority.pem")
    settings.WEIR_MAIL_CA_FILE = str(tmp_path / "authority.pem")
    settings.EMAIL_USE_SSL = is_tls
    end = threading.Event()
    settings.WEIR_MAIL_COMMAND_TIMEOUT = LIMIT_S

    def serve(peer: socket.socket) -> None:
        if is_tls:
            with tls_servers.context_of(GOOD).wrap_socket(peer, server_side=True) as secret:
                _talk_then_read_slowly(secret, end)
        else:
            _talk_then_read_slowly(peer, end)

    started = time.monotonic()
    with server(settings, serve):
        with pytest.raises(BrokenOff) as raised:
            submit(b"Subject: Hello\r\n\r\n" + b"x" * 60_000_000)
        assert time.monotonic() - started < MOST_S
        end.set()
    assert raised.value.phase == Phase.BEFORE_DOT


@pytest.mark.parametrize("farewell", [b"", b"421 4.3.2 Restarting\r\n"])
def test_a_server_that_leaves_before_the_content_has_certainly_not_accepted_it(
    settings: Settings, farewell: bytes
) -> None:
    """While `begin` commits. The kernel would take the content all the same."""
    has_left = threading.Event()

    def serve(peer: socket.socket) -> None:
        for reply in [*HELLO, *GO_AHEAD]:
            peer.sendall(reply)
            if reply != GO_AHEAD[-1]:
                peer.recv(1_000)
        peer.sendall(farewell)
        peer.close()
        has_left.set()

    def begin() -> None:
        assert has_left.wait(10)

    with server(settings, serve), pytest.raises(BrokenOff, match="did not wait for the content") as raised:
        submit(begin=begin)
    assert raised.value.phase == Phase.BEFORE_DOT


@pytest.mark.parametrize("early", [b"421 4.3.2 Restarting\r\n", b"250 OK\r\n"])
def test_what_comes_together_with_the_go_ahead_is_no_reply_to_the_content(settings: Settings, early: bytes) -> None:
    """It was read with the go-ahead, and not looked at yet. An acceptance would be one of nothing."""

    def serve(peer: socket.socket) -> None:
        for reply in [*HELLO, *GO_AHEAD[:-1], GO_AHEAD[-1] + early]:
            peer.sendall(reply)
            peer.recv(1_000)

    with server(settings, serve), pytest.raises(BrokenOff, match="did not wait for the content") as raised:
        submit()
    assert raised.value.phase == Phase.BEFORE_DOT


def test_a_server_that_ponders_a_recipient_has_the_time_that_the_rfc_gives_it(settings: Settings) -> None:
    """RFC 5321, 4.5.3.2, gives it five minutes, not EMAIL_TIMEOUT."""
    assert weir_settings.WEIR_MAIL_COMMAND_TIMEOUT == 300.0
    settings.EMAIL_TIMEOUT = 0.2

    def serve(peer: socket.socket) -> None:
        for reply in [*HELLO, *GO_AHEAD, b"250 OK\r\n", b"221 Bye\r\n"]:
            if reply in GO_AHEAD:
                time.sleep(0.3)
            peer.sendall(reply)
            peer.recv(1_000)

    with server(settings, serve):
        submit()


@pytest.mark.parametrize(
    ("reply", "words"),
    [(b"250 OK", "closed"), (b"250-Yes\r\n250", "closed"), (b"250-Yes\r\n" * 20_000, "longer than 65536")],
)
def test_a_reply_without_an_end_is_none(settings: Settings, reply: bytes, words: str) -> None:
    """A reply that is cut, or longer than any reply may be."""
    with (
        scripted_server(settings, [*HELLO, *GO_AHEAD, reply]),
        pytest.raises(OutcomeUnknown, match=words),
    ):
        submit()
