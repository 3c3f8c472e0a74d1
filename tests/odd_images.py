"""Image files of every format that is read, whole or odd, drawn with a seeded generator."""

import io
import struct
import zlib

import numpy as np
import tifffile
from PIL import Image

from odd_files import chance, overwritten

PIXELS = np.random.default_rng(1).integers(0, 256, (6, 5, 3), np.uint8)
BOMB = zlib.compress(bytes(2**26))
TEXTS = ["", "ImageJ=1.54\nimages=9\nchannels=3\nframes=x", "ImageJ=1.54\nimages=2\nchannels=2",
         "ImageJ=1\nimages=-1\nchannels=0\nhyperstack=true", "{", '{"axes": "TYX", "shape": [2]}',
         '{"axes": 3, "shape": {"a": 1}}', '{"axes": "tyx", "shape": ["x", 6, 5]}', "[" * 9999,
         '{"a":' * 9999, '<Pixels SizeC="x" SizeT="2" SizeZ="1">', '<Pixels DimensionOrder="">',
         '<Pixels SizeC="99999999999999" SizeT="2" SizeZ="1" DimensionOrder="XYCZT">',
         f'{{"axes": "tyx", "shape": [{"9" * 5000}, 6, 5]}}', "s[/b]\x1b[31m"]  # fmt: skip
PPM = [
    b"P6 99999999 99999999 255\n",
    b"P6 -1 2 255\n",
    b"P6 5 6 65535\n",
    b"P6 5 6 0\n",
    b"P7\n",
    b"P5 5 6 70000\n",
    b"P4 5 6\n",
    b"P1 5 6\n1 0 1",
    b"P2 5 6 255\n1 2 x",
    b"P6 # x\n5 6 255\n",
    b"Pf 5 6 -1.0\n",
    b"Pf 5 6 nan\n",
    b"PF 5 6 1\n",
    b"P6 0 0 255\n",
    b"P3 5 6 255\n" + b"9" * 99,
]


def _picture(rng):
    """A picture of any mode."""
    colour = Image.fromarray(PIXELS)
    deep = [
        Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 200),
        Image.fromarray(PIXELS[..., 0].astype(np.int32)),
        Image.fromarray(PIXELS[..., 0].astype(np.float32)),
    ]
    plain = [colour.convert(mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")]
    return rng.choice([*plain, *deep, colour.resize((1, 1)), colour.resize((300, 2))])


def saved(rng, kind, **options):
    """A picture as Pillow saves it, of another mode if the format has none like it."""
    content, picture = io.BytesIO(), _picture(rng)
    exif = Image.Exif()
    exif[0x0112] = rng.choice([1, 6, 8, 99])
    try:
        picture.save(content, kind, exif=exif if chance(rng, 0.3) else b"", **options)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, struct.error):
        content = io.BytesIO()
        Image.fromarray(PIXELS).save(content, kind, **options)
    return content.getvalue()


def png(rng):
    """A PNG file; most have an odd chunk, with the right checksum."""
    content = saved(rng, "png")
    chunks, place = [], 8
    while place < len(content):
        (size,) = struct.unpack(">I", content[place : place + 4])
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + size]))
        place += 12 + size
    what = rng.choice(["", "header", "header", "more", "twice", "less", "order", "changed"])
    number = rng.randrange(len(chunks))
    if what == "header":
        places = [(0, 4), (4, 4), (8, 1), (9, 1), (10, 1), (11, 1), (12, 1)]
        chunks[0] = (b"IHDR", overwritten(chunks[0][1], *rng.choice(places), rng, "big"))
    elif what == "more":
        chunks.insert(number, rng.choice([
            (b"zTXt", b"a\0\0" + BOMB), (b"iCCP", b"a\0\0" + zlib.compress(b"x")),
            (b"eXIf", b"II*\0\xff\xff\xff\xff"), (b"acTL", struct.pack(">II", 2**31, 0)),
            (b"tRNS", b""), (b"PLTE", b"xx"), (b"IDAT", b""), (b"iTXt", b"a\0\1\0\0\0" + BOMB),
            (b"fcTL", bytes(26)), (b"gAMA", b""), (b"tEXt", b"\xff" * 99), (b"cHRM", b"x"),
            (b"pHYs", b""), (b"sBIT", b"x"), (b"Abcd", b""), (b"IEND", b"")]))  # fmt: skip
    elif what == "twice":
        chunks.insert(number, chunks[number])
    elif what == "less":
        del chunks[number]
    elif what == "order":
        rng.shuffle(chunks)
    elif what == "changed" and chunks[number][1]:
        name, data = chunks[number]
        chunks[number] = (name, overwritten(data, rng.randrange(len(data)), 1, rng))
    return content[:8] + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def jpeg(rng):
    """A JPEG file; most have an odd segment."""
    content = saved(rng, "jpeg", progressive=chance(rng, 0.3))
    place, segments = 2, []
    while content[place] == 0xFF and content[place + 1] != 0xDA:
        segments.append(place)
        place += 2 + int.from_bytes(content[place + 2 : place + 4])
    at = rng.choice(segments)
    end = at + 2 + int.from_bytes(content[at + 2 : at + 4])
    what = rng.choice(["", "twice", "less", "length", "changed", "changed"])
    if what == "twice":
        return content[:end] + content[at:]
    if what == "less":
        return content[:at] + content[end:]
    if what == "length":
        return overwritten(content, at + 2, 2, rng, "big")
    return overwritten(content, rng.randrange(at + 4, end), 1, rng) if what else content


def gif(rng):
    """A GIF file of one or more frames; most have an odd screen."""
    more = [Image.fromarray(PIXELS[::-1]), Image.fromarray(PIXELS[:, ::-1])][: rng.randrange(3)]
    content = saved(rng, "gif", save_all=True, append_images=more)
    return overwritten(content, *rng.choice([(6, 2), (8, 2), (10, 1)]), rng)


def tiff(rng):
    """A TIFF file of any type, compression and description; half have an odd entry."""
    content = io.BytesIO()
    if chance(rng, 0.3):
        content = io.BytesIO(saved(rng, "tiff", compression=rng.choice([None, "tiff_lzw"])))
    else:
        kind = rng.choice(["u1", "u2", "u4", "i1", "i2", "f2", "f4", "f8", "?", "u8", "c8", ">u2"])
        shape = rng.choice([(6, 5), (2, 6, 5), (6, 5, 3), (3, 6, 5, 3), (2, 3, 6, 5), (6, 5, 7)])
        values = np.resize(PIXELS, shape).astype(kind)
        options = rng.choice([{}, {}, {"compression": "zlib"}, {"bigtiff": True},
                              {"tile": (16, 16)}, {"byteorder": ">"},
                              {"rowsperstrip": 1}])  # fmt: skip
        if chance(rng, 0.5):
            options |= {"description": rng.choice(TEXTS).encode(), "metadata": None}
        tifffile.imwrite(content, values, **options)
    return _odd_entry(content.getvalue(), rng) if chance(rng, 0.5) else content.getvalue()


def _odd_entry(content, rng):
    """Change the tag, type, count or value of an entry, or the place of the next directory."""
    order = "little" if content[:2] == b"II" else "big"
    start = int.from_bytes(content[4:8], order)
    count = int.from_bytes(content[start : start + 2], order)
    if int.from_bytes(content[2:4], order) != 42 or not 0 < count < 99:
        return content  # BigTIFF
    if chance(rng, 0.2):
        after = start + 2 + 12 * count
        return content[:after] + rng.choice([start, 1]).to_bytes(4, order) + content[after + 4 :]
    entry = start + 2 + 12 * rng.randrange(count)
    return overwritten(content, entry + (field := rng.choice([0, 2, 4, 8, 8, 8])),
                       2 if field < 4 else 4, rng, order)  # fmt: skip


def ppm(rng):
    """A PPM file; most have an odd header."""
    return saved(rng, "ppm") if chance(rng, 0.3) else rng.choice(PPM) + PIXELS.tobytes()


def bmp(rng):
    """A BMP file; most have an odd header."""
    content = saved(rng, "bmp")
    return overwritten(content, rng.choice([2, 10, 14, 18, 22, 28, 30, 34, 46]), 4, rng)


def webp(rng):
    """A WebP file of one or more frames; half have an odd header."""
    more = [Image.fromarray(PIXELS[::-1])] * rng.randrange(3)
    content = saved(rng, "webp", save_all=True, append_images=more)
    return overwritten(content, rng.randrange(4, 40), 1, rng) if chance(rng, 0.5) else content
