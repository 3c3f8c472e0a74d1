"""Files of tensors: safetensors with sealed facts and a checksum of the tensors in the header."""

import errno
import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from unweave.core import files
from unweave.core.files import check_regular, read_bytes, write_atomically
from unweave.core.memory import main_memory
from unweave.training.records import TensorFacts, check_form, reading, seal, unseal

_METADATA = "unweave"  # the field of the header that has the facts

# Types that torch lacks, and sizes that it cannot hold, are not safetensors' own errors.
_UNUSABLE = (AssertionError, KeyError, OverflowError, RuntimeError, TypeError)


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], run: str, facts: Mapping[str, Any]
) -> None:
    """Write tensors of a run with facts, which include the step."""
    write_atomically(path, tensors_to_bytes(path.name, tensors, run, facts))


def read_tensors(path: Path, run: str) -> tuple[dict[str, Tensor], TensorFacts]:
    """Read the tensors and facts that `write_tensors` wrote for this run."""
    files.disk.fetch(path)
    with reading(path):
        return tensors_from_bytes(path.name, read_bytes(path, main_memory()), run)


def tensors_to_bytes(
    file: str, tensors: Mapping[str, Tensor], run: str, facts: Mapping[str, Any]
) -> bytes:
    """Return the content of a file of tensors."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    sealed = seal(file, run, {**facts, "crc32": _checksum(ready)})
    return save(ready, metadata={_METADATA: json.dumps(sealed)})


def tensors_from_bytes(
    file: str, content: bytes, run: str
) -> tuple[dict[str, Tensor], TensorFacts]:
    """Return what `tensors_to_bytes` was given; raise a ValueError if anything has changed."""
    try:
        tensors = {name: value.clone() for name, value in load(content).items()}
    except (SafetensorError, *_UNUSABLE) as error:
        raise ValueError(f"its tensors: {error}") from None
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    facts = _facts(file, header.get("__metadata__"), run)
    if _checksum(tensors) != facts["crc32"]:
        raise ValueError("the checksum of its tensors does not match: the file was changed")
    return tensors, facts


def read_facts(path: Path, run: str) -> TensorFacts:
    """Read the facts of a file that `write_tensors` wrote for this run, without its tensors."""
    files.disk.fetch(path)
    with reading(path):
        check_regular(path)
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata()
        except SafetensorError as error:
            raise ValueError(f"its tensors: {error}") from None
        except RuntimeError as error:  # as "... (5)", with the number of the operating system
            number = re.search(r"\((\d+)\)$", str(error))
            code = int(number[1]) if number else errno.EIO
            raise OSError(code, os.strerror(code)) from None
        return _facts(path.name, metadata, run)


def _facts(file: str, metadata: Mapping[str, str] | None, run: str) -> TensorFacts:
    sealed = unseal(file, json.loads((metadata or {}).get(_METADATA, "null")), run)
    return check_form(TensorFacts, sealed.content)


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return a checksum of names, types, shapes and bytes."""
    value = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        value = zlib.crc32(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode(), value)
        if tensor.numel():
            value = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
