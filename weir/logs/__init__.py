"""What Weir logs, in a project of any kind: structured events, which show no more of a URL than its host."""
