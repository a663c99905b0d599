"""Operations on whole files."""

import io
from pathlib import Path

import numpy as np
import pytest

import holdall


def test_convert(path, tmp_path, arrays):
    for extension in ("zt", "mt", "safetensors"):
        target = tmp_path / f"b.{extension}"
        report = holdall.convert(path, target)
        assert report.tensors == len(arrays) and report.target_len == target.stat().st_size
        assert not holdall.diff(path, target)
        assert np.array_equal(holdall.load(target)["w"], arrays["w"])
    out = io.BytesIO()
    holdall.convert(path, out, format="zt", encoding="zstd", include="w", rename="w=v", attributes={"a": 1})
    with holdall.open(out.getvalue()) as f:
        assert list(f) == ["v"] and f.attributes == {"a": 1}
        assert f["v"].components["data"].encoding == "zstd"
    with pytest.raises(holdall.NotFoundError):
        holdall.convert(path, tmp_path / "c.zt", include=["nope"])
    before = target.read_bytes()
    with pytest.raises(holdall.UsageError) as e:
        holdall.convert(path, target, include="w")
    assert e.value.code == "write/exists" and "overwrite=True" in e.value.hint
    assert target.read_bytes() == before
    holdall.convert(path, target, include="w", overwrite=True)
    assert list(holdall.open(target)) == ["w"]


def test_rules_are_no_mapping(path, tmp_path):
    with pytest.raises(TypeError, match="OLD=NEW"):
        holdall.convert(path, tmp_path / "a.zt", rename={"w": "v"})


def test_what_makes_a_file_of_another_replaces_nothing_unasked(tmp_path):
    kind = {"TypeDef:Struct": ["id"], "required": ["id"], "properties": {"id": {"TypeDef:Int32": True}}}
    rows, model = tmp_path / "rows.mt", tmp_path / "m"
    holdall.build(rows, [{"id": 1}], kind)
    (model / "model").mkdir(parents=True)
    (model / "model" / "w.bin").write_bytes(b"1")
    runner = {"runner": "noop", "framework_version": "1"}
    package = holdall.carton.pack(model, tmp_path / "p.carton", **runner).path
    calls = [
        lambda to, **how: holdall.convert(rows, to, format="mt", **how),
        lambda to, **how: holdall.build(to, [{"id": 2}], kind, format="mt", **how),
        lambda to, **how: holdall.schema.migrate(rows, kind, to, format="mt", **how),
        lambda to, **how: holdall.salvage(rows, to, **how),
        lambda to, **how: holdall.carton.pack(model, to, **runner, **how),
        lambda to, **how: holdall.carton.fetch(package, to, **how),
    ]
    for n, call in enumerate(calls):
        to = tmp_path / f"{n}.carton" if n > 3 else tmp_path / f"{n}.mt"
        to.write_bytes(b"mine")
        with pytest.raises(holdall.UsageError) as e:
            call(to)
        assert (e.value.code, to.read_bytes()) == ("write/exists", b"mine") and "overwrite=True" in e.value.hint
        call(to, overwrite=True)
        assert to.read_bytes() != b"mine"
    # As `numpy.save` does.
    holdall.save(to.with_suffix(".zt"), {"w": np.ones(1)})
    holdall.save(to.with_suffix(".zt"), {"w": np.zeros(1)})


def test_diff(tmp_path, arrays):
    a, b = tmp_path / "a.zt", tmp_path / "b.safetensors"
    other = {k: v.copy() for k, v in arrays.items() if k != "mask"}
    other["w"][3, 4] += 0.5
    other["new"] = np.ones(1)
    other["ids"] = other["ids"].reshape(-1)
    holdall.save(a, arrays, attributes={"x": "1"})
    holdall.save(b, other)
    d = holdall.diff(a, b)
    assert d and not d.is_same and not d.is_identical
    assert d.removed == ["mask"] and d.added == ["new"] and d.attributes == {"x": ("1", None)}
    changed = {t.name: t for t in d.changed}
    assert set(changed) == {"w", "ids"}
    assert changed["w"].values.differing == 1 and changed["w"].values.first[0] == [3, 4]
    assert changed["ids"].shapes == ([2, 3, 4], [24])
    lines = str(d).splitlines()
    assert lines[0].startswith("different: ") and {"- mask", "+ new", "~ attribute x: '1' → None"} < set(lines)
    assert any(line.startswith(f"~ w: 1 of {arrays['w'].size} values differ, by 0.5 at most (") for line in lines)
    assert "~ ids: [2, 3, 4] → [24]" in lines
    assert {t.name for t in holdall.diff(a, b, atol=1, exclude=["ids", "mask", "new"]).changed} <= {"w"}


def test_diff_layers(tmp_path):
    a, b = tmp_path / "a.zt", tmp_path / "b.zt"
    arrays = {f"h.{n}.w": np.arange(6, dtype=np.float32) + n for n in range(4)} | {"embed": np.ones(2, np.float32)}
    other = {name: array.copy() for name, array in arrays.items()}
    other["h.2.w"][0] = -1
    other["h.3.w"] = other["h.3.w"].astype(np.float64) * 2
    holdall.save(a, arrays)
    holdall.save(b, other)
    d = holdall.diff(a, b)
    values = {t.name: t.values for t in d.changed}["h.2.w"]
    wanted = 3 / np.linalg.norm(arrays["h.2.w"])
    assert values.share == 1 / 6 and values.non_finite == 0
    np.testing.assert_allclose((values.relative, values.rms), (wanted, 3 / np.sqrt(6)))
    x, y = arrays["h.2.w"].astype(float), other["h.2.w"].astype(float)
    np.testing.assert_allclose(values.cosine, x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    layers = {layer.name: layer for layer in d.layers}
    assert set(layers) == {None, "h.0", "h.1", "h.2", "h.3"}
    assert [layers[f"h.{n}"].changed for n in range(4)] == [0, 0, 1, 1]
    np.testing.assert_allclose(layers["h.3"].relative, 1)
    html = d._repr_html_()
    assert html.index("h.3<") < html.index("h.2<") and "width:100px" in html
    assert "h.0" not in html


def test_sample_diff(tmp_path):
    rng = np.random.default_rng(1)
    model = lambda: {f"h.{n}.w": rng.standard_normal((256, 512)).astype("f4") for n in range(4)}  # noqa: E731
    base = model()
    tuned = {name: array + 0.01 * rng.standard_normal(array.shape).astype("f4") for name, array in base.items()}
    for name, arrays in {"a": base, "tuned": tuned, "other": model()}.items():
        holdall.save(tmp_path / f"{name}.safetensors", arrays)
    compare = lambda b, **how: holdall.sample_diff(tmp_path / "a.safetensors", tmp_path / f"{b}.safetensors", **how)  # noqa: E731
    verdicts = {b: compare(b, share=0.1) for b in ("a", "tuned", "other")}
    assert [found.verdict for found in verdicts.values()] == ["same", "same_base", "unrelated"]
    found = verdicts["tuned"]
    assert found.bytes == (4 * 256 * 512 * 4,) * 2 and 0 < found.bytes_read[0] <= 0.1 * found.bytes[0]
    low, high = found.interval
    assert low < 0.99995 < high and low < found.correlation < high and found.confidence == 0.999
    assert compare("tuned").bytes_read[0] <= 0.01 * found.bytes[0]
    with pytest.raises(holdall.UsageError):
        compare("tuned", share=2)


def test_diff_tolerance_of_zero(tmp_path):
    a = holdall.save_bytes({"t": np.array([0.0, np.nan], "f4")}, format="zt")
    b = holdall.save_bytes({"t": np.array([0x80000000, 0x7FC00001], "u4").view("f4")}, format="zt")
    assert not holdall.diff(a, b).is_same
    for tolerance in ({"rtol": 0}, {"atol": 0.0}, {"rtol": 0, "atol": 0}):
        assert holdall.diff(a, b, **tolerance).is_same


def test_verify_strict():
    data = Path(__file__).parents[3] / "corpus/accept/ztensor/made-1.2-logical_types.zt"
    usual, strict = holdall.verify(data), holdall.verify(data, strict=True)
    assert usual and usual.warnings and not usual.findings
    assert not strict and strict.verdict == "bad"
    assert strict.finding_count == len(strict.findings) == len(strict.warnings)
    assert {e.code for e in strict.findings} == {"verify/odd"}
    with pytest.raises(holdall.MalformedError):
        strict.raise_if_bad()
    with holdall.open(data) as f, pytest.raises(holdall.UnsupportedError) as info:
        f["unknown"].stats()
    assert info.value.code == "layout/unknown-type"


def test_verify(path):
    report = holdall.verify(path)
    assert report and report.verdict == "sound" and not report.findings
    report.raise_if_bad()
    if path.suffix == ".zt":
        assert report.digests == {"crc32c": 7}
    else:
        assert {u.reason for u in report.unverified} == {"no_digest"}
    assert holdall.verify(path, include=["w"]).tensors == 1


def test_stats():
    a = np.array([1.0, 2.0, 0.0, np.nan, np.inf, -np.inf, -3.0])
    s = holdall.stats(holdall.save_bytes({"a": a}, format="zt"), bins=4)["a"]
    assert (s.count, s.zeros, s.nan, s.inf, s.neg_inf, s.min, s.max) == (7, 1, 1, 1, 1, -3.0, 2.0)
    assert s.mean == 0.0 and np.isclose(s.std, np.std([1, 2, 0, -3]))
    assert (s.histogram.min, s.histogram.max) == s.histogram[0:2] == (-3.0, 2.0) and sum(s.histogram.counts) == 4
    big = holdall.stats(holdall.save_bytes({"a": np.array([2**64 - 1, 0], np.uint64)}, format="zt"))["a"]
    assert big.max == 2**64 - 1 and isinstance(big.max, int)


def test_inspect(zt, arrays):
    found = holdall.inspect(zt)
    assert found["format"] == "ztensor" and set(found["tensors"]) == set(arrays)
    assert found["tensors"]["w"]["shape"] == [64, 32]
    import json

    json.dumps(found)


def test_formats():
    # The table that is written from the list of formats.
    table = (Path(__file__).parents[3] / "docs/formats.md").read_text()
    known = {line.split("`")[1] for line in table.splitlines() if line.startswith("| [")}
    assert len(known) > 10
    assert set(holdall.formats()) == known
    assert "zt" in holdall.formats()["ztensor"]


def test_progress_as_a_bar(zt, capsys):
    pytest.importorskip("tqdm")
    holdall.load(zt, progress=True)
    holdall.verify(zt, progress=True)


def test_sha256_is_checked_by_default(tmp_path):
    path = tmp_path / "sums.zt"
    holdall.save(path, {"w": np.arange(1000, dtype="<f4")}, digest="sha256")
    with holdall.open(path) as f:
        start = f["w"].components["data"].start
    damaged = bytearray(path.read_bytes())
    damaged[start] ^= 1
    bad = tmp_path / "bad.zt"
    bad.write_bytes(damaged)
    with holdall.open(bad) as f:
        for read in (f.load, lambda: f["w"].numpy(copy=True)):
            with pytest.raises(holdall.IntegrityError):
                read()
        assert len(f.load(check="fast")["w"]) == 1000
        assert f["w"].numpy()[1] == 1
    with pytest.raises(holdall.IntegrityError):
        holdall.diff(path, bad)
    with holdall.open(bad, check="off") as f:
        assert len(f["w"].numpy(copy=True)) == 1000


def test_conversion_names_what_it_leaves_behind(tmp_path):
    path, out = tmp_path / "a.zt", tmp_path / "b.zt"
    holdall.save(path, {"w": np.zeros(3)}, attributes={"note": "x"})
    assert holdall.convert(path, out).left_behind == []
    path.write_bytes(path.read_bytes().replace(b"attributes", b"attributez"))
    report = holdall.convert(path, out, overwrite=True)
    assert report.left_behind == ["the field `attributez` of the manifest"]


#: NumPy's names of types that elements are rounded into, and Holdall's.
FLOATS = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8_e4m3fn",
    "float8_e5m2": "f8_e5m2",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
}


def rounded(array, dtype, **options):
    out = io.BytesIO()
    report = holdall.convert(
        holdall.save_bytes({"x": array}, format="zt"), out, format="zt", dtype=dtype, **options
    )
    with holdall.open(out.getvalue()) as f:
        return report, f["x"].numpy(copy=True)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32"])
def test_rounding_is_that_of_ml_dtypes(source, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if source == "float32":
        # All exponents, and what lies at, beside and near the middle of two neighbours.
        rng = np.random.default_rng(1)
        bits = rng.integers(0, 1 << 32, 500_000, np.uint32)
        near = (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | np.array([0, 0x7FFF, 0x8000, 0x8001], "u4")).ravel()
        halves = np.arange(0x7C00, dtype=np.uint16).view("f2").astype("f4").view("u4")
        middles = (halves[:, None] + np.array([0xFFF, 0x1000, 0x1001], "u4")).ravel()
        x = np.concatenate([bits, near, middles]).view("f4")
    else:
        x = np.arange(1 << 16, dtype=np.uint16).view(getattr(ml_dtypes, source, source))
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
    report, found = rounded(x, dtype)
    assert found.dtype == dtype
    # NumPy's own f16 keeps more of a NaN than that it is one.
    number = ~np.isnan(expected.astype("f4")) | (name != "float16")
    assert np.array_equal(np.isnan(found.astype("f4")), np.isnan(expected.astype("f4")))
    word = f"u{dtype.itemsize}"
    assert np.array_equal(found.view(word)[number], expected.view(word)[number])
    with np.errstate(all="ignore"):
        wide, after = x.astype("f8"), found.astype("f8")
    lost = np.isfinite(wide) & ~np.isfinite(after)
    if name.endswith(("fn", "fnuz")):
        lost |= np.isinf(wide)
    same = np.dtype(source if source == "float32" else x.dtype) == dtype
    assert report.cast == (0 if same else 1)
    assert report.overflowed == (0 if same else int(lost.sum()))


def test_doubles_are_rounded_once():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    # Just above the middle of two neighbours, by less than an f32 tells.
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, 1 + 2.0**-8], "f8")
    _, found = rounded(x, "bfloat16")
    assert found.view("u2").tolist() == [0x3F81, 0x3F80, 0x3F80]
    _, found = rounded(np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11]), np.float16)
    assert found.tolist() == [1 + 2.0**-10, 1.0]
    rng = np.random.default_rng(2)
    x = rng.standard_normal(100_000) * 10.0 ** rng.integers(-12, 8, 100_000)
    with np.errstate(all="ignore"):
        for dtype in (np.float16, np.float32):
            _, found = rounded(x, dtype)
            assert np.array_equal(found, x.astype(dtype))
    assert np.array_equal(rounded(x.astype(ml_dtypes.bfloat16), "float64")[1], x.astype(ml_dtypes.bfloat16).astype("f8"))


def test_dtype_for_chosen_tensors(tmp_path, arrays):
    path, out = tmp_path / "a.zt", tmp_path / "b.zt"
    arrays["w"][0, 0] = 1e6
    holdall.save(path, arrays)
    report = holdall.convert(path, out, dtype={"half": "keep", "*": "f8_e5m2"}, include=["w", "half", "ids"], overwrite=True)
    assert (report.cast, report.overflowed) == (1, 1)
    assert report.overflows == [holdall.Overflowed("w", "f32", "f8_e5m2", 1)]
    with holdall.open(out) as f:
        assert [f[n].dtype for n in ("w", "half", "ids")] == ["float8_e5m2", "float16", "int64"]
    report = holdall.convert(path, out, dtype=np.dtype("float16"), saturate=True, overwrite=True)
    assert holdall.load(out)["w"][0, 0] == 65504 and report.overflowed == 1
    for dtype, code in [
        ({"ids": "f16"}, "convert/not-cast"),
        ("int8", "convert/cast-rule"),
        (np.int8, "convert/cast-rule"),
        ({"nope": "f16"}, "select/nothing"),
    ]:
        with pytest.raises(holdall.HoldallError) as e:
            holdall.convert(path, out, dtype=dtype, overwrite=True)
        assert e.value.code == code


def test_arrays_of_numpy_are_converted(tmp_path, arrays):
    for name, array in arrays.items():
        (tmp_path / "model" / name).mkdir(parents=True)
        np.save(tmp_path / "model" / name / "x.npy", array)
    out = tmp_path / "out.zt"
    assert holdall.convert(tmp_path / "model", out).tensors == len(arrays)
    found = holdall.load(out)
    for name, array in arrays.items():
        assert np.array_equal(found[f"{name}.x"], array) and found[f"{name}.x"].dtype == array.dtype
    holdall.convert(tmp_path / "model" / "w" / "x.npy", out, dtype={"data": np.float16}, overwrite=True)
    assert np.array_equal(holdall.load(out)["data"], arrays["w"].astype(np.float16))
    np.save(tmp_path / "f.npy", np.asfortranarray(arrays["w"]))
    holdall.convert(tmp_path / "f.npy", out, overwrite=True)
    assert np.array_equal(holdall.load(out)["data"], arrays["w"])
