"""Weir's log lines, in any project: structured events that show of a URL no more than its scheme, host and port."""
