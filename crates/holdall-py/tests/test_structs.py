"""Structured arrays into files, and back."""

import io
import subprocess
import sys

import numpy as np
import pytest

import holdall

ROOM = [("lat", "<f4"), ("lon", "<f4")]
DTYPES = {
    "numbers": np.dtype([(f"m{i}", t) for i, t in enumerate("i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 ? M8[ns]".split())]),
    "aligned": np.dtype([("a", "u1"), ("b", "f8"), ("c", "u2")], align=True),
    "nested": np.dtype([("id", "<u4"), ("at", ROOM), ("n", [("x", "u1"), ("y", ROOM, 2)])]),
    "nested aligned": np.dtype([("a", "u1"), ("n", np.dtype([("x", "u1"), ("y", "f8")], align=True))], align=True),
    "arrays": np.dtype([("m", "<f4", (2, 3)), ("v", "<i2", 5), ("z", "u1", 0)]),
    "odd names": np.dtype([("a.b", "u1"), ("é [0]", "u2"), ("\\", "u4"), ("x" * 300, "u8")]),
}  # fmt: skip


def filled(dtype, count=100):
    rng = np.random.default_rng(4)
    out = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
    return sound(out)


def sound(a):
    """Booleans that are some, and no NaN, which is not a number like another."""
    for name in a.dtype.names:
        base = a[name].dtype
        if base.names:
            sound(a[name])
        elif base.kind == "b":
            a[name] = a[name].view("u1") > 100
        elif base.kind in "fc":
            a[name] = np.nan_to_num(a[name].real, posinf=1, neginf=1)
    return a


@pytest.mark.parametrize("extension", ["mt", "zt"])
@pytest.mark.parametrize("of", DTYPES)
def test_there_and_back(tmp_path, of, extension):
    dtype = DTYPES[of]
    a = filled(dtype)
    path = tmp_path / f"a.{extension}"
    holdall.save(path, {"a": a, "w": np.eye(2)})
    assert holdall.verify(path).verdict == "sound"
    with holdall.open(path) as f:
        t = f["a"]
        assert t.layout == "records" and t.shape == (100,)
        r = t.records()
        assert r.dtype == dtype and np.array_equal(r.numpy(), a)
        for name in dtype.names:
            escaped = name.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[")
            assert np.array_equal(r.column(escaped), a[name])
            found, expected = r[7][name], a[7][name]
            if isinstance(found, dict):
                assert list(found) == list(expected.dtype.names)
            elif isinstance(found, np.ndarray):
                assert np.array_equal(found, expected)
            else:
                assert found == expected
        assert len(list(r)) == 100


def test_what_is_not_laid_out_so_is_laid_out_anew(tmp_path):
    odd = np.dtype({"names": ["b", "a"], "formats": [">f8", "<u2"], "offsets": [8, 0], "itemsize": 32})
    a = np.zeros(50, odd)
    a["a"], a["b"] = np.arange(50), np.arange(50) / 2
    wide = np.zeros((20, 2), [("x", "<f4"), ("y", "<f4")])[:, 1]
    wide["x"] = np.arange(20)
    holdall.save(tmp_path / "a.mt", {"a": a, "back": a[::-1], "wide": wide, "rec": a.view(np.recarray)})
    with holdall.open(tmp_path / "a.mt") as f:
        r = f["a"].records()
        assert r.dtype.names == ("b", "a") and r.dtype.itemsize == 16
        assert r.column("a").tolist() == list(range(50)) and r.column("b").tolist() == (np.arange(50) / 2).tolist()
        assert f["back"].records().column("a").tolist() == list(range(50))[::-1]
        assert np.array_equal(f["wide"].records().numpy(), wide)
        assert f["rec"].records()[3] == {"b": 1.5, "a": 3}
    assert holdall.verify(tmp_path / "a.mt").verdict == "sound"


def test_padding_is_zero(tmp_path):
    a = np.frombuffer(b"\xff" * 160, np.dtype([("a", "u1"), ("b", "i8")], align=True))
    holdall.save(tmp_path / "a.mt", {"a": a})
    with holdall.open(tmp_path / "a.mt") as f:
        assert np.array_equal(f["a"].records().numpy(), a)
        raw = np.asarray(f["a"].components["data"].bytes()).reshape(10, 16)
        assert not raw[:, 1:8].any() and raw[:, 8:].all()


def test_types_of_ml_dtypes(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    a = np.zeros(3, [(name, getattr(ml_dtypes, name)) for name in names])
    for name in names:
        a[name] = np.array([0, 1, -2]).astype(a[name].dtype)
    holdall.save(tmp_path / "a.mt", {"a": a})
    with holdall.open(tmp_path / "a.mt") as f:
        r = f["a"].records()
        assert r.dtype == a.dtype and r[2] == dict.fromkeys(names, -2.0)
        assert all(r.column(name).astype(float).tolist() == [0, 1, -2] for name in names)


def test_without_ml_dtypes(tmp_path, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    holdall.save(tmp_path / "a.mt", {"a": np.ones(2, [("h", ml_dtypes.bfloat16), ("n", "u1")])})
    from holdall import _arrays

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    _arrays.DTYPES.clear()
    with holdall.open(tmp_path / "a.mt") as f:
        r = f["a"].records()
        for call in (r.numpy, lambda: r.dtype, lambda: r.column("h")):
            with pytest.raises(holdall.UnsupportedError) as e:
                call()
            assert e.value.code == "python/extra" and e.value.tensor == "a"
        assert r.column("n").tolist() == [1, 1] and r[0] == {"h": 1.0, "n": 1} and "bfloat16" in repr(r)
    _arrays.DTYPES.clear()


def test_records_of_a_file_are_saved_as_they_are(tmp_path):
    a = filled(DTYPES["nested"])
    holdall.save(tmp_path / "a.mt", {"a": a})
    with holdall.open(tmp_path / "a.mt") as f:
        for extension in ("zt", "mt"):
            holdall.save(tmp_path / f"b.{extension}", {"b": f["a"], "w": np.eye(3)})
            with holdall.open(tmp_path / f"b.{extension}") as g:
                assert np.array_equal(g["b"].records().numpy(), a)
        with holdall.Writer(tmp_path / "c.zt") as w:
            w.add("c", f["a"], {"unit": "m"})
            w.add("d", a, {"unit": "s"})
    with holdall.open(tmp_path / "c.zt") as g:
        assert g["c"].attributes["unit"] == "m" and g["d"].attributes["unit"] == "s"
        assert np.array_equal(g["c"].records().numpy(), g["d"].records().numpy())


def test_what_no_record_holds_is_refused(tmp_path):
    class Odd:
        dtype = np.dtype([("a", "u1")])

    cases = [
        (np.zeros(2, [("a", object)]), "python/dtype"),
        (np.zeros(2, [("a", np.longdouble)]), "python/dtype"),
        (np.zeros(2, []), "python/dtype"),
        (np.zeros(2, [("x", "u1"), ("a", [])]), "python/dtype"),
    ]
    for a, code in cases:
        with pytest.raises(holdall.HoldallError) as info:
            holdall.save(tmp_path / "a.mt", {"a": a})
        assert (info.value.code, info.value.tensor) == (code, "a"), a.dtype
    with pytest.raises(TypeError):
        holdall.save(tmp_path / "a.mt", {"a": Odd()})
    with pytest.raises(holdall.UnsupportedError) as info:
        holdall.save(tmp_path / "a.safetensors", {"a": np.zeros(2, [("a", "u1")])})
    assert info.value.tensor == "a"
    assert not list(tmp_path.iterdir())


def test_none_and_streams(tmp_path):
    data = holdall.save_bytes({"none": np.zeros(0, DTYPES["nested"])}, format="metatensor")
    with holdall.open(data) as f:
        r = f["none"].records()
        assert len(r) == 0 and r.dtype == DTYPES["nested"] and r.numpy().shape == (0,) and list(r) == []
    out = io.BytesIO()
    with holdall.Writer(out, format="ztensor", encoding="zstd") as w:
        w.add("a", filled(DTYPES["arrays"]))
    with holdall.open(out.getvalue()) as f:
        assert np.array_equal(f["a"].records().numpy(), filled(DTYPES["arrays"]))
        assert f["a"].records().column("m").shape == (100, 2, 3)


def test_the_command_reads_them(tmp_path):
    holdall.save(tmp_path / "a.mt", {"a": np.array([(1, (0.5, 2))], [("id", "u1"), ("at", ROOM)])})
    line = [sys.executable, "-m", "holdall", "records", str(tmp_path / "a.mt"), "--json"]
    run = subprocess.run(line, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == '{"id":1,"at":{"lat":0.5,"lon":2.0}}'
