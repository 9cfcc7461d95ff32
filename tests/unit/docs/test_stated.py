"""One word that is not as a page states it is found; what differs from run to run may be left open."""

import pytest

from tests.acceptance.docs import pages, stated
from tests.cases import for_each

CAME = """\
3 fetches in 4.1 s, 0.7/s
        3 done       200 x 3
"""


@for_each(
    "page",
    [
        CAME,
        "3 fetches in ... s, .../s\n        3 done       200 x 3",
        "3 fetches in ...\n...\n",
        "...\n        3 done       200 x 3\n...\n",
        "...",
        CAME.replace("s\n", "s  \n"),
    ],
)
def test_what_came_is_what_is_stated(page: str) -> None:
    """Literally, but for `...` and for blanks at the end of a line."""
    assert stated.differs(page, CAME) == ""


@for_each(
    "page",
    [
        CAME.replace("done", "failed"),
        CAME.replace("3 fetches", "4 fetches"),
        CAME.replace("200 x 3", "200 x 3."),
        CAME.replace("in 4.1", "in .+"),
        "3 fetches in ... s, .../s",
        "        3 done       200 x 3",
        "3 fetches in ... s\n        3 done       200 x 3",
        "... fetches\n        3 done       200 x 3",
        CAME + "and more",
        "",
    ],
)
def test_one_word_that_differs_is_found(page: str) -> None:
    """And so are lines that are missing, before or after those that are stated."""
    assert stated.differs(page, CAME) != ""


def test_the_difference_names_both() -> None:
    """The page's line and the line that came stand in it."""
    difference = stated.differs(CAME.replace("done", "failed"), CAME)
    assert "-        3 failed       200 x 3" in difference
    assert "+        3 done       200 x 3" in difference


def test_lines_that_are_compared_are_counted() -> None:
    """A line that stands for any is not."""
    assert stated.compared("a\n...\nb ...\n") == 2


CODE = """\
from math import inf
double = lambda n: 2 * n
double(2)  # 4
doubled = double(3)  # 6: twice as much
double(4)  # eight; it says nothing
{  # a comment
    7: double(1),
}  # {7: 2}, as an example
print(doubled)  # 6
"""


def test_values_that_comments_state_are_checked() -> None:
    """The code runs where they are right, and says where one is not."""
    right, number = stated.checked(CODE.replace("print(doubled)  # 6", "print(doubled)"))
    assert number == 3
    exec(right, {})  # noqa: S102  as Django's shell does with what it reads

    wrong, _ = stated.checked(CODE.replace("# {7: 2}", "# {7: 3}"))
    with pytest.raises(AssertionError, match=r"line 8 states \{7: 3\}, but it is \{7: 2\}"):
        exec(wrong, {})  # noqa: S102  as above


def test_code_that_states_nothing_stays_as_it_is() -> None:
    """Also where it has comments."""
    code = "x = 1  # the number of things\n# 3\ny = 2\n"
    assert stated.checked(code) == (code, 0)


PAGE = """\
# A page

Words before. Then, in `shop/tasks.py`:

```python
def task(): ...
```

At the end of `project/settings.py`:

```python
INSTALLED_APPS += ["shop"]
```

Names such as `x` in a `sentence`, and type:

```console
$ python manage.py sites \\
>     --json
{"sites": []}
$ true
$ echo '$ 5'
$ 5
```

```python
print(1)
```

```{toctree}
```

```sh
a \\
  b
c
```
"""


def test_a_block_says_what_to_do_with_it() -> None:
    """By its language, and by the end of the paragraph before it."""
    found = pages.blocks("p.md", PAGE)
    assert [(block.line, block.how, block.file, block.is_added) for block in found] == [
        (6, "file", "shop/tasks.py", False),
        (12, "file", "project/settings.py", True),
        (18, "console", "", False),
        (27, "shell", "", False),
        (34, "sh", "", False),
    ]


def test_commands_have_their_lines_and_outputs() -> None:
    """One that goes on in the next line is one; one without output states none."""
    console, sh = (block for block in pages.blocks("p.md", PAGE) if block.language in {"console", "sh"})
    assert [(one.line, one.typed, one.seen) for one in pages.commands(sh)] == [(34, "a \\\n  b", None), (36, "c", None)]
    [sites, nothing, echo, five] = pages.commands(console)
    assert (sites.line, sites.typed, sites.seen) == (18, "python manage.py sites \\\n    --json", '{"sites": []}')
    assert (nothing.typed, nothing.seen) == ("true", None)
    assert (echo.typed, echo.seen, five.typed) == ("echo '$ 5'", None, "5")
