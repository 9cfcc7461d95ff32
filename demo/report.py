"""What the demo says at its end: a verdict on each promise, and a histogram of the gaps between requests."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from demo.figures import Figures
from demo.screen import BAD, FIGURE, GOOD, workers_killed
from demo.users import USER_IDS

LEAST_RATIO, LIMIT, MOST_RATIO, STEP = 0.90, 1.0, 1.30, 0.005
HEIGHT = 13
MOST_WIDTH = 110


def verdict(figures: Figures, requests: int) -> Text:
    """Return one line for each promise: whether it was kept, and at what cost."""
    return Text.assemble(
        (f"{figures.early_starts:,} of {requests:,} requests came early", BAD if figures.early_starts else GOOD),
        "; ",
        (f"{figures.used_share:.1%}", FIGURE),
        " of the allowed rate used; shortest gap ",
        (f"{figures.shortest_gap_ratio:.4f}", FIGURE),
        " of its interval.\n",
        *_failed(figures),
        (
            f"{figures.unread_drift:,} of {len(USER_IDS):,} unread numbers drifted",
            BAD if figures.unread_drift else GOOD,
        ),
        " from COUNT(*); ",
        (f"{figures.unread_rows_written:,}", FIGURE),
        " rows written for ",
        (f"{figures.notified + figures.marked_read:,}", FIGURE),
        " changes.\n",
        (
            f"{figures.emails_received_twice:,} of {figures.shipped:,} e-mails were received twice",
            BAD if figures.emails_received_twice else GOOD,
        ),
        ", ",
        (
            f"{figures.emails_never_received:,} of {figures.emails_sent:,} sent ones never",
            BAD if figures.emails_never_received else GOOD,
        ),
        "; ",
        (f"{figures.emails_unknown:,}", FIGURE),
        f" unknown; {workers_killed(figures.mailers_killed)}.",
    )


def _failed(figures: Figures) -> Iterator[str | tuple[str, str]]:
    """Yield why fetches failed, if some did."""
    others = figures.failed - figures.failed_on_purpose
    if figures.failed:
        yield (f"{figures.failed_on_purpose:,}", FIGURE)
        yield " fetches failed on purpose: one page in 25 answers 500, or closes the connection, each time"
        yield (f"; {others:,} others failed, too.\n", BAD) if others else ".\n"


def histogram(ratios: Sequence[float], width: int) -> Text:
    """Return a histogram of the gaps, in intervals; gaps beyond its range are counted in the first or last bar."""
    import plotext  # noqa: PLC0415  of the extra `embedded`; nothing but the demo needs it

    counts = [0] * round((MOST_RATIO - LEAST_RATIO) / STEP)
    for ratio in ratios:
        # Counted from the limit, so that rounding puts no gap on the wrong side of it.
        place = round((LIMIT - LEAST_RATIO) / STEP) + int((ratio - LIMIT) // STEP)
        counts[min(max(place, 0), len(counts) - 1)] += 1
    middles = [LEAST_RATIO + (place + 0.5) * STEP for place in range(len(counts))]
    most = max(counts)
    red_line = plotext.marker("│", ("red", "default"))  # figure.line() would have a white background
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    plotext.terminal.limit(width=False, height=False)
    figure.plot_size(min(width, MOST_WIDTH), HEIGHT)
    figure.title("gaps between requests to one site, in its intervals")
    figure.draw(figure.segment([LIMIT - STEP / 2] * 2, [0, most], marker=red_line))
    figure.draw(figure.bar(middles, counts, width=1, marker=plotext.marker("full", "cyan")))
    figure.ruler("x").lim(LEAST_RATIO, MOST_RATIO)
    figure.ruler("x").ticks([0.9, LIMIT, 1.1, 1.2, 1.3], ["≤ 0.9", "1.0: the limit", "1.1", "1.2", "≥ 1.3"])
    figure.ruler("y").ticks([0, most / 2, most], ["0", f"{most // 2:,}", f"{most:,}"])
    return Text.from_ansi(figure.build().string())
