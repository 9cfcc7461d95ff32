"""The benchmark of size (size.py) with 1,000,000 users."""

from functools import partial

from benchmarks.unread import size
from benchmarks.unread.large import Size

measure = partial(size.measure, size=Size(users=1_000_000, copied=5_000_000, copy_s=240))
