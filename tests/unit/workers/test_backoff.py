"""When to try again is a table of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from weir.workers.backoff import LONGEST_S, backoff_s


@for_each(
    ("attempts", "chance", "seconds"),
    [
        (1, 0.0, 1.0), (1, 0.5, 0.75), (2, 0.0, 2.0), (3, 0.0, 4.0), (3, 0.5, 3.0), (4, 0.0, 8.0),
        (5, 0.0, 16.0), (9, 0.0, 256.0), (10, 0.0, 300.0), (10, 0.5, 225.0), (100, 0.0, 300.0),
        (32_767, 0.0, 300.0),
    ],
)  # fmt: skip
def test_the_wait_doubles_with_each_attempt_up_to_five_minutes(attempts: int, chance: float, seconds: float) -> None:
    """1, 2, 4, ... up to 300 seconds, of which chance takes up to half."""
    assert backoff_s(attempts, chance) == seconds


@given(attempts=st.integers(1, 32_767), chance=st.floats(0, 1, exclude_max=True))
def test_the_wait_lies_between_half_and_all_of_its_step(attempts: int, chance: float) -> None:
    """Jitter never brings a retry forward by more than half, nor beyond the longest wait."""
    step = backoff_s(attempts, 0.0)
    assert step / 2 <= backoff_s(attempts, chance) <= step <= LONGEST_S


def test_the_steps_never_shrink() -> None:
    """A later attempt never waits for a shorter step than the one before."""
    steps = [backoff_s(attempts, 0.0) for attempts in range(1, 50)]
    assert steps == sorted(steps)


def test_many_that_failed_at_once_do_not_come_back_at_once() -> None:
    """Different chances give different waits."""
    assert len({backoff_s(5, chance / 100) for chance in range(100)}) == 100
