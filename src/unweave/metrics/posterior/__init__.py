"""Metrics that read the posterior q(z|x), not only codes."""
