"""Pages link the terms that they use to the glossary."""

import re
from pathlib import Path

from project.checkout import CHECKOUT

DOCS = CHECKOUT / "docs"
# A run is a noun here: "make demo runs" uses no term.
DETERMINERS = "a|the|this|each|every|one|its|whole|of|no|these|those|earlier|single"
TERMS = {
    "site": r"\bsites?\b",
    "slot": r"\bslots?\b",
    "run": rf"\b(?:{DETERMINERS}) runs?\b",
    "grace": r"\bgrace\b",
    "recall": r"\brecall(?:s|ed)?\b",
    "lease": r"\bleases?\b",
    "fence": r"\bfences?\b",
    "epoch": r"\bepochs?\b",
    "delta": r"\bdeltas?\b",
    "doubt": r"\bdoubts?\b",
    "phase": r"\bphases?\b",
}
NOT_PROSE = {"glossary.md", "index.md"}
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def prose(page: Path) -> str:
    """Return the text of the page without headings, blocks and names in backticks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`]*`", "", text).lower()


def unlinked(page: Path) -> list[str]:
    """Return the terms that the page uses and never links."""
    text = prose(page)
    return [
        term
        for term, used in TERMS.items()
        if re.search(used, re.sub(r"\]\([^)]*\)", "]", text)) and f"glossary.md#{term})" not in text
    ]


def test_a_page_links_the_terms_that_it_uses() -> None:
    """Each term of the list that a page uses is linked to the glossary once, at least."""
    found = {page: unlinked(DOCS / page) for page in sorted(set(PAGES) - NOT_PROSE)}
    assert {page: terms for page, terms in found.items() if terms} == {}


def test_the_glossary_explains_each_term() -> None:
    """Each term of the list has a heading in the glossary."""
    headings = re.findall(r"^### (.+)$", (DOCS / "glossary.md").read_text(), re.MULTILINE)

    assert set(TERMS) <= {heading.lower() for heading in headings}
    assert len(set(headings)) == len(headings)


def test_a_term_that_is_not_linked_is_found(tmp_path: Path) -> None:
    """The check sees a term in prose, and lets code, verbs and links pass."""
    page = tmp_path / "page.md"
    page.write_text("# The slot\n\n`make up` runs the web process. Each [run](glossary.md#run) is one `site`.\n\n")
    assert unlinked(page) == []

    page.write_text("Each run has slots, see [Grace](explanation/paced.md#grace).\n")
    assert unlinked(page) == ["slot", "run", "grace"]
