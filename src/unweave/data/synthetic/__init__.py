"""Datasets that are rendered or computed, most of them with known factors."""
