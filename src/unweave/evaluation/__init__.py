"""Trained models: fit, load, encode, evaluate."""
