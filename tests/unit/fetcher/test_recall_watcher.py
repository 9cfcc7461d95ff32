"""The recall watcher asks for all recalls since its last answer, however long that took."""

import queue

import pytest

from weir.ratelimit import clock, slots
from weir.ratelimit.slot_rows import Recall
from weir.workers.fetches.fetcher.recall_watcher import WINDOW, RecallWatcher


def test_it_asks_for_what_was_recalled_while_the_host_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    real, ahead = clock.now, [0.0]
    monkeypatch.setattr(clock, "now", lambda: real() + ahead[0])
    windows: queue.SimpleQueue[float] = queue.SimpleQueue()

    def recalls(window_s: float) -> list[Recall]:
        windows.put(window_s)
        return []

    monkeypatch.setattr(slots, "recalls", recalls)
    watcher = RecallWatcher(lambda _recalls, _asked_at: None, lambda: None)
    try:
        assert windows.get(timeout=10) < WINDOW + 60
        ahead[0] = 3_600.0
        asked = [windows.get(timeout=10) for _ in range(3)]
        assert max(asked) > 3_600.0
    finally:
        watcher.close(5)
