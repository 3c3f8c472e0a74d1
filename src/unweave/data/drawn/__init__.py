"""Datasets that are rendered or computed, with known factors."""
