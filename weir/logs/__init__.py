"""What Weir logs, in a project of any kind: structured events, without more of a URL than its host."""
