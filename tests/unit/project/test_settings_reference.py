"""The settings reference and .env.example say what the declarations of the variables say."""

import re

from pydantic import SecretStr

from project.checkout import CHECKOUT
from project.environment import reference
from project.environment.variables import GROUPS, Variables
from weir.conf import declared
from weir.conf.kinds import Wanted

PACKAGES = ("notifications", "project", "ratelimit", "weir", "workers")
REMEDY = "run `python -m project.environment.reference` and commit what it wrote"


def test_the_reference_is_what_the_declarations_make() -> None:
    """Its chapters on variables are not edited by hand, nor forgotten."""
    page = reference.PAGE.read_text()
    assert reference.BEGIN in page
    assert reference.END in page
    assert reference.page(page) == page, f"{reference.PAGE.name} is out of date: {REMEDY}"


def test_the_example_is_what_the_declarations_make() -> None:
    """Nor is the example."""
    assert reference.EXAMPLE.read_text() == reference.example(), f"{reference.EXAMPLE.name} is out of date: {REMEDY}"


def test_what_stands_around_the_chapters_is_kept() -> None:
    """Only what stands between the two marks is made anew."""
    page = f"before\n{reference.BEGIN}\n| `OLD` | none | Gone. |\n{reference.END}\nafter\n"
    made = reference.page(page)
    assert made.startswith(f"before\n{reference.BEGIN}\n\n## Pace")
    assert made.endswith(f"{reference.END}\nafter\n")
    assert "OLD" not in made
    assert reference.page(made) == made


def test_every_check_is_in_the_table() -> None:
    """A reader who is shown an id finds it; the code names each."""
    code = "".join(path.read_text() for package in PACKAGES for path in (CHECKOUT / package).rglob("*.py"))
    told = re.findall(r"^\| `(weir\.[A-Z]\d+)` \|", reference.PAGE.read_text(), re.MULTILINE)
    assert told == sorted(set(re.findall(r"weir\.[A-Z]\d{3}", code)))


def test_every_group_is_read() -> None:
    """The variables are those of the groups, in the order of the reference."""
    assert [*Variables.model_fields] == [name for group in GROUPS for name in group.model_fields]


def test_every_setting_is_in_the_reference() -> None:
    """Each that the library reads: also those that no variable sets."""
    page = reference.PAGE.read_text()
    assert [name for name in declared.Settings.model_fields if f"\n| `{name}` |" not in page] == []


def test_a_variable_says_what_it_means_and_how_it_is_written() -> None:
    """Its description is a sentence that fits into a table; one kind says what to write, where not all can be read."""
    for name, field in Variables.model_fields.items():
        assert re.fullmatch(r"[A-Z`][^|\n]*\.", field.description or ""), name
        marks = sum(isinstance(mark, Wanted) for mark in field.metadata)
        says_itself = name in ("WEIR_MAIL_RELAYS", "WEIR_MAIL_ROUTES")  # a sentence, without what may be secret
        assert marks == 1 or (marks == 0 and (says_itself or field.annotation in (str, SecretStr))), name
