"""Files under another schema: migrated by names and functions, planned, and read as they are."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import holdall
from holdall import schema

PHOTOS = pathlib.Path(__file__).parents[3] / "examples" / "photos"
TINY = PHOTOS.parent / "tiny.zt"
#: What the photos and the tiny model become, as the tests of the command have it.
EVOLVED = {
    "photos": {
        "rename": {"kind": "label", "text": "caption"},
        "converters": {
            "kind": "map(cat=0, dog=1, *=2)",
            "at.lat": "cast",
            "at.lon": "cast",
            "tags": 'join(", ")',
        },
        "drop": True,
    },
    "model": {
        "rename": {"norm.weight": "layers.0.norm.weight"},
        "converters": {"norm.weight": "scale(2)|cast", "position_ids": "cast|reshape"},
        "drop": True,
    },
}


@pytest.fixture
def photos(tmp_path):
    path = tmp_path / "photos.mt"
    files = {"files": PHOTOS / "files", "file_members": ["image"]}
    holdall.build(path, PHOTOS / "photos.ndjson", PHOTOS / "schema.json", path="photos", **files)
    return path


def evolved(name, photos):
    if name == "photos":
        return photos, PHOTOS / "schema3.json", EVOLVED[name]
    return TINY, PHOTOS.parent / "tiny2.json", EVOLVED[name]


@pytest.mark.parametrize("name", ["photos", "model"])
def test_python_migrates_as_the_command_does(tmp_path, photos, name):
    old, new, how = evolved(name, photos)
    own, other = tmp_path / "own.mt", tmp_path / "other.mt"
    schema.migrate(old, new, own, **how)
    args = ["schema", "migrate", str(old), str(new), "-o", str(other), "--drop"]
    args += [a for k, v in how["rename"].items() for a in ("--rename", f"{k}={v}")]
    args += [a for k, v in how["converters"].items() for a in ("--convert", f"{k}={v}")]
    subprocess.run([sys.executable, "-m", "holdall", *args], check=True, capture_output=True)
    assert own.read_bytes() == other.read_bytes()


def test_functions_are_converters(tmp_path, photos):
    old, new, how = evolved("photos", photos)
    named, own = tmp_path / "named.mt", tmp_path / "own.mt"
    schema.migrate(old, new, named, overwrite=True, **how)
    functions = {
        "kind": lambda label: {"cat": 0, "dog": 1}.get(label, 2),
        "at.lat": lambda x: x,
        "at.lon": lambda x: x,
        "tags": ", ".join,
    }
    schema.migrate(old, new, own, overwrite=True, **{**how, "converters": functions})
    assert own.read_bytes() == named.read_bytes()
    ml_dtypes = pytest.importorskip("ml_dtypes")
    old, new, how = evolved("model", photos)
    schema.migrate(old, new, named, overwrite=True, **how)
    functions = {
        "norm.weight": lambda w: (w * 2).astype(ml_dtypes.bfloat16),
        "position_ids": lambda ids: ids.astype("i4").reshape(256),
    }
    schema.migrate(old, new, own, overwrite=True, **{**how, "converters": functions})
    assert own.read_bytes() == named.read_bytes()


def test_what_functions_raise_is_raised(tmp_path, photos):
    old, new, how = evolved("photos", photos)

    def bad(value):
        raise KeyError(value)

    out = tmp_path / "n.mt"
    with pytest.raises(KeyError):
        schema.migrate(old, new, out, overwrite=True, **{**how, "converters": {**how["converters"], "kind": bad}})
    with pytest.raises(TypeError):
        schema.migrate(old, new, out, overwrite=True, **{**how, "converters": {**how["converters"], "kind": 3}})
    old, new, how = evolved("model", photos)
    with pytest.raises(KeyError):
        schema.migrate(old, new, out, overwrite=True, **{**how, "converters": {**how["converters"], "position_ids": bad}})
    with pytest.raises(TypeError, match="must return int32"):
        schema.migrate(old, new, out, overwrite=True, **{**how, "converters": {**how["converters"], "position_ids": lambda a: a}})
    assert not out.exists()
    with pytest.raises(holdall.UsageError) as info:
        schema.migrate(old, new, out, overwrite=True, **{**how, "converters": {"position_ids": "resize"}})
    assert info.value.code == "evolve/converter"


def test_a_plan_is_told_before_it_runs(photos):
    old, new, how = evolved("photos", photos)
    plan = schema.plan(old, new, **how)
    assert (plan.records, plan.tensors, plan.unchanged) == (4, 1, 0)
    steps = {(s.step, s.target or s.source): s for s in plan.steps}
    assert steps["renamed", "photos[].text"].source == "photos[].caption"
    cast = steps["converted", "photos[].at.lat"]
    assert (cast.old, cast.new, cast.by, cast.rounds) == ("Float32", "BFloat16", "cast", True)
    assert steps["default", "photos[].stars"].source is None
    assert ("dropped", "photos[].image") in steps
    plan = schema.plan(*evolved("model", photos)[:2], **EVOLVED["model"])
    steps = {(s.step, s.target): s for s in plan.steps}
    assert steps["widened", "embed.weight"].new == "F32 [64, 16]"
    assert steps["default", "temperature"].new == "F32 [1]"
    functions = {**how["converters"], "kind": lambda label: 0}
    plan = schema.plan(old, new, **{**how, "converters": functions})
    assert {s.by for s in plan.steps if s.target == "photos[].kind"} >= {"a function for kind"}


@pytest.mark.parametrize("name", ["photos", "model"])
def test_files_are_read_under_a_new_schema(tmp_path, photos, name):
    old, new, how = evolved(name, photos)
    path = tmp_path / "new.mt"
    schema.migrate(old, new, path, **how)
    how = {k: v for k, v in how.items() if k != "drop"}
    with holdall.open(path) as wanted, holdall.open(old, schema=new, **how) as found:
        assert set(found) == set(wanted)
        if name == "photos":
            a, b = found["photos"].records(), wanted["photos"].records()
            assert len(a) == 4 and a[0]["tags"] == "roof, night" and a[0]["kind"] == 0
            assert list(a) == list(b) and a[2] == b[2]
            assert np.array_equal(a.column("stars"), b.column("stars"))
            assert a.texts("text") == b.texts("text")
            assert list(a.where("kind=0").positions) == [0, 2]
        else:
            for at in wanted:
                assert np.array_equal(found[at].numpy(), wanted[at].numpy()), at
            assert np.array_equal(found["position_ids"][10:20], np.arange(10, 20))
            assert np.array_equal(found.load()["embed.weight"], wanted.load()["embed.weight"])
            assert not holdall.diff(found, wanted)
    with pytest.raises(TypeError):
        holdall.open(old, rename={"a": "b"})


def test_functions_are_called_as_files_are_read(tmp_path):
    path = tmp_path / "old.mt"
    holdall.save(path, {"w": np.arange(6, dtype="f4").reshape(2, 3)})
    new = {"properties": {"w": {"TypeDef:Tensor": {"dtype": "F32", "shape": [3, 2]}}}}
    with holdall.open(path, schema=new, converters={"w": np.transpose}) as f:
        assert np.array_equal(f["w"].numpy(), np.arange(6, dtype="f4").reshape(2, 3).T)
        assert f["w"].shape == (3, 2)
