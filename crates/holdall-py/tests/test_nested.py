"""Nested values, and arrays of every dtype and order: a saved value comes back as it was, or is refused by name."""

import collections
import math
import random
import warnings

import ml_dtypes
import numpy as np
import pytest

import holdall

SMALL = ["int4", "uint4", "int2", "uint2"]
FLOATS = [
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
]
NUMBERS = "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 ? c8 c16".split()
TEXTS = ["U3", "S3", "V3", "M8[ns]", "M8[D]", "M8", "m8[s]", "m8"]
#: Formats that hold attributes of tensors, and with them every dtype here.
FORMATS = ["zt", "ztensor2", "mt", "safetensors", "npz", "pt", "h5"]
#: What a format refuses.
REFUSED = {("safetensors", "c16"), ("mt", "c16")}


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def filled(rng, shape, name):
    """An array of random elements."""
    count = math.prod(shape)
    dtype = dtype_of(name)
    if name in SMALL:
        low, high = {"int4": (-8, 8), "uint4": (0, 16), "int2": (-2, 2), "uint2": (0, 4)}[name]
        return np.array([rng.randrange(low, high) for _ in range(count)], np.int8).astype(dtype).reshape(shape)
    if name in FLOATS:
        return np.array([rng.choice([0.5, 1, 2, 4]) for _ in range(count)]).astype(dtype).reshape(shape)
    if dtype.kind == "U":
        return np.array([rng.choice(["", "a", "bé", "日本語"]) for _ in range(count)], dtype).reshape(shape)
    if dtype.kind == "S":
        return np.array([rng.choice([b"", b"a", b"b\xff", b"abc"]) for _ in range(count)], dtype).reshape(shape)
    if dtype.kind == "V":
        return np.frombuffer(bytes(rng.randrange(256) for _ in range(3 * count)), dtype).reshape(shape)
    if dtype.kind in "mM":
        values = [rng.choice([0, 1, -5, 10**9, -(1 << 63)]) for _ in range(count)]
        return np.array(values, "i8").view(dtype).reshape(shape)
    if dtype.kind == "b":
        return np.array([rng.random() < 0.5 for _ in range(count)], bool).reshape(shape)
    values = [rng.randrange(100) for _ in range(count)]
    return np.array(values).astype(dtype).reshape(shape)


def ordered(rng, a):
    """The array in one of the orders that NumPy's arrays have."""
    which = rng.choice(["C", "C", "F", "gaps", "reversed", "big"])
    if which == "F":
        return np.asfortranarray(a)
    if which == "gaps" and a.ndim:
        return np.repeat(a, 2, axis=0)[::2]
    if which == "reversed" and a.ndim:
        return np.ascontiguousarray(a[::-1])[::-1]
    if which == "big" and a.dtype.kind in "iufcUMm" and hasattr(np, a.dtype.name) and a.dtype.itemsize > 1:
        return a.astype(a.dtype.newbyteorder(">"))
    return a


def same(a, b, path="", order=True):
    """Whether two values are equal, with their types, dtypes and orders; the second is little-endian."""
    assert type(a) is type(b), (path, type(a), type(b))
    if isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            same(a[key], b[key], f"{path}.{key}", order)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for at, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{path}.{at}", order)
    elif isinstance(a, np.ma.MaskedArray):
        same(np.ma.getmask(a), np.ma.getmask(b), f"{path}.mask", False)
        same(np.ma.getdata(a), np.ma.getdata(b), f"{path}.data", False)
        assert a.hardmask == b.hardmask and (a._fill_value is None) == (b._fill_value is None), path
        if a._fill_value is not None:
            assert np.array(a.fill_value).tobytes() == np.array(b.fill_value, a.dtype).tobytes(), path
    elif isinstance(a, np.ndarray):
        assert a.shape == b.shape, path
        assert b.dtype == (a.dtype if a.dtype.kind == "T" else a.dtype.newbyteorder("<")), (path, a.dtype, b.dtype)
        if a.dtype.kind == "T":
            for x, y in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist()):
                assert x == y or (x != x and y != y), path
            return
        assert np.ascontiguousarray(a.astype(b.dtype)).tobytes() == np.ascontiguousarray(b).tobytes(), (path, a, b)
        if order and (a.flags.c_contiguous or a.flags.f_contiguous):
            assert a.flags.f_contiguous == b.flags.f_contiguous or a.size < 2, (path, "order")
        assert b.flags.writeable, path
    elif isinstance(a, float):
        assert a == b or (a != a and b != b), path
        assert math.copysign(1, a) == math.copysign(1, b), path
    elif isinstance(a, np.generic):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), path
    else:
        assert a == b, path


def saved(path, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        format = "ztensor2" if path.name.endswith("ztensor2") else None
        holdall.save(path, value, format=format, sync=False)
        return holdall.load(path)


@pytest.mark.parametrize("name", NUMBERS + TEXTS + SMALL + FLOATS)
@pytest.mark.parametrize("format", FORMATS)
def test_every_dtype_comes_back_or_is_refused_by_name(tmp_path, format, name):
    rng = random.Random(name + format)
    for shape in [(), (3,), (2, 3), (0, 2), (2, 3, 2), (1, 1)]:
        a = filled(rng, shape, name)
        for x in [a, np.asfortranarray(a), np.repeat(a, 2, axis=0)[::2] if shape else a]:
            try:
                found = saved(tmp_path / f"a.{format}", {"x": x})
            except holdall.UnsupportedError as e:
                assert e.tensor == "x" and "`x`" in str(e) and str(x.dtype) in str(e), e
                assert (format, name) in REFUSED, e
                continue
            keeps = format in ("zt", "ztensor2") or (format in ("npz", "pt") and name not in (*FLOATS, "U3", "S3", "V3"))
            same({"x": x}, found, order=keeps)


def test_versions_without_attributes_of_tensors(tmp_path):
    """What needs none is written as before."""
    path = tmp_path / "a.zt"
    for version in ("1.2", "1.0", "0.1"):
        a = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        holdall.save(path, {"x": a}, version=version)
        assert np.array_equal(holdall.load(path)["x"], a)
        with holdall.Writer(path, version=version) as w:
            w.add("x", a)
    with pytest.raises(holdall.UnsupportedError, match="`x`.*<U1"):
        holdall.save(path, {"x": np.array(["a"])}, version="1.0")
    with pytest.raises(holdall.UnsupportedError, match="`x`.*<U1"):
        holdall.Writer(path, version="1.0").add("x", np.array(["a"]))


def test_zt_refuses_no_dtype(tmp_path):
    for name in NUMBERS + TEXTS + SMALL + FLOATS:
        a = filled(random.Random(name), (2, 3), name)
        for format in ("zt", "ztensor2"):
            same({"x": a}, saved(tmp_path / f"a.{format}", {"x": a}))


@pytest.mark.parametrize("format", ["zt", "mt"])
def test_texts_of_any_length(tmp_path, format):
    kinds = [
        np.dtypes.StringDType(),
        np.dtypes.StringDType(na_object=None),
        np.dtypes.StringDType(na_object=np.nan),
        np.dtypes.StringDType(na_object="?"),
        np.dtypes.StringDType(coerce=False),
    ]
    for dtype in kinds:
        a = np.array([["a", "", "日本語"], ["x" * 1000, "b", "c"]], dtype)
        if getattr(dtype, "na_object", "") is None or getattr(dtype, "na_object", "") != getattr(dtype, "na_object", ""):
            a[0, 1] = dtype.na_object
        for x in (a, a.T, a[:, 0], np.array("one", dtype), a[:0]):
            same({"x": x}, saved(tmp_path / f"a.{format}", {"x": x}), order=False)
    with pytest.raises(holdall.UnsupportedError, match="StringDType"):
        holdall.save(tmp_path / "a.npz", {"x": a})


def test_structured_arrays_of_any_rank(tmp_path):
    kinds = [
        [("id", "<u4"), ("name", "U5"), ("raw", "S3"), ("when", "M8[D]"), ("took", "m8[ms]"), ("at", "M8[ns]")],
        [("a", [("b", "<f4", (2, 2)), ("c", "?")]), ("d", "S2", (3,))],
        {"names": ["a", "b"], "formats": ["<i2", "<f8"], "offsets": [2, 16], "itemsize": 32},
        [("big", ">f4"), ("text", ">U2"), ("when", ">M8[s]")],
        [(("A title", "a"), "<i4"), ("b", "V4")],
        np.dtype([("a", "i1"), ("b", "f8")], align=True),
    ]
    rng = np.random.default_rng(1)
    for format in ("zt",):
        for kind in kinds:
            dtype = np.dtype(kind)
            for shape in [(), (4,), (2, 3), (0,), (2, 0), (1, 2, 2)]:
                a = np.zeros(shape, dtype)
                for member in dtype.names:
                    part = a[member]
                    if part.dtype.kind in "ifu":
                        part[...] = rng.integers(0, 100, part.shape)
                    elif part.dtype.kind in "US":
                        part[...] = "ab"
                    elif part.dtype.kind in "mM":
                        part[...] = np.ones(part.shape, "i8").astype(part.dtype)
                found = saved(tmp_path / f"a.{format}", {"x": a})["x"]
                little = dtype.newbyteorder("<") if dtype.names[0] == "big" else dtype
                assert found.dtype == little and found.dtype.fields == little.fields and found.shape == shape
                assert found.dtype.itemsize == dtype.itemsize and (found == a).all() and found.flags.writeable
    with pytest.raises(holdall.UnsupportedError, match="`x`.*`a`.*object"):
        holdall.save(tmp_path / "a.zt", {"x": np.zeros(2, [("a", "O")])})


@pytest.mark.parametrize("format", ["zt", "ztensor2", "npz", "safetensors", "pt", "mt", "h5"])
def test_masked_arrays(tmp_path, format):
    data = np.arange(6.0).reshape(2, 3)
    kinds = [
        np.ma.array(data, mask=data > 3),
        np.ma.array(data),
        np.ma.array(data, mask=[[True] * 3, [False] * 3], fill_value=-1.5),
        np.ma.array(data.astype("i4"), mask=data > 3, fill_value=7, hard_mask=True),
        np.ma.array(["a", "b"], mask=[True, False], fill_value="?"),
        np.ma.array(["2020", "2021"], "M8[Y]", mask=[True, False], fill_value=np.datetime64("1999")),
        np.ma.array(3.0, mask=True),
    ]
    if format == "zt":
        kinds.append(np.ma.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")], mask=[(True, False), (False, True)]))
    for x in kinds:
        path = tmp_path / f"a.{format}"
        found = saved(path, {"x": x, "x.mask": np.zeros(2)})
        same({"x": x, "x.mask": np.zeros(2)}, found)
        assert isinstance(holdall.load(path, ["x"])["x"], np.ma.MaskedArray)
    with pytest.raises(holdall.UnsupportedError, match="masked array `x`"):
        holdall.save(tmp_path / "a.gguf", {"x": kinds[0]})


def test_a_mask_that_does_not_fit_is_a_fault_of_its_tensor(tmp_path):
    path = tmp_path / "a.zt"
    with holdall.Writer(path) as w:
        w.add("x", np.ones(3), {"numpy.masked": {"mask": "m"}})
        w.add("m", np.ones(4, bool))
        w.add("y", np.ones(3), {"numpy.masked": {"mask": "missing"}})
        w.add("z", np.ones(3))
    with pytest.warns(UserWarning, match="2 tensors"):
        found = holdall.load(path)
    assert list(found) == ["m", "z"] and set(found.faults) == {"x", "y"}
    with pytest.raises(holdall.MalformedError, match="mask"):
        found["x"]
    with pytest.raises(holdall.MalformedError, match="mask"):
        holdall.load(path, ["x"])


CHECKPOINT = {
    "model": collections.OrderedDict([("0.weight", np.ones((2, 3), "f4")), ("0.bias", np.zeros(2, "f4"))]),
    "optimizer": {
        "state": {0: {"step": np.array(3.0, "f4"), "exp_avg": np.ones((3, 2)).T}, 1: {}},
        "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "foreach": None, "amsgrad": False, "params": [0, 1]}],
    },
    "epoch": 7,
    "history": [1.0, float("nan"), -0.0, float("inf")],
    "rng": {"numpy": ("MT19937", np.arange(624, dtype="u4"), 624, 0, 0.0), "bytes": b"\x00\xff", "seed": 2**70},
    "names": {"$tensor": "a dollar", "set": {1, "a", (2, None)}, "frozen": frozenset([1.5]), "": "", "é.b": bytearray(b"x")},
    "scalars": [np.float32(1.5), np.int8(-3), np.bool_(True), np.datetime64("2020-01-01"), np.str_("text"), 1 + 2j],
    "empty": [{}, [], (), set()],
    (1, None): {True: "true", "true": 1, None: 0.5, 1.5: {}},
}


@pytest.mark.parametrize("format", ["zt", "ztensor2"])
def test_a_checkpoint_comes_back_as_it_was(tmp_path, format):
    path = tmp_path / f"c.{format}"
    same(CHECKPOINT, saved(path, CHECKPOINT))
    with holdall.open(path) as f:
        assert f["optimizer.state.0.exp_avg"].shape == (2, 3) and f["model.0.weight"].dtype == "float32"
        assert f["rng.numpy.1"].dtype == "uint32"
        some = f.load(["model.0.bias"])
        assert list(some) == ["model.0.bias"]
        assert set(f.load(include=["model.*"])) == {"model.0.weight", "model.0.bias"}
        same(CHECKPOINT, f.load())
    rounded = holdall.load(path, dtype={"model.*": "float16", "*": "keep"})
    assert rounded["model"]["0.weight"].dtype == np.float16 and rounded["epoch"] == 7
    holdall.convert(path, tmp_path / "again.zt", overwrite=True)
    same(CHECKPOINT, holdall.load(tmp_path / "again.zt"), order=False)


def test_a_nested_value_that_was_edited_comes_by_names(tmp_path):
    path = tmp_path / "c.zt"
    holdall.save(path, {"a": {"b": np.ones(2)}, "n": 3})
    holdall.convert(path, tmp_path / "d.zt", rename=["a.b=c"])
    with pytest.warns(UserWarning, match="`a.b`"):
        found = holdall.load(tmp_path / "d.zt")
    assert list(found) == ["c"]
    for tree in [{"$later": 1}, [1], {"x": {"$tensor": 3}}, {"$dict": [[[1], 2]]}, {"$dict": 3}, {"$set": [[]]}, {"a": b"x"}, {"$integer": "x"}]:
        holdall.save(path, {"w": np.ones(2)}, attributes={"holdall.tree": tree})
        with pytest.warns(UserWarning, match="holdall.tree"):
            assert list(holdall.load(path)) == ["w"]


def test_refusals_name_the_key_and_the_type(tmp_path):
    class Own:
        pass

    path = tmp_path / "a.zt"
    for value, words in [
        ({"a": {"b": [1, Own()]}}, ["`a.b.1`", "Own"]),
        ({"a": {"b": collections.defaultdict(list)}}, ["`a.b`", "collections.defaultdict"]),
        ({"a": {"f": len}}, ["`a.f`", "builtin_function_or_method"]),
        ({"a": {np.int64(3): 1}}, ["`a`", "int64"]),
        ({"a": {b"x": 1}}, ["`a`", "bytes"]),
    ]:
        with pytest.raises(TypeError) as e:
            holdall.save(path, value)
        assert all(word in str(e.value) for word in words), e.value
    with pytest.raises(holdall.UnsupportedError, match="`a.o`|'a.o'"):
        holdall.save(path, {"a": {"o": np.array([None])}})
    with pytest.raises(holdall.UsageError, match="surrogates"):
        holdall.save(path, {"a": {"s": "\ud800"}})
    loop = []
    loop.append(loop)
    with pytest.raises(holdall.UsageError, match="deep"):
        holdall.save(path, {"a": loop})
    for format in ("safetensors", "npz", "pt", "mt", "gguf", "h5"):
        with pytest.raises(TypeError, match="'n'.*int.*zTensor"):
            holdall.save(tmp_path / f"a.{format}", {"w": np.ones(2), "n": 3})
    assert not list(tmp_path.iterdir())


def nested(rng, depth):
    """A random value."""
    kinds = ["array", "array", "scalar", "plain"] + (["dict", "list", "tuple"] if depth else [])
    kind = rng.choice(kinds)
    if kind == "dict":
        keys = rng.sample(["a", "b.c", "$d", "", 0, 1, "1", None, (1, "x"), True if rng.random() < 0.1 else "z", 0.5], rng.randrange(4))
        return {key: nested(rng, depth - 1) for key in keys}
    if kind in ("list", "tuple"):
        made = [nested(rng, depth - 1) for _ in range(rng.randrange(4))]
        return made if kind == "list" else tuple(made)
    if kind == "plain":
        return rng.choice([None, True, 0, -1, 2**64 - 1, -(2**80), 0.1, -0.0, "", "text", "$x", b"", b"\x00", 1j, {1}, frozenset("a")])
    name = rng.choice(NUMBERS + TEXTS + SMALL + FLOATS)
    if kind == "scalar":
        made = filled(rng, (), rng.choice(NUMBERS + ["U3", "S3", "M8[D]", "m8[s]", "bfloat16"]))[()]
        return made
    shape = tuple(rng.randrange(1, 4) for _ in range(rng.randrange(4)))
    made = ordered(rng, filled(rng, shape, name))
    if rng.random() < 0.1 and made.dtype.kind in "fiu":
        return np.ma.array(np.ascontiguousarray(made), mask=filled(rng, shape, "?"))
    return made


@pytest.mark.parametrize("format", ["zt", "ztensor2"])
def test_random_nested_values_come_back(tmp_path, format):
    for seed in range(80):
        rng = random.Random(seed)
        value = {"top": nested(rng, 3), "more": [nested(rng, 3) for _ in range(3)]}
        same(value, saved(tmp_path / f"a.{format}", value), f"seed {seed}")


@pytest.mark.parametrize("format", FORMATS + ["gguf"])
def test_random_arrays_come_back_or_are_refused_by_name(tmp_path, format):
    for seed in range(40):
        rng = random.Random(seed)
        value = {}
        for at in range(3):
            name = rng.choice(NUMBERS + TEXTS + SMALL + FLOATS)
            shape = tuple(rng.randrange(1, 4) for _ in range(rng.randrange(1, 4)))
            value[f"a{at}"] = ordered(rng, filled(rng, shape, name))
        keeps = format in ("zt", "ztensor2")
        try:
            found = saved(tmp_path / f"a.{format}", value)
        except holdall.UnsupportedError as e:
            assert not keeps and e.tensor in value and e.tensor in str(e), (seed, e)
            continue
        found = {name: found[name] for name in value}
        same(value, found, f"seed {seed}", order=keeps)


@pytest.mark.parametrize("format", ["safetensors", "npz", "pt", "mt", "ztensor2"])
def test_a_converted_checkpoint_keeps_its_structure(tmp_path, format):
    holdall.save(tmp_path / "c.zt", CHECKPOINT)
    name = "ztensor2" if format == "ztensor2" else None
    holdall.convert(tmp_path / "c.zt", tmp_path / f"d.{format}", format=name)
    same(CHECKPOINT, holdall.load(tmp_path / f"d.{format}"), order=False)


LIES = [
    ("numpy.masked", [3, {}, {"mask": 3}, {"mask": "x"}, {"mask": "other"}, {"mask": None, "fill": b"x"}, {"mask": ["x"], "hard": 3}]),
    ("numpy.descr", ["<U3", "<U1", "|S24", "<M8[ns]", "|V0", "int4", "O", "<U99999999999", 3, "<M8[lightyear]", "|S0"]),
    ("numpy.dtype", ["int4", "float6_e2m3fn", "float32", "float8_e4m3", ["int4"], "uint2"]),
    ("numpy.order", ["F", "C", 3, None]),
    ("numpy.shape", [[], [1, 3], [-1, -3], ["x"], [2**63], 3]),
    ("numpy.fields", [3, [], [["a"], ["O"], [0], 8], [["a"], ["<f8"], [-1], 8], [["a"], ["<f8"], [0], 2**62], [["a"], [["<f8", [2**40]]], [0], 8], [[["t"]], ["<f8"], [0], 8]]),
    ("numpy.text", [3, {"shape": [2**62]}, {"shape": [-1]}, {"na": 3}, {"na": None, "missing": b"\xff" * 8}, {"missing": "x"}, {"coerce": "x"}]),
    ("scipy.class", ["bsr_array", "csc_matrix", "lil_matrix", "os.system", 3, "dia_array", "dok_array"]),
    ("scipy.block", [[1, 1], [0, 0], [-1, 2], [2, 2], "x", [2**40, 2**40]]),
]


def test_attributes_that_lie(tmp_path):
    """Whatever an attribute says, a load gives values or errors of its own."""
    sparse = pytest.importorskip("scipy.sparse")
    values = {
        "dense": np.arange(6, dtype="u1").reshape(2, 3),
        "words": np.arange(6, dtype="u4").reshape(2, 3),
        "longs": np.arange(6.0),
        "records": np.zeros(3, [("a", "f8")]),
        "runs": holdall.Runs(["a", "b"], "utf-8"),
        "coo": sparse.coo_array(np.eye(3)[:2]),
        "csr": sparse.csr_array(np.eye(3)[:2]),
    }
    for key, lies in LIES:
        for lie in lies:
            for name, value in values.items():
                more = {"scipy.class": "bsr_array"} if key == "scipy.block" else {}
                with holdall.Writer(tmp_path / "a.zt", sync=False) as w:
                    w.add("x", value, {key: lie, **more})
                    w.add("other", np.ones(2))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    found = holdall.load(tmp_path / "a.zt")
                try:
                    found["x"]
                except holdall.HoldallError as e:
                    assert e.tensor == "x", (key, lie, name, e)
                with holdall.open(tmp_path / "a.zt") as f:
                    for read in (f["x"].numpy, lambda: f["x"][0], f["x"].to_dense, lambda: list(f.stream()), f["x"].verify):
                        try:
                            read()
                        except (holdall.HoldallError, IndexError):
                            pass


def test_a_fault_in_a_nested_value_is_one_of_its_entry(tmp_path, monkeypatch):
    from holdall import _arrays

    given = {"a": {"good": np.ones(2), "bad": np.ones(2, ml_dtypes.bfloat16)}, "list": [1, np.ones(2, ml_dtypes.bfloat16)], "n": 1}
    holdall.save(tmp_path / "a.zt", given)
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    _arrays.DTYPES.clear()
    with pytest.warns(UserWarning, match="2 tensors could not be loaded"):
        found = holdall.load(tmp_path / "a.zt")
    _arrays.DTYPES.clear()
    assert list(found) == ["a", "n"] and list(found["a"]) == ["good"] and found["n"] == 1
    for ask in (lambda: found["a"]["bad"], lambda: found["list"]):
        with pytest.raises(holdall.UnsupportedError, match="bfloat16"):
            ask()
