"""The benchmark of size (size.py) with 10,000,000 users."""

from functools import partial

from benchmarks.unread import size
from benchmarks.unread.large import Size

measure = partial(size.measure, size=Size(users=10_000_000, copied=50_000_000, copy_s=240))
