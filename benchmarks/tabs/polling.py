"""Tabs that ask for the Overview as live.js does."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from statistics import median

from weir.ops.answers import LIVE
from weir.ops.views.overview import EVERY_S

HOST = "127.0.0.1"
ANSWER_S = 10.0


class Tabs:
    """What the tabs got: how many answers of each status, and how long each took."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.times_ms: list[float] = []
        self.ended = threading.Event()

    @property
    def median_ms(self) -> float:
        return median(self.times_ms) if self.times_ms else 0.0

    def poll(self, port: int, cookie: str, first_in_s: float) -> None:
        """Ask until the block of `polling` ends, each time two seconds after the last answer."""
        connection = HTTPConnection(HOST, port, timeout=ANSWER_S)
        etag, wait_s = "", first_in_s
        while not self.ended.wait(wait_s):
            began = time.perf_counter()
            connection.request("GET", "/", headers={LIVE: "1", "If-None-Match": etag, "Cookie": cookie})
            response = connection.getresponse()
            response.read()
            etag, wait_s = response.headers.get("ETag", etag), EVERY_S
            self.statuses[response.status] += 1
            self.times_ms.append((time.perf_counter() - began) * 1000)
        connection.close()


@contextmanager
def polling(port: int, cookies: Sequence[str]) -> Iterator[Tabs]:
    """Open a tab for each of these Cookie headers, evenly spread over two seconds, while the block lasts."""
    tabs = Tabs()
    threads = [
        threading.Thread(target=tabs.poll, args=(port, cookie, place * EVERY_S / len(cookies)), daemon=True)
        for place, cookie in enumerate(cookies)
    ]
    for thread in threads:
        thread.start()
    try:
        yield tabs
    finally:
        tabs.ended.set()
        for thread in threads:
            thread.join()
