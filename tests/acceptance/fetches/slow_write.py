"""A fetcher that takes longer from its last look at the clock to the system call that writes, where stops may hit it.

`python -m tests.acceptance.fetches.slow_write MS MODULE ARGUMENT ...` runs a module that way, as `python -m MODULE`
would.
"""

import runpy
import sys
import time
from typing import Any

from weir.workers.fetches.fetcher.wire.channel import Channel


def be_slow_by(seconds: float) -> None:
    """Make each request of this process wait for this time."""
    send = Channel.send

    def send_late(self: Channel, data: bytes) -> None:
        time.sleep(seconds)
        send(self, data)

    module: Any = Channel
    module.send = send_late


if __name__ == "__main__":
    be_slow_by(float(sys.argv[1]) / 1000)
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
