"""Adapters of pydantic, each built once."""

import functools
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

adapter: Callable[[Any], TypeAdapter[Any]] = functools.cache(TypeAdapter)
"""Return the adapter of a type; building one is slow."""
