"""`make pictures`: the demo runs for a while, and Chromium takes pictures of the operators' pages, light and dark.

For each page, the time until the browser shows something (first contentful paint) is printed, too: the median of five.
"""

import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

from demo.fakes.children import die_with_parent
from project.checkout import CHECKOUT
from tests.acceptance.ops.browser import WHY_NOT, chromium, visiting

HOME: Final = CHECKOUT / ".weir" / "pictures"
PICTURES: Final = CHECKOUT / "docs" / "images" / "pages"
CHARTS_WITHIN_S: Final = 480  # the history trails by some minutes
ENDS_AFTER_S: Final = 600
SIZE: Final = {"width": 1280, "height": 800}
QUALITY: Final = 70
MOST_BYTES: Final = 150_000
PAINTS: Final = 5
PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
PAGES: Final = {
    "overview": "/?over=1h",
    "sites": "/sites/",
    "fetches": "/fetches/",
    "unread": "/unread/",
    "emails": "/emails/?state=",
}
FIRST_OF: Final = {"site": "/sites/?sort=backlog", "fetch": "/fetches/?state=queued"}  # the page of a list's first row
NO_CHARTS: Final = "nothing is known yet"
HOSTILE: Final = """
import django
django.setup()
from tests.acceptance.ops import strangers
print(strangers.write().done)
"""


def main() -> None:
    """Run the demo, take the pictures, and stop the demo."""
    if WHY_NOT:
        raise SystemExit(f"No pictures: {WHY_NOT}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with _demo(HOME) as link, chromium() as browser:
        base = link.partition("/sign-in")[0]
        with visiting(browser, base, viewport=SIZE) as context:
            page = context.new_page()
            page.goto(link)
            _wait_for_charts(page)
            for name, path in {**PAGES, **{name: _first(page, path) for name, path in FIRST_OF.items()}}.items():
                print(f"{name}: first contentful paint after {_paint_ms(page, path):.0f} ms")
                _take(page, name, path)
            _take(page, "hostile", f"/fetches/{_write_hostile(HOME)}/")


@contextlib.contextmanager
def _demo(home: Path) -> Iterator[str]:
    """Run the demo; yields its link, and stops it, with all that it started."""
    command = [sys.executable, "-m", "demo", "--headless", "--duration", str(ENDS_AFTER_S), "--home", str(home)]
    log = home.with_suffix(".log")
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509  no other thread runs yet
        )
    try:
        yield _link(process, log)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        log.unlink()


def _link(demo: "subprocess.Popen[Any]", log: Path) -> str:
    while demo.poll() is None:
        if found := re.search(r"http://\S+/sign-in/with/\S+", log.read_text(errors="replace")):
            return found[0]
        time.sleep(0.2)
    raise SystemExit(f"The demo has ended: {log.read_text(errors='replace')[-2000:]}")


def _wait_for_charts(page: Page) -> None:
    """Wait until each chart of the last hour shows something."""
    ends = time.monotonic() + CHARTS_WITHIN_S
    page.goto(PAGES["overview"])
    while page.get_by_text(NO_CHARTS).count():
        if time.monotonic() > ends:
            raise SystemExit(f"After {CHARTS_WITHIN_S} s the charts are still empty.")
        time.sleep(5)
        page.goto(PAGES["overview"])


def _first(page: Page, path: str) -> str:
    page.goto(path)
    return f'{page.locator("tbody th a").first.get_attribute("href") or path}?over=1h'


def _paint_ms(page: Page, path: str) -> float:
    """Return the milliseconds from the request until the browser shows something; its cache has script and style."""
    times: list[float] = []
    for _ in range(PAINTS):
        page.goto(path)
        while not (painted := float(page.evaluate(PAINT))):
            page.wait_for_timeout(20)
        times.append(painted)
    return statistics.median(times)


def _take(page: Page, name: str, path: str) -> None:
    page.goto(path)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        picture = PICTURES / f"{name}-{scheme}.jpg"
        content = page.screenshot(animations="disabled", type="jpeg", quality=QUALITY)
        if len(content) > MOST_BYTES:
            raise SystemExit(f"{picture.name} would have {len(content)} bytes.")
        picture.write_bytes(content)


def _write_hostile(home: Path) -> int:
    """Write rows of strangers into the demo's database; returns a fetch."""
    environment = {**os.environ, "WEIR_HOME": str(home), "DJANGO_SETTINGS_MODULE": "project.settings"}
    command = [sys.executable, "-c", HOSTILE]
    return int(subprocess.check_output(command, cwd=CHECKOUT, env=environment, text=True))


if __name__ == "__main__":
    main()
