"""unweave: learn, measure and explore disentangled representations.

>>> import unweave as uw
>>> uw.Product(style=uw.Gaussian(8), place=uw.Gaussian(2)).size
10
"""

from unweave.core.lazy import load_lazily

__version__ = "0.1.0"

# Torch takes seconds to load, and the help of the command line does without it.
__getattr__, __dir__, __all__ = load_lazily(__name__)
