"""What the callers of `throttle` in one process share: the runs that the process holds, and their keeper."""
