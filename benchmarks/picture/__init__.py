"""The picture at the beginning of README: what goes wrong without Weir, and what happens with it.

There are two turns. In the first one, what is published most often for Django and Celery does the three jobs (`peers`);
in the second one, Weir's processes do (`ours`). In both, work waits all the time, and the kills are as many: every few
seconds one process of each who does a job is killed (SIGKILL), as the kernel does where memory runs out, and replaced.
What went wrong is counted from outside, by what Weir's own tests are judged by: the times at which the kernel of the
sites received the requests, COUNT(*), and the mail server's list.

The table is printed, and the picture is drawn, from the figures of this run. `python -m benchmarks.page` puts both into
README.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, print_table
from benchmarks.page import drawing, rows
from benchmarks.picture.size import FULL, Size


def measure(folder: Path, size: Size = FULL) -> Iterator[Figure]:
    """Yield what went wrong in each turn, print the table, and draw the picture."""
    # Not at the top: the peers' processes import this package without Django.
    from benchmarks.picture import ours, peers, turn  # noqa: PLC0415

    figures = []
    for side in (peers.Peers(size), ours.Weir(size)):
        for figure in turn.play(side, size, folder / f"picture-{side.name}"):
            figures.append(figure)
            yield figure
    peers.empty()
    found = rows.of({figure.name: figure.value for figure in figures})
    print_table(
        "What went wrong",
        ("job", "by", "went wrong"),
        [(row.job, said.by, str(said)) for row in found for said in (*row.without, row.weir)],
    )
    picture = folder / "picture.svg"
    picture.write_text(drawing.svg(found))
    print(f"The picture: {picture}")
