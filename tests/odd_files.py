"""Files of arrays in every format that is read, whole or odd, drawn with a seeded generator.

A function `<format>(rng)` returns the content of a file. Half of the files or more are odd: their
library could have written them, or their parts contradict one another.
"""

import csv
import io
import struct
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 20
SEEDED = np.random.default_rng(0)
CODES, FACTORS = SEEDED.normal(size=(ROWS, 2)), SEEDED.integers(0, 2, (ROWS, 2))
IMAGES = SEEDED.integers(0, 256, (ROWS, 8, 8), np.uint8)
SHAPES = [(), (0,), (0, 2), (-1, 2), (20, 0), (10**13, 2), (2**63, 2), (2**64, 0), (1,) * 40,
          (20.0, 2), ("a",), (True, 2), [20, 2], 20, None, ((20,), 2), (2**31,) * 4,
          (1, 20, 2), (10, 2), (40,)]  # fmt: skip
TYPES = ["|O", "O", "<M8[s]", "<m8[D]", "|V8", "|S8", "<U2", ">f8", "<f2", "<f16", "<c16", "|b1",
         "<i8", "<u8", "|S99999999999", "<U999999999", "|S0", "<f7", "", "x", None, 8, [],
         [("a", "<f8")], [("a", "<f8", (2,))], [("a", "|O")], ("<f8", (2,)), "<f8,<f8", "@f8",
         "__import__('os').system('touch pwned')"]  # fmt: skip
HEADERS = ["", "{}", "[]", "None", "(" * 900, "{'descr': '<f8'}", "{'a': 1}", "\x00" * 20, "{" * 90,
           "__import__('os').system('touch pwned')", "{'descr': '<f8', 'fortran_order': False, "
           "'shape': (20, 2), 'more': 1}", "9" * 5000, "ä"]  # fmt: skip
CELLS = ["", " ", "nan", "NA", "inf", "-1e999", "1e308", "x", "1,5", "1.234,5", "٣", "0x10",
         "1_000", "=1+1", "\x1b[31m", "\u202e", "a\nb", '"', "'", "\x00", "9" * 400, "1e-400",
         "True",
         "名前", "s[/b]", "é" * 200, "0" * 5000, "2026-01-01", "row"]  # fmt: skip
NAMES = ["codes", "factors", "images", "scales", "kl", "discrete", "normal", "factor_names",
         "factor_sizes", "periods", "continuous", "row_names", "features", "a/b", "../out", "/out",
         "", "x\x1b[31m", "\u202e", "s[/b]", "=1", "x" * 300, "codes.npy"]  # fmt: skip
SIZES = [0, 1, 7, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1]


def chance(rng, share):
    """Whether something happens that does with this probability."""
    return rng.random() < share


def odd_array(rng):
    """A small array of any type and shape."""
    many = [
        CODES, FACTORS, IMAGES, CODES[:, 0], CODES[0, 0], CODES[:0], CODES[:, :0], CODES[None],
        CODES.astype(np.float16), CODES * np.nan, CODES * 1e308 * 10, CODES > 0, CODES * 1j,
        FACTORS - 5, FACTORS.astype(np.uint64) + 2**63, FACTORS.astype("M8[s]"), CODES.astype(str),
        np.array(["a", "b"]), np.array([b"\xff", b"a"]), np.array('{"factor 0": 3}'),
        np.array("[" * 999),
        np.array([{}, None], object), np.zeros(ROWS, [("a", float)]), np.ones((ROWS, 2)), CODES.T,
        np.asfortranarray(CODES), CODES.astype(">f4"), np.zeros(3, "S0"), IMAGES[:, None],
        np.array(["s[/b]\x1b[31m", "\u202e"]), np.array([0, 1]), np.array([2**40, 2]),
    ]  # fmt: skip
    return many[rng.randrange(len(many))]


def npy(rng):
    """A .npy file, half of them with another header."""
    if chance(rng, 0.3):
        return _saved(odd_array(rng))
    fields = {"descr": "<f8", "fortran_order": False, "shape": (ROWS, 2)}
    if chance(rng, 0.7):
        name = rng.choice(sorted(fields))
        fields[name] = rng.choice({"descr": TYPES, "shape": SHAPES}.get(name, [True, 1, None, "x"]))
    text = repr(fields) if chance(rng, 0.8) else rng.choice(HEADERS)
    version = rng.choice([1, 1, 1, 2, 3, 0, 9])
    head = text.encode() + b"\n"
    size = len(head) if chance(rng, 0.9) else rng.choice(SIZES)
    length = struct.pack("<H", size % 2**16) if version == 1 else struct.pack("<I", size)
    return (
        b"\x93NUMPY" + bytes([version, rng.choice([0, 0, 0, 7])]) + length + head + CODES.tobytes()
    )


def _saved(array):
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def npz(rng):
    """A .npz file of codes, images and factors, with odd arrays or names, or an odd archive."""
    members = {"codes.npy": _saved(CODES), "factors.npy": _saved(FACTORS)}
    if chance(rng, 0.3):
        members["images.npy"] = _saved(IMAGES)
    for _ in range(rng.choice([0, 1, 1, 2])):
        content = _saved(odd_array(rng)) if chance(rng, 0.7) else npy(rng)
        members[f"{rng.choice(NAMES[:13] if chance(rng, 0.8) else NAMES)}.npy"] = content
    return zipped(members, rng)


def zipped(members, rng):
    """An archive of members; half are odd: members twice, any compression, headers that lie."""
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]
    content, pairs = io.BytesIO(), [*members.items()]
    if chance(rng, 0.1):
        pairs.append((pairs[0][0], rng.choice(pairs)[1]))
    with zipfile.ZipFile(content, "w", rng.choice(methods[:1] * 3 + methods)) as archive:
        for name, member in pairs:
            info = zipfile.ZipInfo(name)
            archive.writestr(info, member, archive.compression)
        archive.comment = b"x" * 300 if chance(rng, 0.05) else b""
    return _lying(content.getvalue(), rng) if chance(rng, 0.3) else content.getvalue()


def _lying(content, rng):
    """Change a field of a header of a zip file."""
    mark, fields = rng.choice([
        (b"PK\x03\x04", [(4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)]),
        (b"PK\x01\x02", [(6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2),
                         (32, 2), (42, 4)]),
        (b"PK\x05\x06", [(8, 2), (10, 2), (12, 4), (16, 4), (20, 2)]),
    ])  # fmt: skip
    place, (offset, size) = content.find(mark), rng.choice(fields)
    return overwritten(content, place + offset, size, rng)


def overwritten(content, place, size, rng, order="little"):
    """Replace an integer by an odd one, or one that is a little larger or smaller."""
    old = int.from_bytes(content[place : place + size], order)
    new = rng.choice([*SIZES, old + 1, old - 1, 2 * old]) % 256**size
    return content[:place] + new.to_bytes(size, order) + content[place + size :]


def csv_text(rng):
    """A table of two codes and a class; most have odd cells, names, delimiters or encodings."""
    rows = [["z0", "z1", "class", "file"]]
    rows += [[f"{a:.3f}", f"{b:.3f}", "ab"[n % 2], f"{n}.png"] for n, (a, b) in enumerate(CODES)]
    for _ in range(rng.choice([0, 1, 1, 3])):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(CELLS)
    change = rng.choice(["", "", "short", "double", "none", "wide", "numbers", "column"])
    if change == "short":
        del rng.choice(rows)[-1]
    elif change == "double":
        rows[0][1] = rows[0][0]
    elif change == "none":
        rows = rows[: rng.choice([0, 1, 2])]
    elif change == "wide":
        rows = [row * 400 for row in rows]
    elif change == "numbers":
        rows = [row[:2] for row in rows[1:]]
    elif change == "column":
        column, cell = rng.randrange(4), rng.choice(CELLS)
        rows = [[*row[:column], cell, *row[column + 1 :]] for row in rows]
    text = io.StringIO()
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    csv.writer(text, delimiter=rng.choice(",,;\t|"), quoting=quoting).writerows(rows)
    content = text.getvalue()
    content = content.replace('"', rng.choice(["", "'", '""'])) if chance(rng, 0.1) else content
    codec = rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "cp037"])
    return content.encode(codec, "replace")


def parquet(rng):
    """A Parquet file of two codes and a column of any type."""
    kinds = [
        pa.array(["ab"[n % 2] for n in range(ROWS)]), pa.array([f"row {n}" for n in range(ROWS)]),
        pa.array([None] * ROWS), pa.array([1, None] * 10), pa.array([b"\xff"] * ROWS),
        pa.array([[1.0, 2.0]] * ROWS), pa.array([[1.0], [1.0, 2.0]] * 10),
        pa.array([[[1.0]]] * ROWS), pa.array([{"a": 1}] * ROWS), pa.array([[], None] * 10),
        pa.array([[("k", 1)]] * ROWS, pa.map_(pa.string(), pa.int8())),
        pa.array(["a", "b"] * 10).dictionary_encode(), pa.array([n * 86400 for n in range(ROWS)],
        pa.timestamp("s", "Europe/Berlin")), pa.array(range(ROWS), pa.date32()),
        pa.array(range(ROWS), pa.time64("us")), pa.array([True, False] * 10),
        pa.array(range(ROWS)).cast(pa.decimal128(30, 2)), pa.array([2**64 - 1] * ROWS, pa.uint64()),
        pa.array([float("nan"), float("inf")] * 10), pa.array([b"abcd"] * ROWS, pa.binary(4)),
        pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2)),
        pa.array(range(ROWS), pa.duration("s")),
        pa.array(CODES[:, 0].astype(np.float16)), pa.array(["x" * 9999] * ROWS),
        pa.array([["a"]] * ROWS), pa.array([[None]] * ROWS, pa.list_(pa.float64())),
    ]  # fmt: skip
    columns = [("z0", pa.array(CODES[:, 0])), ("z1", pa.array(CODES[:, 1]))]
    for _ in range(rng.choice([0, 1, 1, 2])):
        columns.append((rng.choice(["class", "z0", *NAMES]), rng.choice(kinds)))
    names, arrays = zip(*columns, strict=True)
    table = pa.Table.from_arrays(list(arrays), names=list(names))
    content = io.BytesIO()
    pq.write_table(table[: rng.choice([0, 1, 20, 20, 20])], content,
                   row_group_size=rng.choice([1, 7, 100]), use_dictionary=chance(rng, 0.5),
                   compression=rng.choice(["none", "snappy", "gzip", "zstd"]))  # fmt: skip
    return content.getvalue()


def hdf5(rng):
    """An HDF5 file of codes and factors, and an object of any kind."""
    content = io.BytesIO()
    with h5py.File(content, "w", libver=rng.choice(["earliest", "latest"])) as file:
        for name, array in (("codes", CODES), ("factors", FACTORS)):
            options = rng.choice([
                {}, {}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True},
                {"fletcher32": True}, {"chunks": (3, 1)}, {"maxshape": (None, 2)},
            ])  # fmt: skip
            file.create_dataset(name, data=array, **options)
        if chance(rng, 0.7):
            name = rng.choice(["codes", "images", "factors", "factor_names", "row_names", "a"])
            if name in file:
                del file[name]
            _odd_object(file, name, rng)
    return content.getvalue()


def _odd_object(file, name, rng):
    array = odd_array(rng)
    what = rng.choice(["array", "array", "huge", "soft", "external", "virtual", "group", "text",
                       "compound", "enum", "reference", "empty", "lists", "outside"])  # fmt: skip
    if what == "array" and array.dtype.kind in "biufc":
        file[name] = array
    elif what == "huge":
        file.create_dataset(name, (2 ** rng.choice([20, 40, 62]), 2), "f4", chunks=(64, 2))
    elif what == "soft":
        file[name] = h5py.SoftLink(rng.choice(["/", f"/{name}", "/factors", "/none"]))
    elif what == "external":
        file[name] = h5py.ExternalLink("codes.h5", "/codes")
    elif what == "virtual":
        layout = h5py.VirtualLayout((ROWS, 2), "f8")
        layout[:] = h5py.VirtualSource("codes.h5", "codes", (ROWS, 2))
        file.create_virtual_dataset(name, layout)
    elif what == "group":
        file[f"{name}/b/{'c/' * rng.choice([0, 60])}d"] = CODES
        file[f"{name}/loop"] = file
    elif what == "text":
        file[name] = rng.choice([["a", "s[/b]"], [b"\xff"], "x", ["z\x1b[31m"] * 2])
    elif what == "compound":
        file[name] = np.zeros(ROWS, [("a", "f8"), ("b", "i4", (2,))])
    elif what == "enum":
        file.create_dataset(name, (ROWS, 2), h5py.enum_dtype({"a": 0, "b": 1}))
    elif what == "reference":
        file.create_dataset(name, data=[file.ref] * 2, dtype=h5py.ref_dtype)
    elif what == "empty":
        file[name] = h5py.Empty("f8")
    elif what == "lists":
        file.create_dataset(name, (ROWS,), h5py.vlen_dtype(float))
    elif what == "outside":
        file.create_dataset(name, (8,), "u1", external=[("codes.npz", 0, 8)])
