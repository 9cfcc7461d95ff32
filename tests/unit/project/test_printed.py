"""What a task prints is a line of the log each, with the task's name."""

import logging
import threading

import pytest
import structlog

from project.logs import printed


@pytest.fixture
def out() -> printed.LoggedLines:
    return printed.LoggedLines(logging.getLogger("stdout"), logging.INFO)


def test_a_print_is_one_line(out: printed.LoggedLines, caplog: pytest.LogCaptureFixture) -> None:
    """`print` writes it in pieces; blank lines are left out, indentation and % are not."""
    with caplog.at_level("INFO"):
        print("price", 12, "100%s", file=out)
        print(file=out)
        print("  two\nlines", file=out)
    assert caplog.messages == ["price 12 100%s", "  two", "lines"]
    assert {(record.name, record.levelname) for record in caplog.records} == {("stdout", "INFO")}


def test_a_line_without_an_end_comes_with_the_end_of_the_task(
    out: printed.LoggedLines, caplog: pytest.LogCaptureFixture
) -> None:
    """A progress bar's dots are one line."""
    with caplog.at_level("INFO"):
        for _ in range(3):
            print(".", end="", flush=True, file=out)
        assert caplog.messages == []
        out.end_line()
        out.end_line()
    assert caplog.messages == ["..."]


def test_threads_do_not_write_into_each_others_lines(
    out: printed.LoggedLines, caplog: pytest.LogCaptureFixture
) -> None:
    """A fetcher's tasks run in threads."""
    with caplog.at_level("INFO"):
        out.write("ours ")
        other = threading.Thread(target=out.write, args=("theirs\n",))
        other.start()
        other.join()
        out.write("too\n")
    assert caplog.messages == ["theirs", "ours too"]


def test_logging_that_fails_and_prints_does_not_go_round_in_circles(out: printed.LoggedLines) -> None:
    """A handler that cannot write prints why, to what is logged."""

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print(f"cannot log {record.getMessage()}", file=out)

    logger = logging.getLogger("stdout")
    handler = Failing()
    logger.addHandler(handler)
    try:
        logger.setLevel("INFO")
        print("hello", file=out)
    finally:
        logger.removeHandler(handler)
        logger.setLevel("NOTSET")


def test_a_task_is_named_while_it_runs() -> None:
    """And not afterwards, as the process goes on to others."""

    class Task:
        name = "shop.tasks.page_arrived"

    printed._name_the_task(Task)
    assert structlog.contextvars.get_contextvars() == {"task": "shop.tasks.page_arrived"}
    printed._end_the_task()
    assert structlog.contextvars.get_contextvars() == {}
