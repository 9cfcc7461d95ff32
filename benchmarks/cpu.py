"""CPU time of process trees, of what has ended in them, too."""

from collections.abc import Iterable

import psutil

TRIES = 10


def used_s(pids: Iterable[int]) -> float:
    """Return the seconds of CPU that these processes and all that descend from them have used so far.

    A process that has ended is counted with its parent, which has waited for it.
    """
    roots = [psutil.Process(pid) for pid in pids]
    for _ in range(TRIES):
        try:
            trees = {process for root in roots for process in (root, *root.children(recursive=True))}
            return sum(_own_s(process) for process in trees)
        except psutil.NoSuchProcess:  # one ended just now, and is counted with its parent next time
            continue
    raise RuntimeError(f"Processes end faster than their CPU time can be read {TRIES} times.")


def _own_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
