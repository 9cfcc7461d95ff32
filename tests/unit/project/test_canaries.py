"""The fixture that looks at all logs sees a URL in each of them, and nothing else."""

import io
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from tests.canaries import files_with_urls
from weir.logs import masking

URL = "https://host.example/CaNaRy"
URLS = (
    URL,
    "http://host.example:81/?token=CaNaRy",
    "https://host.example?CaNaRy",
    "https://host.example#CaNaRy",
    "https://kim:CaNaRy@host.example",
    "https://CaNaRy@host.example/",
    "redis://:CaNaRy@cache:6379/0",
)
HARMLESS = (
    "https://host.example",
    "https://host.example/***",
    "https://host.example:8443/ is it",
    "Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)",
    "set REDIS_URL to rediss://:PASSWORD@HOST:6379/0",
    "- ** ---------- .> transport:   redis://cache:6379/0",
    "a/b//c 5 % of a@b",
)
WAYS: dict[str, Callable[[str], object]] = {
    "structlog": lambda text: structlog.get_logger("workers.canaries").warning("it_failed", error=text),
    "another logger": lambda text: logging.getLogger("celery.canaries").error("%s failed", text),
    "a library with a handler of its own": lambda text: logging.getLogger("passes.by").warning("see %s", text),
}


@pytest.fixture(autouse=True)
def _passes_by() -> Iterator[None]:
    """A logger whose lines the masks never see."""
    logger, handler = logging.getLogger("passes.by"), logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    logger.propagate = False
    yield
    logger.removeHandler(handler)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("url", URLS)
def test_a_url_that_nothing_masks_is_found(
    url: str, way: str, lines_with_urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In what this process logs. As it is cleared here, this test is not blamed for it."""
    monkeypatch.setattr(masking, "masked", lambda text, _hide: text)
    WAYS[way](url)
    found = lines_with_urls.copy()
    lines_with_urls.clear()
    assert len(found) == 1
    assert "CaNaRy" in found[0]


@pytest.mark.parametrize("way", ["structlog", "another logger"])
@pytest.mark.parametrize("url", URLS)
def test_what_is_masked_is_not_found(
    url: str, way: str, lines_with_urls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the records hold that pytest keeps."""
    WAYS[way](url)
    assert len(caplog.records) == 1
    assert lines_with_urls == []


def test_a_file_is_looked_at_line_by_line(tmp_path: Path) -> None:
    """What stands in it besides, in whatever encoding, does not matter."""
    log = tmp_path / "kept"  # not *.log, or this test would be blamed for it
    log.write_bytes(b"\xff\n" + "\n".join([*HARMLESS, *URLS, *HARMLESS]).encode())
    assert [line.split()[-1] for line in files_with_urls([log])] == list(URLS)
