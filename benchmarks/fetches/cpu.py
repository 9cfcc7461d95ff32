"""The CPU time of process trees, including that of children that have ended."""

from collections.abc import Iterable

import psutil

TRIES = 10


def used_s(pids: Iterable[int]) -> float:
    """Return the seconds of CPU that these processes and all their descendants have used so far."""
    return sum(used_s_by_process(pids).values())


def used_s_by_process(pids: Iterable[int]) -> dict[int, float]:
    """Return the seconds of CPU that these processes and all their descendants have used so far, by process id.

    A process that has ended is counted with its parent, once the parent has waited for it. RuntimeError if processes
    end too fast for a consistent answer.
    """
    roots = [psutil.Process(pid) for pid in pids]
    for _ in range(TRIES):
        try:
            trees = {process for root in roots for process in (root, *root.children(recursive=True))}
            return {process.pid: _own_s(process) for process in trees}
        except psutil.NoSuchProcess:  # one ended just now, and is counted with its parent next time
            continue
    raise RuntimeError(f"Processes end faster than their CPU time can be read {TRIES} times.")


def _own_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
