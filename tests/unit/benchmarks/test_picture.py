"""The picture at the beginning of README shows what was measured, and nothing else."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.figures import KEPT, PICTURE, README
from benchmarks.page import drawing, rows, writing
from benchmarks.provenance import FILE

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = {
    "picture_peers_kills": 10,
    "picture_rate_limit_requests": 2_638,
    "picture_rate_limit_early": 2_601,
    "picture_lock_requests": 1_290,
    "picture_lock_early": 0,
    "picture_loop_emails": 312,
    "picture_loop_twice": 8,
    "picture_loop_never": 0,
    "picture_task_emails": 312,
    "picture_task_twice": 7,
    "picture_task_never": 3,
    "picture_peers_numbers": 500,
    "picture_peers_wrong": 6,
    "picture_weir_kills": 10,
    "picture_weir_requests": 1_204,
    "picture_weir_early": 0,
    "picture_weir_emails": 312,
    "picture_weir_twice": 0,
    "picture_weir_never": 2,
    "picture_weir_numbers": 500,
    "picture_weir_wrong": 0,
    "picture_weir_unknown": 6,
    "picture_weir_unknown_never": 2,
}


def test_each_figure_is_said_of_who_has_it() -> None:
    """An e-mail that is unknown is not one that nobody is told of; one that never came is."""
    paced, counted, once = rows.of(FIGURES)
    assert [str(said) for said in (*paced.without, paced.weir)] == [
        "2,601 of 2,638 requests came early",
        "0 of 1,290 requests came early",
        "0 of 1,204 requests came early",
    ]
    assert [str(said) for said in (*counted.without, counted.weir)] == [
        "6 of 500 unread numbers wrong",
        "0 of 500 unread numbers wrong",
    ]
    assert [str(said) for said in (*once.without, once.weir)] == [
        "8 of 312 e-mails came twice",
        "7 of 312 e-mails came twice; 3 never came",
        "0 of 312 e-mails came twice; 6 unknown: an operator decides",
    ]
    *_, once = rows.of({**FIGURES, "picture_weir_never": 5})
    assert once.weir.beside == "3 never came, 6 unknown: an operator decides"


def test_a_figure_that_is_missing_is_not_drawn_as_nothing() -> None:
    with pytest.raises(KeyError):
        rows.of({name: value for name, value in FIGURES.items() if name != "picture_weir_early"})


def test_the_drawing_has_every_figure_and_bars_of_what_went_wrong() -> None:
    """It is XML, and the same each time. A bar is as long as the part that went wrong, and seen if there is any."""
    found = rows.of(FIGURES)
    drawn = drawing.svg(found)
    assert drawn == drawing.svg(rows.of(FIGURES))
    root = ET.fromstring(drawn)  # noqa: S314  our own
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    for said in (said for row in found for said in (*row.without, row.weir)):
        assert f"{str(said).split(';')[0]}" in texts
    assert root.attrib["aria-label"] == f"What went wrong. {rows.text(found)}"
    bad = [int(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect") if bar.attrib["class"] == "bad"]
    assert bad == [round(drawing.BAR * 2_601 / 2_638), 4, round(drawing.BAR * 8 / 312), round(drawing.BAR * 7 / 312)]


def test_the_drawing_is_within_its_frame_and_asks_for_nothing_from_elsewhere() -> None:
    """Nothing begins outside; whoever shows it needs no font and no network, in light and in dark."""
    drawn = drawing.svg(rows.of(FIGURES))
    root = ET.fromstring(drawn)  # noqa: S314  as above
    _, _, width, height = map(int, root.attrib["viewBox"].split())
    for part in (*root.iter(f"{SVG}text"), *root.iter(f"{SVG}rect")):
        assert 0 <= float(part.attrib["x"]) < width
        assert 0 <= float(part.attrib["y"]) < height
    assert "prefers-color-scheme: dark" in drawn
    assert not {"http", "url(", "@import"} & set(drawn.replace(SVG.strip("{}"), "").split())
    assert drawn.count("http") == 1  # the name of the format


def test_readme_begins_with_the_picture_its_figures_and_where_they_come_from(tmp_path: Path) -> None:
    readme, image = tmp_path / "README.md", tmp_path / "picture.svg"
    empty = "# Weir\n\n<!-- begin: picture -->\n\n<!-- end: picture -->\n"
    readme.write_text(empty)
    writing.write_picture(readme, image, tmp_path)
    assert (readme.read_text(), image.exists()) == (empty, False)
    came = {"day": "2026-11-29", "commit": "0123456789ab", "machine": "2 cores, 8 GiB, x86_64"}
    (tmp_path / FILE).write_text(json.dumps({"picture": came}))
    said = {name: {"value": value, "unit": ""} for name, value in FIGURES.items()}
    (tmp_path / "picture.json").write_text(json.dumps(said))
    writing.write_picture(readme, image, tmp_path)
    _, _, _, _, shown, *_, once, _, kills, measured, _, _ = readme.read_text().splitlines()
    assert shown == f"![{rows.text(rows.of(FIGURES))}](docs/images/picture.svg)"
    assert once.startswith("| **Once** | Lock the row, send, flag it, commit: **8** of 312 e-mails came twice<br>")
    assert kills.endswith("a process of every kind that does a job was killed (SIGKILL) 10 times.")
    assert measured == "Measured on 2026-11-29 at commit 0123456789ab, on 2 cores, 8 GiB, x86_64."
    assert image.read_text() == drawing.svg(rows.of(FIGURES))


def test_readme_and_picture_are_made_of_the_figures_that_are_kept(tmp_path: Path) -> None:
    """A figure that was measured anew, or a line that was changed, is in both."""
    readme, image = tmp_path / "README.md", tmp_path / "picture.svg"
    readme.write_text(README.read_text())
    writing.write_picture(readme, image, KEPT)
    assert readme.read_text() == README.read_text()
    assert image.read_text() == PICTURE.read_text()
