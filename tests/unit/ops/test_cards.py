"""On a narrow screen the rows of a list are cards, whose words are those of the list's head (weir.css)."""

import re
from pathlib import Path

import weir.ops
from tests.cases import for_each

OPS = Path(weir.ops.__file__).parent
TABLE = re.compile(r'<table class="cards (\w+)">.*?<thead>(.*?)</thead>', re.DOTALL)
ANY_TABLE = re.compile(r"<table\b[^>]*>", re.IGNORECASE)
HEAD = re.compile(r'<th scope="col"[^>]*>(.*?)</th>')
LISTS = {
    name: HEAD.findall(head)[1:]  # the first column is the card's own head
    for template in OPS.glob("templates/**/*.html")
    for name, head in TABLE.findall(template.read_text())
}


def test_all_lists_are_meant() -> None:
    """Each table of the templates, whatever its attributes are."""
    assert LISTS.keys() == {
        "batches",
        "effectkinds",
        "effects",
        "emails",
        "endpoints",
        "entries",
        "fetches",
        "kinds",
        "processes",
        "repairs",
        "sites",
        "watches",
    }
    tables = [tag for path in OPS.glob("templates/**/*.html") for tag in ANY_TABLE.findall(path.read_text())]
    assert sorted(tables) == [f'<table class="cards {name}">' for name in sorted(LISTS)]


@for_each("name", LISTS)
def test_each_value_has_the_word_of_its_column(name: str) -> None:
    words: dict[int, str] = {}
    for selectors, word in re.findall(
        r'^ +(\.[^{]+) \{ content: "([^"]+)"; \}$', (OPS / "static/weir/ops/weir.css").read_text(), re.MULTILINE
    ):
        for column in re.findall(rf"\.{name} td:nth-of-type\((\d)\)::before", selectors):
            words[int(column)] = word
    assert [words[column] for column in sorted(words)] == LISTS[name]
