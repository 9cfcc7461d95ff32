"""Fetchers of the version before this one know no methods: they get no fetch that is not a GET."""
