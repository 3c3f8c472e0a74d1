"""Training: one loop for all objectives, with many runs side by side as lanes."""

from unweave.core.lazy import load_lazily

__getattr__, __dir__, __all__ = load_lazily(__name__)  # listing runs needs no torch
