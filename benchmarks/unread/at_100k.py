"""The benchmark of size (size.py) with 100,000 users."""

from functools import partial

from benchmarks.unread import size
from benchmarks.unread.large import Size

measure = partial(size.measure, size=Size(users=100_000, copied=1_000_000, copy_s=240))
