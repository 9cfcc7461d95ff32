"""Each example of the pages that are run has its place: it is run, or a list says why not; the tutorial is its app."""

from project.checkout import CHECKOUT
from tests.acceptance.docs import pages, situations, stated

BLOCKS = [block for page in pages.all_pages() for block in pages.blocks(page)]
NAMED = {(one.page, one.first) for one in situations.NOT_RUN}
TUTORIAL = [block for block in BLOCKS if block.page == "docs/tutorial.md" and block.file.startswith("local/shop/")]
SHOP = CHECKOUT / "examples"


def test_the_pages_are_those_that_are_promised() -> None:
    """README, quickstart, tutorial, and every how-to."""
    how_to = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "docs" / "how-to").glob("*.md")}
    assert set(pages.all_pages()) == {"README.md", "docs/quickstart.md", "docs/tutorial.md"} | how_to


def test_no_block_is_passed_over() -> None:
    """What is neither typed nor written nor seen is listed with its reason."""
    assert [block.name for block in BLOCKS if block.how == "read" and (block.page, block.first) not in NAMED] == []


def test_the_lists_name_blocks_that_exist() -> None:
    """And commands that stand in them."""
    firsts = {(block.page, block.first): block for block in BLOCKS}
    assert {*NAMED, *situations.GIVEN} - firsts.keys() == set()
    for one in situations.NOT_RUN:
        assert one.why
        block = firsts[one.page, one.first]
        assert not one.only or any(typed.typed.startswith(one.only) for typed in pages.commands(block))
    begin = (situations.FRESH, situations.WITHOUT_SHOP, situations.BY_ITSELF, situations.RELOADED)
    order = (situations.FIRST_PAGES, situations.FIRST, situations.LAST)
    assert {page for one in (*begin, *order) for page in one} <= set(pages.all_pages())


def test_each_page_is_read_once() -> None:
    """In whatever order."""
    assert sorted([*situations.FIRST_PAGES, *situations.how_to_pages()]) == sorted(pages.all_pages())


def test_nobody_has_the_lists_hold_more_than_the_exceptions() -> None:
    """Nine blocks in ten are run."""
    left_out = [one for one in situations.NOT_RUN if not one.only]
    assert len(left_out) < len(BLOCKS) / 10


def test_values_that_are_stated_can_be_checked() -> None:
    """The code with the checks in it compiles; a mistake names the page and the line."""
    for block in BLOCKS:
        if block.language == "python":
            compile(block.text, block.name, "exec")
            compile(stated.checked(block.text)[0], block.name, "exec")


def test_no_page_has_its_reader_change_a_file_of_weir() -> None:
    """The next version changes it, too: what is the reader's has a place of its own."""
    written = [block for block in BLOCKS if block.file and block.language != "sh"]
    assert len(written) > 10
    assert [block.name for block in written if (CHECKOUT / block.file).exists()] == []


def test_a_page_adds_to_what_other_pages_write() -> None:
    """Whoever comes from the tutorial, or another page, loses nothing; but for the pages that begin the app."""
    pages_of = {block.file: {other.page for other in BLOCKS if other.file == block.file} for block in BLOCKS}
    replaced = [
        block.name
        for block in BLOCKS
        if block.file.startswith("local/") and not block.is_added and block.page not in situations.WITHOUT_SHOP
        if len(pages_of[block.file]) > 1
    ]
    assert replaced == []


def test_the_tutorial_is_the_example() -> None:
    """Each file that the reader of the tutorial writes is the one that the tests of the example test."""
    for block in TUTORIAL:
        assert block.text == (SHOP / block.file.removeprefix("local/")).read_text(), block.name


def test_the_tutorial_writes_the_whole_example() -> None:
    """But for what `startapp` and `makemigrations` write."""
    made = {"shop/__init__.py", "shop/apps.py", "shop/migrations/__init__.py", "shop/migrations/0001_initial.py"}
    files = {str(path.relative_to(SHOP)) for path in (SHOP / "shop").rglob("*") if path.suffix in {".py", ".html"}}
    assert {block.file.removeprefix("local/") for block in TUTORIAL} == files - made
