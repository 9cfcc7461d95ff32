"""The circuit breaker: who may try to connect, and when."""

import pytest

from weir.workers.mail.sending.circuit_breaker import CircuitBreaker


@pytest.fixture
def circuit() -> CircuitBreaker:
    return CircuitBreaker(most_failures=3, first_s=5.0, longest_s=60.0)


def fail(circuit: CircuitBreaker, times: int, now: float = 0.0) -> None:
    for _ in range(times):
        circuit.failed(now)


def test_a_few_failures_do_not_open_it(circuit: CircuitBreaker) -> None:
    """A server may stumble."""
    fail(circuit, 2)
    assert circuit.enter(0.0)
    assert circuit.open_for_s(0.0) == 0.0


def test_it_opens_after_failures_in_a_row(circuit: CircuitBreaker) -> None:
    """Nobody may try for the first five seconds."""
    fail(circuit, 3)
    assert not circuit.enter(4.9)
    assert circuit.open_for_s(1.0) == pytest.approx(4.0)


def test_a_success_in_between_starts_the_count_anew(circuit: CircuitBreaker) -> None:
    """Only failures in a row count."""
    fail(circuit, 2)
    circuit.succeeded()
    fail(circuit, 2)
    assert circuit.enter(0.0)


def test_half_open_it_lets_one_try_and_nobody_else(circuit: CircuitBreaker) -> None:
    """The others wait until that one has said how it went."""
    fail(circuit, 3)
    assert circuit.enter(5.1)
    assert not circuit.enter(5.1)
    circuit.succeeded()
    assert circuit.enter(5.2)
    assert circuit.enter(5.2)


def test_whoever_tried_and_died_does_not_keep_it_shut_for_ever(circuit: CircuitBreaker) -> None:
    """The next may try after as long again."""
    fail(circuit, 3)
    assert circuit.enter(5.1)
    assert circuit.enter(10.2)


def test_it_stays_open_for_longer_each_time_but_for_a_minute_at_most(circuit: CircuitBreaker) -> None:
    """5, 10, 20, 40, 60, 60 seconds."""
    fail(circuit, 3)
    now, opened_for = 0.0, []
    for _ in range(5):
        now += circuit.open_for_s(now)
        assert circuit.enter(now)
        circuit.failed(now)
        opened_for.append(circuit.open_for_s(now))
    assert opened_for == pytest.approx([10.0, 20.0, 40.0, 60.0, 60.0])
