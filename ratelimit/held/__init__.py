"""What the callers of `throttle` in one process share: the runs that it holds for them, and how these are kept."""
