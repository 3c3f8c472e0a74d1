"""An independent reader of the explorer's bundles."""

import gzip
import io
import json
import struct

import numpy as np
from PIL import Image


class ReadBundle:
    """A bundle as the page reads it: its header, and arrays by their references."""

    def __init__(self, content: bytes) -> None:
        raw = gzip.decompress(content)
        (length,) = struct.unpack("<I", raw[:4])
        self.header = json.loads(raw[4 : 4 + length].decode(), parse_constant=refuse_constant)
        start = -(-(4 + length) // 8) * 8
        assert raw[4 + length : start].strip(b" ") == b""
        self.arrays = raw[start:]

    def file(self, ref) -> bytes:
        width = {"float32": 4, "uint8": 1}[ref["dtype"]]
        size = width * int(np.prod(ref["shape"], dtype=int))
        each = -(-size // ref["planes"])
        stored = self.arrays[ref["offset"] : ref["offset"] + each * ref["planes"]]
        assert len(stored) == each * ref["planes"]
        planes = [stored[n * each : (n + 1) * each] for n in range(ref["planes"])]
        return b"".join(bytes(group) for group in zip(*planes, strict=True))[:size]

    def array(self, ref) -> np.ndarray:
        assert ref["dtype"] == "float32"
        return np.frombuffer(bytearray(self.file(ref)), "<f4").reshape(ref["shape"])

    def picture(self, ref) -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(self.file(ref))))

    def tile(self, number: int) -> np.ndarray:
        """The thumbnail of a row."""
        shown = self.header["rows"]["shown"]
        sheet, place = divmod(number, shown["columns"] * shown["rows"])
        row, column = divmod(place, shown["columns"])
        width, height = shown["tile"]
        picture = self.picture(shown["sheets"][sheet])
        top, left = row * height, column * width
        return picture[top : top + height, left : left + width]


def refuse_constant(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
