"""Rows that are added to the datasets of files."""

import numpy as np
import pytest

import holdall

KIND = {
    "type": "object",
    "TypeDef:Struct": ["id", "name", "tags"],
    "required": ["id"],
    "properties": {
        "id": {"TypeDef:Int32": True},
        "name": {"TypeDef:String": True},
        "tags": {"TypeDef:Array": True, "items": {"TypeDef:String": True}},
    },
}
ROWS = [{"id": n, "name": f"n{n}", "tags": ["a", str(n)]} for n in range(100)]


def read(path, name="records"):
    with holdall.open(path) as f:
        return list(f[name].records())


@pytest.mark.parametrize("extension", ["mt", "zt"])
def test_rows_are_added(tmp_path, extension):
    path = tmp_path / f"a.{extension}"
    holdall.save(path, {"w": np.arange(4.0), "records": holdall.Dataset(ROWS, KIND)}, attributes={"by": "me"})
    with holdall.open(path) as old:
        r = old["records"].records()
        report = holdall.append(path, [{"id": -1, "name": None, "tags": []}, {"id": -2}])
        assert (report.dataset, report.records, report.added, report.left_behind) == ("records", 102, 2, ())
        # A reader of the old file is not disturbed.
        assert len(r) == 100 and r[99] == ROWS[99]
    assert holdall.verify(path)
    found = read(path)
    assert found[:100] == ROWS and found[100:] == [{"id": -1, "name": None, "tags": []}, {"id": -2, "name": None, "tags": None}]
    with holdall.open(path) as f:
        assert f["w"].numpy().tolist() == [0, 1, 2, 3] and f.attributes["by"] == "me"
        assert f["records"].records().schema == KIND
    assert path.stat().st_size == report.nbytes
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_rows_of_every_kind_are_added_to_another_file(tmp_path):
    holdall.build(tmp_path / "a.mt", ROWS, KIND)
    (tmp_path / "r.csv").write_text("id,name\n7,x\n")
    with holdall.open(tmp_path / "a.mt") as f:
        assert holdall.append(f, tmp_path / "r.csv", tmp_path / "b.mt").added == 1
        assert holdall.append(f, {"id": np.arange(3), "name": ["a", None, "c"]}, tmp_path / "c.zt").added == 3
    assert read(tmp_path / "b.mt")[100:] == [{"id": 7, "name": "x", "tags": None}]
    assert [row["id"] for row in read(tmp_path / "c.zt")[100:]] == [0, 1, 2]
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"id": pa.array([1], pa.int8()), "tags": [["x"]]})
    holdall.append(tmp_path / "a.mt", table)
    assert read(tmp_path / "a.mt") == [*ROWS, {"id": 1, "name": None, "tags": ["x"]}]
    with pytest.raises(holdall.TargetExistsError):
        holdall.append(tmp_path / "a.mt", [], tmp_path / "b.mt")


def test_a_file_with_several_datasets(tmp_path):
    path = tmp_path / "a.mt"
    holdall.save(path, {"a": holdall.Dataset(ROWS, KIND), "b": holdall.Dataset(ROWS[:1], KIND)})
    with pytest.raises(holdall.UsageError) as e:
        holdall.append(path, ROWS[:1])
    assert e.value.code == "records/which-dataset"
    assert holdall.append(path, ROWS[:2], dataset="b").records == 3
    assert len(read(path, "a")) == 100 and read(path, "b") == [ROWS[0], ROWS[0], ROWS[1]]


def test_nothing_changes_after_an_error(tmp_path):
    path = tmp_path / "a.zt"
    holdall.build(path, ROWS, KIND, digest="crc32c")
    before = path.read_bytes()
    for rows, code in [([{"id": 2**40}], "record/range"), ([{"id": 1, "x": 2}], "record/unknown-member"), ([{}], "record/missing-member")]:
        with pytest.raises(holdall.UsageError) as e:
            holdall.append(path, rows)
        assert e.value.code == code and "row 0" in str(e.value)
    with pytest.raises(holdall.UsageError):
        holdall.append(before, ROWS)
    damaged = bytearray(before)
    with holdall.open(path) as f:
        at = before.find(b"n57")
        assert at > 0 and len(f["records"].records()) == 100
    damaged[at] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(holdall.IntegrityError):
        holdall.append(path, [])
    assert path.read_bytes() == bytes(damaged) and len(list(tmp_path.iterdir())) == 1
