"""`unweave score` and `Table.load` on files as people have them."""

import csv
import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest

from unweave.metrics import Table, evaluate

SHAPES = ("heart", "oval", "square")
RNG = np.random.default_rng(0)
CLASSES = np.stack([RNG.integers(0, 3, 240), RNG.integers(0, 4, 240)], 1)
CODES = CLASSES * [1.0, -2.0] + 0.01 * RNG.standard_normal((240, 2))
TEXT = np.array(SHAPES)[CLASSES[:, 0]]
NAMES = [f"img{n:03}.png" for n in range(240)]


def write_csv(path, head, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def mig(unweave, *arguments):
    code, out, err = unweave("score", *arguments, "--metrics", "mig/locatello2019", "--json")
    assert code == 0, err
    return json.loads(out)["mig/locatello2019"], " ".join(err.split())


def expected(codes=CODES, factors=CLASSES):
    return evaluate(codes, factors, metrics="mig/locatello2019")["mig/locatello2019"]


def test_npy_files_and_options_for_array_names(unweave, tmp_path):
    np.save(tmp_path / "z.npy", np.asfortranarray(CODES))  # as scikit-learn returns some arrays
    np.save(tmp_path / "y.npy", CLASSES)
    for given in (["--factors", tmp_path / "y.npy"], [tmp_path / "y.npy"]):
        score, err = mig(unweave, tmp_path / "z.npy", *given)
        assert score["value"] == expected().value
        assert "are matched by their order" in err
    np.savez(tmp_path / "both.npz", z=CODES, y=CLASSES, images=np.zeros((240, 9)))
    score, err = mig(unweave, tmp_path / "both.npz", "--codes-key", "z", "--factors-key", "y")
    assert (score["value"], err) == (expected().value, "")
    code, _, err = unweave("score", tmp_path / "both.npz")
    assert code == 2
    assert "--codes-key and --factors-key" in err
    code, _, err = unweave("score", tmp_path / "both.npz", "--codes-key", "zz")
    assert (code, "has no array 'zz': did you mean 'z'" in err) == (2, True)


@pytest.mark.parametrize("single", [True, False])
def test_text_labels_become_classes(unweave, tmp_path, single):
    factors = TEXT if single else np.stack([TEXT, CLASSES[:, 1].astype(str)], 1)
    plain = CLASSES[:, :1] if single else CLASSES
    np.savez(tmp_path / "t.npz", codes=CODES, factors=factors)
    score, err = mig(unweave, tmp_path / "t.npz")
    assert score["value"] == pytest.approx(expected(factors=plain).value)
    assert "3 classes (heart, oval, square)" in err
    np.save(tmp_path / "z.npy", CODES)
    np.save(tmp_path / "shape.npy", TEXT)
    score, _ = mig(unweave, tmp_path / "z.npy", tmp_path / "shape.npy")
    assert list(score["parts"]) == ["shape"]  # named after the file
    assert score["value"] == pytest.approx(expected(factors=CLASSES[:, :1]).value)


def test_csv_files_are_joined_by_their_names(unweave, tmp_path):
    codes = write_csv(tmp_path / "codes.csv", ["file", "z0", "z1"],
                      [[n, *row] for n, row in zip(NAMES, CODES, strict=True)])  # fmt: skip
    order = RNG.permutation(240)[:200]  # another order, and some have no labels
    rows = [[TEXT[n], CLASSES[n, 1], NAMES[n]] for n in order]
    labels = write_csv(tmp_path / "labels.csv", ["shape", "size", "image"], rows)
    kept = np.sort(order)
    score, err = mig(unweave, codes, labels)
    assert score["value"] == pytest.approx(expected(CODES[kept], CLASSES[kept]).value)
    assert list(score["parts"]) == ["shape", "size"]
    assert "200 rows of" in err
    assert "matched by their names; 40 without labels are left out" in err
    assert "image names the rows" in err
    stems = [[*row[:2], row[2].removesuffix(".png")] for row in rows]  # names without extension
    write_csv(labels, ["shape", "size", "image"], stems)
    assert mig(unweave, codes, labels)[0]["value"] == score["value"]
    write_csv(labels, ["shape", "size", "image"], [[*row[:2], f"cell {n}"] for n, row in
                                                  enumerate(rows)])  # fmt: skip
    code, _, err = unweave("score", codes, labels)
    assert (code, "img000.png, ... and cell 0, ...: correct the names" in err) == (2, True)


def test_csv_files_without_names_are_matched_by_order(unweave, tmp_path):
    codes = write_csv(tmp_path / "codes.csv", ["z0", "z1"], CODES)
    labels = write_csv(tmp_path / "labels.csv", ["shape"], [[t] for t in TEXT])
    score, err = mig(unweave, codes, labels)
    assert score["value"] == pytest.approx(expected(factors=CLASSES[:, :1]).value)
    assert "matched by their order" in err
    write_csv(labels, ["shape"], [[t] for t in TEXT[:-1]])
    code, _, err = unweave("score", codes, labels)
    assert code == 2
    assert "239" in err
    assert "240" in err
    both = write_csv(tmp_path / "both.csv", ["z0", "z1", "shape"],
                     [[*z, t] for z, t in zip(CODES, TEXT, strict=True)])  # fmt: skip
    score, err = mig(unweave, both)  # text that repeats is a factor
    assert list(score["parts"]) == ["shape"]
    assert "taken as a factor" in err
    asked = ["--codes-key", "z0,z1", "--factors-key", "shape"]
    assert mig(unweave, both, *asked)[0]["value"] == score["value"]


def test_rows_with_missing_labels_are_not_scored(unweave, tmp_path):
    codes = write_csv(tmp_path / "codes.csv", ["z0", "z1"], CODES)
    cells = [["" if n < 30 else t] for n, t in enumerate(TEXT)]
    cells[0] = ["NA"]
    labels = write_csv(tmp_path / "labels.csv", ["shape"], cells)
    score, err = mig(unweave, codes, labels)
    wanted = expected(CODES[30:], CLASSES[30:, :1]).value
    assert score["value"] == pytest.approx(wanted)
    assert "30 of 240 observations have missing labels and are not scored" in err
    floats = CLASSES[:, :1].astype(float)
    floats[:30] = np.nan
    np.savez(tmp_path / "nan.npz", codes=CODES, factors=floats)
    score, err = mig(unweave, tmp_path / "nan.npz")
    assert score["value"] == pytest.approx(wanted)
    assert "30 of 240 observations have missing labels" in err


def test_numbers_stay_numbers(tmp_path):
    """Codes of doses 0.5, 2, 8 are not those of classes 0, 1, 2."""
    codes = write_csv(tmp_path / "codes.csv", ["z"], [[z] for z in CODES[:, 0]])
    dose = np.array([5, 20, 80])[CLASSES[:, 0]]
    size = RNG.random(240)
    labels = write_csv(tmp_path / "labels.csv", ["dose", "size"],
                       [[a, b] for a, b in zip(dose, size, strict=True)])  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = Table.load(codes, labels)
    np.testing.assert_allclose(table.factors, np.stack([dose, size], 1))
    assert table.continuous == ("size",)
    direct = Table(CODES[:, :1], np.stack([dose, size], 1), factor_names=("dose", "size"),
                   continuous=["size"])  # fmt: skip
    for name in ("mcc", "sap/kumar2018"):
        assert evaluate(table, metrics=name).to_json() == evaluate(direct, metrics=name).to_json()


def test_pickles_and_bombs_are_refused(unweave, tmp_path):
    np.savez(tmp_path / "p.npz", codes=np.array([{"a": 1}] * 3), factors=CLASSES[:3])
    code, _, err = unweave("score", tmp_path / "p.npz")
    assert (code, "pickled objects" in err) == (2, True)
    (tmp_path / "p.npy").write_bytes(pickle.dumps(CODES))
    code, _, err = unweave("score", tmp_path / "p.npy")
    assert (code, "never loaded" in err) == (2, True)
    bomb = tmp_path / "bomb.npz"
    claim = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000, 1), }"
    header = b"\x93NUMPY\x01\x00" + len(claim).to_bytes(2, "little") + claim
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("codes.npy", header + bytes(300 * 10**6))
    code, _, err = unweave("score", bomb)
    assert code == 2
    assert err.count("\n") == 1


def test_parts_of_a_metric_say_what_they_are(unweave, tmp_path):
    np.savez(tmp_path / "t.npz", codes=CODES, factors=CLASSES)
    code, out, _ = unweave("score", tmp_path / "t.npz", "--metrics", "dci/eastwood2018,mig")
    assert code == 0
    score = evaluate(CODES, CLASSES, metrics="dci/eastwood2018")["dci/eastwood2018"]
    rows = [line.split() for line in out.splitlines() if line.strip()]
    at = next(n for n, row in enumerate(rows) if row[0] == "dci/eastwood2018")
    assert rows[at][1] == f"{score.parts['disentanglement']:.4f}"  # the value itself
    others = ["completeness", "informativeness"]
    assert rows[at + 1 : at + 3] == [[n, f"{score.parts[n]:.4f}"] for n in others]
    assert list(score.parts) == ["disentanglement", *others]
    assert not any(row[0] == "factor" for row in rows)  # parts by factor are in --csv
    code, _, err = unweave("score", tmp_path / "t.npz", "--metrics", "udr")
    assert (code, "a metric of trained models" in err) == (2, True)


def test_decimal_commas_and_unlike_columns_of_codes_are_noted(unweave, tmp_path):
    codes = np.column_stack([CODES, CODES[:, ::-1]])
    rows = [";".join([*map(str, row), str(label)]) for row, label in zip(codes, TEXT, strict=True)]
    head = "z0;z1;z2;z3;shape"
    (tmp_path / "t.csv").write_text("\n".join([head, *rows]).replace(".", ","))
    score, err = mig(unweave, tmp_path / "t.csv")
    assert score["value"] == expected(codes, CLASSES[:, :1]).value
    assert "decimal commas are read as points in z0, z1, z2, z3" in err
    rows = [",".join(map(str, [*row, *each])) for row, each in zip(codes, CLASSES, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["z0,z1,z2,z3,size,label", *rows]))
    _, err = mig(unweave, tmp_path / "t.csv", "--factors-key", "label")
    assert "among them size, whose name is unlike the others: make it a label with" in err
    assert "with --factors-key label,size" in err


def test_scales_and_errors_that_encode_writes_are_not_codes(unweave, tmp_path):
    head = ["name", "z0", "z1", "z0.sd", "z1.sd", "rmse"]
    beside = np.random.default_rng(1).random((240, 3))
    rows = [[n, *z, *more] for n, z, more in zip(NAMES, CODES, beside, strict=True)]
    write_csv(tmp_path / "codes.csv", head, rows)
    np.save(tmp_path / "y.npy", CLASSES)
    score, err = mig(unweave, tmp_path / "codes.csv", tmp_path / "y.npy")
    assert score["value"] == expected().value
    assert "ignored: z0.sd, z1.sd, rmse" in err
