"""Fetches from end to end and in their parts: dispatch, fairness among sites, and the forecast of a start."""
