"""Schemas of records, and files of records: what the command does with them, from Python."""

import json

import jsonschema
import numpy as np
import pytest
from conftest import ROOT

import holdall
from holdall import schema

ROWS = [{"id": n, "name": f"n{n}", "at": {"x": n / 2}} for n in range(100)]
KIND = {
    "TypeDef:Struct": ["id", "name"],
    "required": ["id"],
    "properties": {"id": {"TypeDef:Int32": True, "minimum": 0}, "name": {"TypeDef:String": True}},
}


@pytest.fixture
def built(tmp_path):
    path = tmp_path / "set.mt"
    holdall.build(path, ROWS, schema.infer(ROWS))
    return path


def test_records_of_any_form_are_built(tmp_path):
    files = {
        "r.ndjson": '{"id": 1, "name": "a"}\n{"id": 2}\n',
        "r.json": '[{"id": 1, "name": "a"}, {"id": 2}]',
        "r.csv": "id,name\n1,a\n2,\n",
        "r.tsv": "id\tname\n1\ta\n2\t\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        report = holdall.build(tmp_path / "o.zt", tmp_path / name, KIND, overwrite=True)
        assert report.records == ("records", 2) and report.files is None
        assert report.nbytes == (tmp_path / "o.zt").stat().st_size
        with holdall.open(tmp_path / "o.zt") as f:
            assert list(f["records"].records()) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}], name
    # By another extension, into another path, with a schema in a file.
    (tmp_path / "r.txt").write_text(files["r.csv"])
    (tmp_path / "kind.json").write_text(json.dumps(KIND))
    report = holdall.build(tmp_path / "o.zt", tmp_path / "r.txt", tmp_path / "kind.json", form="csv", path="a.b", overwrite=True)
    assert report.records == ("a.b", 2)


def test_records_that_come_from_anywhere_are_built(tmp_path):
    many = ({"id": n, "name": "x" * 100} for n in range(20_000))
    assert holdall.build(tmp_path / "o.mt", many, KIND, overwrite=True).records == ("records", 20_000)
    with holdall.open(tmp_path / "o.mt") as f:
        assert np.array_equal(f["records"].records().column("id"), np.arange(20_000))
    kind = schema.infer([{"v": [1.5, 2.5], "t": "2024-05-01T12:00:00Z"}] * 2, tight=True)
    assert "TypeDef:Timestamp" in kind["properties"]["t"] and kind["properties"]["v"]["minItems"] == 2
    rows = [{"v": np.array([1, 2.5], "f4"), "t": np.datetime64("2024-05-01T12:00:00")}]
    holdall.build(tmp_path / "o.mt", rows, kind, overwrite=True)
    with holdall.open(tmp_path / "o.mt") as f:
        record = f["records"].records()[0]
        assert record["v"].tolist() == [1, 2.5] and record["t"] == rows[0]["t"]
    # What records are read as goes back into others.
    kind = {
        "TypeDef:Struct": ["x", "b", "c"],
        "required": ["x", "b"],
        "properties": {"x": {"TypeDef:Float64": True}, "b": {"TypeDef:Bytes": True}, "c": {"TypeDef:Complex64": True}},
    }
    rows = [{"x": float("inf"), "b": b"\0\xff", "c": 1 + 2j}, {"x": -0.5, "b": b"", "c": None}]
    holdall.build(tmp_path / "o.mt", rows, kind, null_absent=True, overwrite=True)
    with holdall.open(tmp_path / "o.mt") as f:
        holdall.build(tmp_path / "again.mt", f["records"].records(), kind, null_absent=True)
    with holdall.open(tmp_path / "again.mt") as f:
        assert list(f["records"].records()) == rows


def test_what_does_not_fit_is_refused(tmp_path):
    out = tmp_path / "o.mt"

    def refused(error, code, rows, kind=KIND, **options):
        with pytest.raises(error) as info:
            holdall.build(out, rows, kind, **options)
        assert code is None or info.value.code == code, info.value
        assert not out.exists()
        return info.value

    e = refused(holdall.HoldallError, "record/type", [{"id": 1}, {"id": "x"}])
    assert "row 1" in str(e)
    refused(holdall.HoldallError, "record/unknown-member", [{"id": 1, "more": 1}])
    refused(holdall.HoldallError, None, [{"id": -1}], check=True)
    refused(TypeError, None, [{"id": {1, 2}}])
    refused(TypeError, None, None)
    refused(TypeError, None, {"id": 1})
    refused(TypeError, None, [{"id": 1}], file_members=["name"])
    refused(holdall.UsageError, "python/option", tmp_path / "r.csv", form="xml")
    refused(holdall.MissingFileError, None, tmp_path / "r.csv")

    def broken():
        yield {"id": 1}
        raise KeyError("mine")

    refused(KeyError, None, broken())
    lenient = holdall.build(out, [{"id": 1, "more": 1, "name": None}], KIND, ignore_unknown=True, null_absent=True)
    assert lenient.records == ("records", 1)


def test_files_become_members_and_blobs(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.txt").write_text("content")
    rows = [{"id": 1, "name": "a.txt"}]
    report = holdall.build(
        tmp_path / "o.zt", rows, KIND, files=tmp_path / "files", file_members=["name"], blob="all"
    )
    assert report.files == ("all", 1)
    with holdall.open(tmp_path / "o.zt") as f:
        assert f["records"].records()[0]["name"] == "content"
        assert bytes(f["all"].blob()[0]) == b"content" and f["all_names"].blob()[0] == "a.txt"
    with pytest.raises(holdall.UsageError) as info:
        holdall.build(tmp_path / "o.zt", [{"id": 1, "name": "../x"}], KIND, files=tmp_path, file_members="name", overwrite=True)
    assert info.value.code == "build/file-name"


def test_records_are_found_by_conditions_and_by_chance(built):
    with holdall.open(built) as f:
        r = f["records"].records()
        found = r.where("id>=10", "id<20")
        assert len(found) == 10 and [x["id"] for x in found] == list(range(10, 20))
        assert found[0] == r[10] and found[-1]["id"] == 19 and len(found[2:4]) == 2
        assert found.positions.tolist() == found.column("id").tolist() == found.values("id") == list(range(10, 20))
        assert "10 records of 100" in repr(found)
        assert [x["id"] for x in r[10:40:3].where("id<20")] == [10, 13, 16, 19]
        assert [x["id"] for x in r[::-1].where("id<3")] == [2, 1, 0]
        assert len(r.where("name=n7")) == 1 and len(r.where("!name")) == 0 and len(r.where()) == 100
        some = r.sample(5, seed=3)
        assert len(some) == 5 and some.positions.tolist() == r.sample(5, seed=3).positions.tolist()
        assert some.positions.tolist() == sorted(set(some.positions.tolist())) != r.sample(5, seed=4).positions.tolist()
        assert len(r.sample(1000)) == 100 and len(r[::2].sample(10)) == 10
        assert all(at % 2 == 0 for at in r[::2].sample(10).positions.tolist())
        chosen = found.sample(3, seed=1)
        assert len(chosen) == 3 and set(chosen.positions.tolist()) <= set(range(10, 20))
        wrongs = [("id=x", "records/condition"), ("", "records/condition"), ("nope=1", "schema/unknown-path")]
        for wrong, code in wrongs:
            with pytest.raises(holdall.HoldallError) as info:
                r.where(wrong)
            assert info.value.code == code
        with pytest.raises(IndexError):
            found[10]
        with pytest.raises(TypeError):
            r.where(1)


def test_records_are_sorted_counted_and_grouped(built):
    with holdall.open(built) as f:
        r = f["records"].records()
        assert r.sort("-id").positions.tolist() == list(range(99, -1, -1))
        found = r.where("id in (3, 5) or name contains n4")
        assert found.sort("-id").values("id")[-3:] == [5, 4, 3] and len(found) == 2 + 11
        assert found.where("id<10").values("id") == [3, 4, 5]
        assert r[:10].sort("name").values("id") == list(range(10))
        assert r[:3].groups("id", "name") == [((0, "n0"), 1), ((1, "n1"), 1), ((2, "n2"), 1)]
        assert r.where("id<2").groups("id") == [(0, 1), (1, 1)]
        with pytest.raises(holdall.NotFoundError) as info:
            r.sort("nam")
        assert "did you mean `name`?" in info.value.hint


def test_members_become_files_and_files_members(tmp_path):
    (tmp_path / "images").mkdir()
    for name in "ab":
        (tmp_path / f"images/{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + name.encode())
    (tmp_path / "t.csv").write_text("id,image\n7,a.png\n8,b.png\n")
    kind = holdall.schema.infer(tmp_path / "t.csv", file_members=["image"])
    assert kind["properties"]["image"]["TypeDef:Bytes"] is True
    holdall.build(tmp_path / "t.mt", tmp_path / "t.csv", kind, files=tmp_path / "images", file_members="image")
    with holdall.open(tmp_path / "t.mt") as f:
        r = f["records"].records()
        assert r.export("image", tmp_path / "out") == ["0.png", "1.png"]
        assert (tmp_path / "out/1.png").read_bytes() == r[1]["image"]
        assert r.where("id=8").export("image", tmp_path / "out", names="id") == ["8.png"]
        with pytest.raises(holdall.UsageError) as info:
            r.export("image", tmp_path / "out")
        assert info.value.code == "write/exists"
        assert len(r.export("image", tmp_path / "out", overwrite=True)) == 2
        with pytest.raises(holdall.UsageError) as info:
            r.export("id", tmp_path / "out")
        assert info.value.code == "records/file-member"
    with pytest.raises(holdall.NotFoundError):
        holdall.schema.infer(tmp_path / "t.csv", file_members=["imag"])


def test_the_command_finds_the_same(built, capfd):
    from holdall import _holdall

    with holdall.open(built) as f:
        r = f["records"].records()
        for args, selection in [
            (["--sample", "7", "--seed", "2"], r.sample(7, seed=2)),
            (["--where", "id>=50", "--sample", "7", "--seed", "2"], r.where("id>=50").sample(7, seed=2)),
        ]:
            assert _holdall.command(["holdall", "records", str(built), "--json", *args], []) == 0
            shown = [json.loads(line)["id"] for line in capfd.readouterr().out.splitlines()]
            assert shown == [x["id"] for x in selection]


def test_schemas_are_inferred(tmp_path, built):
    kind = schema.infer(ROWS)
    assert kind["TypeDef:Struct"] == ["id", "name", "at"]
    assert "TypeDef:Uint8" in schema.infer(ROWS, tight=True)["properties"]["id"]
    enums = schema.infer([{"a": "x"}, {"a": "y"}], enums=2)
    assert enums["properties"]["a"]["enum"] == ["x", "y"]
    with pytest.raises(holdall.UnsupportedError) as info:
        schema.infer([{"a": 1}, {"a": "x"}])
    assert info.value.code == "infer/mixed"
    assert schema.infer([{"a": 1}, {"a": "x"}], first=1)["TypeDef:Struct"] == ["a"]
    (tmp_path / "r.csv").write_text("a,b.c\n1,x\n")
    assert schema.infer(tmp_path / "r.csv")["properties"]["b"]["TypeDef:Struct"] == ["c"]
    holdall.save(tmp_path / "w.safetensors", {"a.b": np.zeros((2, 3), "f4")})
    of_file = schema.infer(tmp_path / "w.safetensors")
    with holdall.open(tmp_path / "w.safetensors") as f:
        assert schema.infer(f) == of_file and "a" in of_file["properties"]


def test_schemas_are_laid_out(tmp_path, built):
    rows = schema.layout(KIND)
    assert [(row.path, row.kind, row.optional) for row in rows[1:]] == [("id", "Int32", False), ("name", "String", True)]
    assert rows[1].base == "record" and rows[1].size == 4 and rows[2].presence is not None
    assert [row.path for row in schema.layout(built, "records[].at")] == ["records[].at", "records[].at.x"]
    with holdall.open(built) as f:
        assert schema.layout(f)[0].base == "header"
    tensor = {"TypeDef:Tensor": {"dtype": "F32", "shape": ["n"]}}
    assert schema.layout(tensor, symbols={"n": 3}, reading="record")[0].size == 12
    for wrong, options in [("schema/unknown-path", {"path": "x"}), ("schema/unknown-symbol", {"symbols": {"m": 1}})]:
        with pytest.raises(holdall.NotFoundError) as info:
            schema.layout(KIND, **options)
        assert info.value.code == wrong
    with pytest.raises(TypeError):
        schema.layout(7)


def test_records_and_files_are_checked(tmp_path, built):
    report = schema.check(KIND, [{"id": 1}, {"id": "x"}, {"id": -1}])
    assert not report and (report.records, report.finding_count) == (3, 2)
    assert [finding.line for finding in report.findings] == [2, 3]
    with pytest.raises(holdall.HoldallError):
        report.raise_if_bad()
    assert schema.check(KIND) and schema.check(KIND, [{"id": 1}])
    unsound = schema.check({"TypeDef:Nothing": True})
    assert not unsound and unsound.findings[0].line is None
    kind = schema.infer(ROWS)
    assert schema.check(kind, built) and schema.check(built, ROWS, path="records")
    with holdall.open(built) as f:
        report = schema.check(kind, f)
        assert report and report.records == 100
        other = schema.check(KIND, f)
        assert not other and [finding.record for finding in other.findings[:2]] == [None, 0]
    assert schema.check(KIND, [{"id": 1, "more": 0, "name": None}], ignore_unknown=True, null_absent=True)


def test_schemas_are_compared(built):
    wider = json.loads(json.dumps(KIND).replace("Int32", "Int64"))
    found = schema.diff(KIND, wider)
    assert found and [(c.path, c.old, c.new) for c in found.changes] == [("id", "Int32", "Int64")]
    assert found.bump in ("minor", "major") and found.changes[0].verdict != "breaking"
    same = schema.diff(KIND, KIND)
    assert not same and same.compatible
    assert not schema.diff(schema.infer(ROWS), built)
    with holdall.open(built) as f:
        assert not schema.diff(f, built, path="records")


def test_records_are_migrated(tmp_path, built):
    kind = json.loads(json.dumps(schema.infer(ROWS)).replace('"name"', '"title"'))
    with pytest.raises(holdall.HoldallError) as info:
        schema.migrate(built, kind, tmp_path / "n.mt")
    assert info.value.code.startswith("evolve/")
    report = schema.migrate(built, kind, tmp_path / "n.mt", rename={"title": "name"})
    assert report.records == 100 and not report.dropped and report.nbytes == (tmp_path / "n.mt").stat().st_size
    with holdall.open(tmp_path / "n.mt") as f:
        assert f["records"].records()[7]["title"] == "n7"
    less = {"TypeDef:Struct": ["id"], "required": ["id"], "properties": {"id": {"TypeDef:Int64": True}}}
    with holdall.open(built) as f:
        report = schema.migrate(f, less, tmp_path / "l.zt", drop=True)
    assert "records[].name" in report.dropped


def test_models_are_migrated(tmp_path):
    path, out = tmp_path / "old.mt", tmp_path / "new.mt"
    w = np.arange(6, dtype="f4")
    holdall.save(path, {"w1": w, "w2": w + 1})
    new = {"properties": {"up": {"TypeDef:Tensor": {"dtype": "F32", "shape": [6]}}}}
    with pytest.raises(holdall.UsageError) as info:
        schema.migrate(path, new, out, rename={"up": "w1"})
    assert info.value.code == "evolve/drops-member" and not out.exists()
    report = schema.migrate(path, new, out, rename={"up": "w1"}, drop=True)
    assert (report.tensors, report.records, report.dropped) == (1, 0, ("w2",))
    assert np.array_equal(holdall.load(out)["up"], w)
    with pytest.raises(holdall.NotFoundError) as info:
        schema.migrate(path, new, out, rename={"up": "w3"}, drop=True)
    assert info.value.code == "schema/unknown-path"


def test_what_is_compatible_checks_and_migrates(tmp_path, built):
    kind = schema.infer(ROWS)
    closer = json.loads(json.dumps(kind))
    closer["properties"]["id"]["maximum"] = 98
    assert not schema.diff(kind, closer).compatible
    assert not schema.check(closer, built)
    with pytest.raises(holdall.HoldallError) as info:
        schema.migrate(built, closer, tmp_path / "new.mt")
    assert info.value.code == "record/keyword"
    closer["properties"]["id"]["maximum"] = 99
    assert schema.check(closer, built)


def vectors():
    folder = ROOT / "corpus/vectors/metatensor"
    return [v for name in ("layout", "records") for v in json.loads((folder / f"{name}.json").read_text())]


def test_generated_dtypes_are_those_of_records():
    """Code from the schemas of all vectors makes the dtypes that reading has."""
    pytest.importorskip("ml_dtypes")
    from holdall._kinds import Types

    made = 0
    for vector in vectors():
        try:
            types = Types(holdall._holdall.record_types(json.dumps(vector["schema"])))
            text = holdall.schema.code(vector["schema"], "python", name="Made")
        except holdall.HoldallError as e:
            assert "error" in vector or e.code in ("schema/no-equivalent-type", "schema/open-shape", "records/which-dataset")
            continue
        space = {}
        exec(compile(text, vector["name"], "exec"), space)
        if types.rows[types.root].kind == "array":  # A dataset, of which the element is mirrored.
            continue
        assert space["Made"] == types.dtype(), vector["name"]
        enums = {p: types.rows[at].more[1] for p, at, _ in types.columns() if types.rows[at].kind == "enum"}
        assert space.get("MadeEnums", {}) == enums
        made += 1
    assert made > 80


def test_code_is_made_of_files(built):
    with holdall.open(built) as f:
        space = {}
        text = holdall.schema.code(f, "python", name="point")
        exec(text, space)
        records = f["records"].records()
        assert space["Point"] == records.dtype
        for line in text.splitlines():
            if line.startswith("#   records."):
                assert eval(line.split(": ")[0].removeprefix("#   "), {"records": records}) is not None
        assert "pub struct Record" in holdall.schema.code(records.schema, "rust")
        assert "export interface Record" in holdall.schema.code(built, "typescript", path="records")
    for schema, lang, code in [
        ({"TypeDef:String": True}, "python", "schema/no-equivalent-type"),
        (KIND, "cobol", "python/option"),
    ]:
        with pytest.raises(holdall.HoldallError) as info:
            holdall.schema.code(schema, lang)
        assert info.value.code == code


def test_formats_and_keywords_of_ones_own_are_checked(tmp_path):
    kind = {
        "TypeDef:Struct": ["code", "price"],
        "required": ["code", "price"],
        "properties": {
            "code": {"TypeDef:String": True, "format": "upper"},
            "price": {"TypeDef:Int64": True, "between": [0, 10]},
        },
    }
    own = {"formats": {"upper": str.isupper}, "keywords": {"between": lambda ends, n: ends[0] <= n <= ends[1]}}
    rows = [{"code": "A", "price": 1}, {"code": "a", "price": 1}, {"code": "B", "price": 11}]
    assert schema.check(kind, rows)
    report = schema.check(kind, rows, **own)
    assert [finding.line for finding in report.findings] == [2, 3]
    assert "`upper`" in str(report.findings[0].error) and "`between`" in str(report.findings[1].error)
    path = tmp_path / "set.mt"
    holdall.build(path, rows, kind)
    assert [finding.record for finding in schema.check(kind, path, **own).findings] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        schema.check(kind, rows, formats={"upper": lambda text: 1 / 0})
    with pytest.raises(holdall.UsageError) as info:
        schema.check(kind, rows, keywords={"TypeDef:Int64": lambda own, value: True})
    assert info.value.code == "schema/own-keyword"


def test_formats_and_keywords_of_ones_own_hold_for_what_is_migrated(tmp_path):
    kind = {
        "TypeDef:Struct": ["n"],
        "required": ["n"],
        "properties": {"n": {"TypeDef:Int64": True, "below": 10}},
    }
    path, out = tmp_path / "old.mt", tmp_path / "new.mt"
    holdall.build(path, [{"n": 1}, {"n": 12}], kind)
    assert schema.migrate(path, kind, out).records == 2
    with pytest.raises(holdall.HoldallError) as info:
        schema.migrate(path, kind, tmp_path / "x.mt", keywords={"below": lambda most, n: n < most})
    assert info.value.code == "record/keyword" and "`below`" in str(info.value)
    assert not (tmp_path / "x.mt").exists()
    by_half = {"keywords": {"below": lambda most, n: n < most}, "converters": {"n": lambda n: n // 2}}
    schema.migrate(path, kind, out, overwrite=True, **by_half)
    with holdall.open(out) as f:
        assert list(f["records"].records()) == [{"n": 0}, {"n": 6}]
    with pytest.raises(ZeroDivisionError):
        schema.migrate(path, kind, tmp_path / "x.mt", keywords={"below": lambda most, n: 1 / 0})


def header_of(path):
    with open(path, "rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))


def test_headers_are_validated_by_jsonschema(tmp_path):
    # A dataset, a blob and a flat tensor of one schema, under a plain value.
    whole = {
        "type": "object",
        "required": ["layers", "set", "texts", "w"],
        "properties": {
            "layers": {"type": "integer", "minimum": 1},
            "set": {"type": "array", "items": KIND, "TypeDef:Array": True},
            "texts": {"TypeDef:Blob": {"content": "utf-8"}},
            "w": {"type": "object", "TypeDef:Tensor": {"dtype": "F32", "shape": [None, 2]}},
        },
    }
    rows = [{"id": 1, "name": "a"}, {"id": 2}]
    files = {"set.mt": {"set": holdall.Dataset(rows, KIND)}, "texts.mt": {"texts": holdall.Runs(["a", "b"], "utf-8")}}
    holdall.save(tmp_path / "w.mt", {"w": np.ones((3, 2), "f4"), "a.b": np.zeros(2, "i2")})
    for name, parts in files.items():
        holdall.save(tmp_path / name, parts)
    for path in sorted(tmp_path.glob("*.mt")):
        header = header_of(path)
        jsonschema.validate(header["tensors"], header.get("header_schema", header["schema"]))
        derived = schema.header(path)
        jsonschema.Draft202012Validator.check_schema(derived)
        jsonschema.validate(header["tensors"], derived)
        with holdall.open(path) as file:
            assert schema.header(file) == derived
        assert header.get("header_schema", derived) == derived
        # What a header must not be is found.
        for wrong in ({}, {name: {} for name in header["tensors"]}, {name: [] for name in header["tensors"]}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(wrong, derived)
    derived = schema.header(whole)
    (tmp_path / "whole.json").write_text(json.dumps(whole))
    assert schema.header(tmp_path / "whole.json") == derived
    good = {
        "layers": 2,
        "set": header_of(tmp_path / "set.mt")["tensors"]["set"],
        "texts": header_of(tmp_path / "texts.mt")["tensors"]["texts"],
        "w": header_of(tmp_path / "w.mt")["tensors"]["w"],
    }
    jsonschema.validate(good, derived)
    for name, wrong in [("layers", 0), ("set", good["texts"]), ("texts", good["w"]), ("w", {**good["w"], "shape": [3, 3]})]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**good, name: wrong}, derived)
    # A record has no header.
    with pytest.raises(holdall.UsageError) as e:
        schema.header(KIND)
    assert e.value.code == "records/which-dataset"


def test_a_schema_keeps_its_order(tmp_path):
    kind = {
        "title": "in my order",
        "required": ["z", "a"],
        "properties": {"z": {"TypeDef:Int32": True, "minimum": 0}, "a": {"$ref": "#/$defs/t"}},
        "TypeDef:Struct": ["z", "a"],
        "$defs": {"t": {"title": "t", "TypeDef:String": True}},
    }
    holdall.build(tmp_path / "o.mt", [{"z": 1, "a": "x"}], kind)
    items = header_of(tmp_path / "o.mt")["schema"]["properties"]["records"]["items"]
    assert list(items) == [keyword for keyword in kind if keyword != "$defs"]
    assert list(items["properties"]) == ["z", "a"] and list(items["properties"]["z"]) == ["TypeDef:Int32", "minimum"]
    assert list(header_of(tmp_path / "o.mt")["schema"]["$defs"]["t"]) == ["title", "TypeDef:String"]
