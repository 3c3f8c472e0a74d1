"""Data in files of arrays, as they are read, or refused by name."""

import sys
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from byte_images import BYTES, everything
from datasets import CPU
from unweave.core.spec import from_json, members, to_json
from unweave.data import Arrays, Data, Folder, InMemory, Published, Shapes2D
from unweave.data.dataset import ArrayDataset
from unweave.data.files.array_file import open_array_file


def test_the_union_names_its_members():
    own = {"shapes2d": Shapes2D, "arrays": Arrays, "folder": Folder, "memory": InMemory}
    assert (own | members(Published)).items() <= members(Data).items()


class TestArrays:
    def test_npy(self, tmp_path):
        np.save(tmp_path / "a.npy", BYTES)
        spec = Arrays(tmp_path / "a.npy")
        assert spec == Arrays(str(tmp_path / "a.npy")) == from_json(Arrays, to_json(spec))
        dataset = spec.load(CPU)
        assert isinstance(dataset, ArrayDataset)
        np.testing.assert_allclose(everything(dataset)[:, 0], BYTES / 255, rtol=1e-6)

    def test_npz_with_factors_and_names(self, tmp_path):
        factors = np.stack(np.unravel_index(np.arange(6), (2, 3)), -1)
        path = tmp_path / "a.npz"
        np.savez(path, pictures=BYTES, classes=factors, factor_names=["up", "down"])
        dataset = Arrays(path, "pictures", "classes").load(CPU)
        assert dataset.factor_names == ("up", "down")
        assert dataset.factors(torch.arange(6)).tolist() == factors.tolist()
        assert dataset.lattice is not None
        without = Arrays(path, key="pictures").load(CPU)
        assert without.factor_names == ()
        assert "classes" in without.notes[0]

    @pytest.mark.parametrize("key", ["imgs", "images", "x", "data"])
    def test_usual_keys_are_found(self, tmp_path, key):
        np.savez(tmp_path / "a.npz", **{key: BYTES, "another": np.zeros(3)})
        assert Arrays(tmp_path / "a.npz").load(CPU).shape == (1, 5, 7)

    def test_a_lone_array_needs_no_key(self, tmp_path):
        np.savez_compressed(tmp_path / "a.npz", whatever=BYTES)
        notes = Arrays(tmp_path / "a.npz").load(CPU).notes
        assert notes == ("6 images of 5 x 7, grey", "uint8 from 0 to 255 divided by 255")

    def test_a_pickle_beside_the_array_is_not_loaded(self, tmp_path):
        # As in the file of dSprites, whose metadata is pickled.
        np.savez(tmp_path / "a.npz", imgs=BYTES, metadata=np.array({"a": 1}, dtype=object))
        assert Arrays(tmp_path / "a.npz").load(CPU).size == 6
        with pytest.raises(ValueError, match="pickled"):
            Arrays(tmp_path / "a.npz", key="metadata").load(CPU)

    def test_bad_files_are_refused(self, tmp_path):
        def refused(message, *args, content=None, name="a.npz"):
            path = tmp_path / name
            if content is not None:
                content(path)
            with pytest.raises(ValueError, match=message):
                Arrays(path, *args).load(CPU)

        refused("check the path", name="none.npz")
        refused("choose it with key", content=lambda p: np.savez(p, a=BYTES, b=BYTES))
        refused("did you mean 'a'", "aa")
        refused("no array 'c'", "a", "c")
        refused("choose it with key", content=lambda p: np.savez(p))
        refused("pickled", content=lambda p: p.write_bytes(b"nonsense"))
        refused("save it again", content=lambda p: p.write_bytes(b""))
        refused("save it again", content=lambda p: p.write_bytes(b"PK\x03\x04nonsense"))
        refused("pickled", content=lambda p: np.save(p, np.array([None])), name="o.npy")
        refused("save it again", content=lambda p: p.write_bytes(b"\x93NUMPY\x01"), name="b.npy")
        refused("without keys", "a", content=lambda p: np.save(p, BYTES), name="c.npy")
        refused("c.npy: expected observations", content=lambda p: np.save(p, [1.0]), name="c.npy")

    def test_a_truncated_file_is_refused_before_it_is_read(self, tmp_path):
        path = tmp_path / "a.npy"
        np.save(path, BYTES)
        whole = path.read_bytes()
        for wrong in (whole[:-1], whole + b"x", whole[:130]):
            path.write_bytes(wrong)
            with pytest.raises(
                ValueError, match=r"a\.npy should have .* header, \(6, 5, 7\) of uint8"
            ):
                Arrays(path).load(CPU)
        path.write_bytes(whole.replace(b"(6, 5, 7)", b"(10**9,7)"))
        with pytest.raises(ValueError, match=r"a\.npy.*save it again"):
            Arrays(path).load(CPU)
        path.write_bytes(whole.replace(b"(6, 5, 7)", b"(-6,5, 7)"))
        with pytest.raises(ValueError, match=r"shape \(-6, 5, 7\)"):
            Arrays(path).load(CPU)

    def test_arrays_stored_column_by_column_are_read_if_they_fit_into_memory(
        self, tmp_path, monkeypatch
    ):
        np.save(tmp_path / "a.npy", np.asfortranarray(BYTES))
        np.savez(tmp_path / "a.npz", x=np.asfortranarray(BYTES))
        for path, name in ((tmp_path / "a.npy", ""), (tmp_path / "a.npz", "x")):
            rows = open_array_file(path).rows(name)
            np.testing.assert_array_equal(rows.read(0, len(BYTES)), BYTES)
            monkeypatch.setattr("unweave.data.files.npy.MOST", 10)
            with pytest.raises(ValueError, match="column by column"):
                open_array_file(path).rows(name)
            monkeypatch.undo()

    def test_a_member_with_a_huge_shape_is_refused(self, tmp_path):
        path = tmp_path / "a.npz"
        claim = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 8), }"
        header = b"\x93NUMPY\x01\x00" + len(claim).to_bytes(2, "little") + claim
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("imgs.npy", header + bytes(100))
        with pytest.raises(ValueError, match=r"according to its header, \(1000000000000, 8\)"):
            Arrays(path).load(CPU)

    def test_a_zip_bomb_is_not_unpacked(self, tmp_path, monkeypatch):
        monkeypatch.setattr("unweave.data.files.rows.BOMB", 2**18)
        np.savez_compressed(tmp_path / "a.npz", imgs=np.zeros((100, 64, 64), np.uint8))
        with pytest.raises(ValueError, match="zip bomb"):
            Arrays(tmp_path / "a.npz").load(CPU)

    def test_zip_bombs_in_hdf5_and_parquet_are_not_read(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:  # a terabyte of nothing
            file.create_dataset("imgs", (2**28, 64, 64), "u1", chunks=(64, 64, 64))
        with pytest.raises(ValueError, match="zip bomb"):
            Arrays(tmp_path / "a.h5").load(CPU)
        pq.write_table(pa.table({"u": pa.nulls(10**5, pa.int8()).fill_null(0)}), tmp_path / "a.pq")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("unweave.data.files.rows.BOMB", 2**18)
            with pytest.raises(ValueError, match="zip bomb"):
                Arrays(tmp_path / "a.pq").load(CPU)

    @pytest.mark.parametrize(
        ("shape", "kind"), [((10**17, 0), "<f4"), ((10**17,), "|S0")], ids=["numbers", "text"]
    )
    def test_many_empty_rows_are_refused_at_once(self, tmp_path, shape, kind):
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        with (tmp_path / "a.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("imgs", (10**15, 0), "f4")
        for name in ("a.npy", "a.h5"):
            with pytest.raises(ValueError, match=r"at least one value, got shape|of \|S0"):
                Arrays(tmp_path / name, split="train").load(CPU)

    def test_a_flipped_bit_is_detected(self, tmp_path):
        np.savez(tmp_path / "a.npz", imgs=BYTES)
        content = bytearray((tmp_path / "a.npz").read_bytes())
        content[content.index(BYTES[2].tobytes())] ^= 1
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"'imgs' of .*CRC"):
            Arrays(tmp_path / "a.npz").load(CPU)

    def test_names_in_an_archive_are_never_used_as_paths(self, tmp_path):
        path = tmp_path / "in" / "a.npz"
        path.parent.mkdir()
        np.save(tmp_path / "b.npy", BYTES)
        with zipfile.ZipFile(path, "w") as file:
            file.write(tmp_path / "b.npy", "../../imgs.npy")
        before = sorted(tmp_path.rglob("*"))
        assert Arrays(path).load(CPU).size == 6
        assert sorted(tmp_path.rglob("*")) == before

    @pytest.mark.parametrize("name", ["a.h5", "a.parquet"])
    def test_truncated_hdf5_and_parquet_files_are_named(self, tmp_path, name):
        path = tmp_path / name
        if name == "a.h5":
            with h5py.File(path, "w") as file:
                file["imgs"] = BYTES
        else:
            pq.write_table(pa.table({"u": np.arange(1000)}), path)
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(ValueError, match=rf"{name}.*save it again"):
            Arrays(path).load(CPU)

    def test_links_out_of_an_hdf5_file_are_not_followed(self, tmp_path):
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["imgs"] = BYTES
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["imgs"] = h5py.ExternalLink("b.h5", "imgs")
            file["other"] = h5py.ExternalLink("b.h5", "/")
            file["soft"] = h5py.SoftLink("/other")
            file["own/imgs"] = BYTES
            file.create_dataset(
                "raw", BYTES.shape, "u1", external=[(str(tmp_path / "b.h5"), 0, BYTES.nbytes)]
            )
        for name in ("imgs", "other/imgs", "soft/imgs", "own/none", "own/imgs/imgs"):
            with pytest.raises(ValueError, match=f"no array '{name}'"):
                Arrays(tmp_path / "a.h5", name).load(CPU)
        assert Arrays(tmp_path / "a.h5", "/own/imgs").load(CPU).size == len(BYTES)
        with pytest.raises(ValueError, match="lies in other files"):
            Arrays(tmp_path / "a.h5", "raw").load(CPU)

    def test_names_in_hdf5_files_need_not_be_utf8(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["imgs"] = BYTES
            file[b"caf\xe9"] = BYTES
        assert Arrays(tmp_path / "a.h5", "imgs").load(CPU).size == len(BYTES)
        with pytest.raises(ValueError, match=r"a\.h5"):
            Arrays(tmp_path / "a.h5", "caf\ufffd").load(CPU)

    def test_a_parquet_file_whose_footer_contradicts_itself_is_named(self, tmp_path):
        """Such a column makes pyarrow abort the process if its metadata are asked for."""
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"u": [0.5, 0.25]}), path)
        content = path.read_bytes()
        schema = bytes([0x15, 10, 0x25, 2])  # a double that is optional, and has a histogram
        assert content.count(schema) == 1
        path.write_bytes(content.replace(schema, bytes([0x15, 10, 0x25, 0])))
        with pytest.raises(ValueError, match=r"a\.parquet"):
            Arrays(path, "u").load(CPU)

    @pytest.mark.parametrize(("module", "name"), [("h5py", "a.h5"), ("pyarrow", "a.parquet")])
    def test_a_missing_library_is_named(self, tmp_path, monkeypatch, module, name):
        beginning = b"\x89HDF\r\n\x1a\n" if module == "h5py" else b"PAR1"
        (tmp_path / name).write_bytes(beginning)
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ValueError, match=f"pip install {module}"):
            Arrays(tmp_path / name).load(CPU)

    def test_an_encrypted_archive_is_refused(self, tmp_path):
        np.savez(tmp_path / "a.npz", imgs=BYTES)
        content = bytearray((tmp_path / "a.npz").read_bytes())
        content[6] |= 1
        content[content.index(b"PK\x01\x02") + 8] |= 1
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"'imgs' of .*is encrypted.*save it again"):
            Arrays(tmp_path / "a.npz").load(CPU)

    def test_a_damaged_member_is_refused(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            file.writestr("imgs.npy", b"\x93NUMPY\x01\x00")
        with pytest.raises(ValueError, match=r"'imgs' of .* save it again"):
            Arrays(tmp_path / "a.npz").load(CPU)
