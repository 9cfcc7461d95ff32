"""README's picture is made by running processes: here a small one, whose figures are those of the large one."""

from pathlib import Path

import pytest

from benchmarks import picture
from benchmarks.page import rows
from benchmarks.picture.size import Size

SMALL = Size(kills=1, kill_every_s=0.5, sites=2, users=range(1, 21), users_at_once=5, settle_s=90.0)


@pytest.mark.usefixtures("installation")
def test_peers_go_wrong_where_weir_does_not(tmp_path: Path) -> None:
    """Two workers of Celery ask twice as often as the rate allows, whatever is killed; of Weir nothing goes wrong."""
    figures = {figure.name: figure.value for figure in picture.measure(tmp_path, SMALL)}
    paced, counted, once = rows.of(figures)
    assert paced.without[0].bad > 0
    assert (paced.weir.bad, counted.weir.bad, once.weir.bad) == (0, 0, 0)
    assert min(paced.weir.of, counted.weir.of, once.weir.of) > 0
    assert "never came" not in once.weir.beside
    assert (tmp_path / "picture.svg").exists()
