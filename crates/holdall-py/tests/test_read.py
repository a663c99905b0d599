"""Reading: arrays, rows, other libraries, closed files."""

import array
import io
import json
import operator
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import holdall


def test_a_file_is_a_mapping(path, arrays):
    with holdall.open(path) as f:
        assert set(f) == set(arrays) and len(f) == len(arrays)
        assert "w" in f and "x" not in f and 3 not in f and "\ud800" not in f
        assert f.get("x") is None
        assert {name: t.shape for name, t in f.items()} == {k: v.shape for k, v in arrays.items()}
        assert f.name == str(path) and f.io == "map" and not f.closed
    assert f.closed and "closed" in repr(f)


@pytest.mark.parametrize("how", ["map", "read", "direct", "auto"])
def test_arrays_are_what_was_saved(path, arrays, how):
    with holdall.open(path, io=how) as f:
        for name, a in arrays.items():
            t = f[name]
            for found in (t.numpy(), t.numpy(copy=True), np.asarray(t), t.to_dense(), t[...]):
                assert found.dtype == a.dtype and np.array_equal(found, a)
            assert t.dtype == a.dtype.name and t.nbytes == a.nbytes and t.size == a.size
    loaded = holdall.load(path, io=how)
    for name, a in arrays.items():
        assert np.array_equal(loaded[name], a) and loaded[name].flags.writeable


def test_sources(zt, arrays):
    data = zt.read_bytes()
    file = zt.open("rb")
    for source in (str(zt), zt, data, bytearray(data), memoryview(data), io.BytesIO(data), file):
        with holdall.open(source) as f:
            assert np.array_equal(f["w"], arrays["w"])
    file.close()
    with pytest.raises(TypeError):
        holdall.open(3)
    with pytest.raises(TypeError):
        holdall.open(io.StringIO("text"))


def test_views_are_not_copies_and_cannot_be_written(zt, arrays):
    f = holdall.open(zt)
    a = f["w"].numpy()
    b = f["w"].numpy(copy=False)
    assert np.shares_memory(a, b)
    with pytest.raises(ValueError):
        a[0, 0] = 1
    with pytest.raises(ValueError):
        a.flags.writeable = True
    f.close()
    assert np.array_equal(a, arrays["w"])
    del f, b
    assert np.array_equal(a, arrays["w"])


def test_copies_are_the_callers(zt, arrays):
    with holdall.open(zt) as f:
        own = f["w"].numpy(copy=True)
        own[:] = 0
        assert np.array_equal(f["w"], arrays["w"])
        into = np.empty_like(arrays["w"])
        f["w"].read_into(into)
        assert np.array_equal(into, arrays["w"])
    loaded = holdall.load(zt)
    loaded["w"][:] = 0
    assert np.array_equal(loaded["ids"], arrays["ids"])
    assert np.array_equal(holdall.load(zt)["w"], arrays["w"])


def test_load_keeps_the_order_that_is_asked_for(zt, arrays):
    assert list(holdall.load(zt, ["w", "c", "ids"])) == ["w", "c", "ids"]
    with pytest.raises(TypeError):
        holdall.load(zt, "w")
    with pytest.raises(holdall.NotFoundError) as e:
        holdall.load(zt, ["ww"])
    assert "did you mean `w`" in e.value.hint


def test_load_into(path, arrays):
    buffers = {name: np.full_like(a, 1) for name, a in arrays.items()}
    holdall.load_into(path, buffers)
    for name, a in arrays.items():
        assert np.array_equal(buffers[name], a)
    raw = bytearray(arrays["w"].nbytes)
    holdall.load_into(path, {"w": raw})
    assert bytes(raw) == arrays["w"].tobytes()


def test_load_into_compares_element_types(path, arrays):
    w = arrays["w"]
    for other in (np.full(w.shape, 7, np.int32), np.full(w.nbytes, 7, np.uint8), array.array("i", [7] * w.size)):
        before = bytes(memoryview(other).cast("B"))
        with holdall.open(path) as f:
            for read in (lambda: f.load_into({"w": other}), lambda: f["w"].read_into(other)):
                with pytest.raises(holdall.UsageError) as e:
                    read()
                assert e.value.code == "python/buffer" and e.value.tensor == "w" and "raw=True" in e.value.hint
                assert bytes(memoryview(other).cast("B")) == before
            f["w"].read_into(other, raw=True)
        assert bytes(memoryview(other).cast("B")) == w.tobytes()
        memoryview(other).cast("B")[:] = before
        holdall.load_into(path, {"w": other}, raw=True)
        assert bytes(memoryview(other).cast("B")) == w.tobytes()
    right = array.array("f", [0] * w.size)
    holdall.load_into(path, {"w": right})
    assert right.tobytes() == w.tobytes()


def test_load_into_refuses(zt, arrays):
    w = arrays["w"]
    frozen = np.empty_like(w)
    frozen.flags.writeable = False
    base = np.empty(w.nbytes + 8 * 24, np.uint8)
    bad = [
        {"w": frozen},
        {"w": np.empty(3, np.float32)},
        {"w": np.empty((64, 64), np.float32)[:, ::2]},
        {"w": np.empty((64, 32), ">f4")},
        {"w": np.empty((64, 32), object)},
        {"w": bytes(w.nbytes)},
        {"w": base[: w.nbytes], "ids": base[w.nbytes - 1 : w.nbytes - 1 + 192]},
    ]
    for buffers in bad:
        with pytest.raises((holdall.UsageError, TypeError, BufferError)):
            holdall.load_into(zt, buffers)


KEYS = [
    0, -1, slice(None), slice(2, 5), slice(5, 2), slice(None, None, -1), slice(None, None, 3), slice(-3, None),
    slice(10, 1, -2), slice(100, 200), ..., None, (0, 1), (0, ..., 1), (slice(1, 2), 0), (..., 0), (None, 0),
    (0, None, slice(1, 3)), (slice(None), slice(None, None, -2)), (1, 2, 3), (1, slice(0, 2), None, -1), (),
    [0, 1], np.int64(1), np.array([True, False]), (slice(0, 1), [0, 2]), (0, [1]), (..., None),
]  # fmt: skip


@pytest.mark.parametrize("how", ["map", "read"])
@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_indexing_is_numpys(tmp_path, how, encoding):
    rng = np.random.default_rng(1)
    arrays = {
        "a": np.arange(24, dtype=np.int64).reshape(2, 3, 4),
        "b": rng.standard_normal((9, 5)).astype(np.float32),
        "v": np.arange(13, dtype=np.int16),
        "s": np.array(5.0),
        "n": np.zeros((3, 0, 2)),
    }
    holdall.save(tmp_path / "a.zt", arrays, encoding=encoding)
    with holdall.open(tmp_path / "a.zt", io=how) as f:
        for name, a in arrays.items():
            for key in KEYS:
                try:
                    expected = a[key]
                except IndexError:
                    with pytest.raises(IndexError):
                        f[name][key]
                    continue
                found = f[name][key]
                assert found.shape == expected.shape and found.dtype == expected.dtype, (name, key)
                assert np.array_equal(found, expected), (name, key)


def test_random_slices_are_numpys(zt, arrays):
    rng = np.random.default_rng(7)
    a = arrays["ids"]

    def part(n):
        kind = rng.integers(0, 3)
        if kind == 0:
            return int(rng.integers(-n, n))
        ends = [None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in range(2)]
        step = [None, 1, 2, -1, -3][rng.integers(0, 5)]
        return slice(*ends, step)

    with holdall.open(zt, io="read") as f:
        t = f["ids"]
        for _ in range(1000):
            key = tuple(part(n) for n in a.shape[: rng.integers(0, 4)])
            assert np.array_equal(t[key], a[key]), key


def test_rows_read_only_their_bytes(tmp_path):
    a = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    holdall.save(tmp_path / "a.zt", {"a": a})
    before = chars_read()
    with holdall.open(tmp_path / "a.zt", io="read") as f:
        opened = chars_read()
        assert np.array_equal(f["a"][10:20], a[10:20])
        assert chars_read() - opened < 10 * 4096 + 4096
        opened = chars_read()
        assert np.array_equal(f["a"][700, 10:20], a[700, 10:20])
        assert chars_read() - opened < 4096
    assert opened - before < 300_000


def chars_read():
    """Bytes that this process has read, by the system's count. Reading the count is part of it."""
    if not sys.platform.startswith("linux"):
        pytest.skip("counts reads by /proc")
    line = pathlib.Path("/proc/self/io").read_text().splitlines()[0]
    return int(line.split()[1])


@pytest.mark.parametrize("dtype, name", [("float64", "F64"), ("int16", "I16"), ("uint8", "U8"), ("bool", "BOOL")])
@pytest.mark.parametrize("before", [8, 1])
def test_arrays_are_as_numpy_makes_them(dtype, name, before):
    """Whatever their shape, and at addresses that do not suit their elements too."""
    for shape in [(), (1,), (7,), (1, 3), (3, 1), (4, 5), (2, 3, 4), (1,) * 32]:
        a = (np.arange(np.prod(shape)) % 2).astype(dtype).reshape(shape)
        head = {
            "odd": {"dtype": "U8", "shape": [before], "data_offsets": [0, before]},
            "a": {"dtype": name, "shape": shape, "data_offsets": [before, before + a.nbytes]},
        }
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        data = len(text).to_bytes(8, "little") + text + bytes(before) + a.tobytes()
        with holdall.open(data) as f:
            t = f["a"]
            whole = np.ndarray(a.shape, a.dtype, t.components["data"].bytes())
            views = [(t.numpy(), whole), (np.asarray(t), whole)]
            if a.ndim:
                views += [(t[:], whole), (t[: len(a)], whole), (t[-1:], whole[-1:])]
            for made, like in views:
                assert type(made) is np.ndarray and made.dtype is a.dtype and np.array_equal(made, like)
                assert (made.shape, made.strides) == (like.shape, like.strides)
                assert str(made.flags) == str(like.flags) and np.shares_memory(made, like)
        own = holdall.load(data)["a"]
        assert type(own) is np.ndarray and np.array_equal(own, a) and own.strides == a.strides
        assert own.flags.writeable and own.flags.aligned and own.flags.f_contiguous == a.flags.f_contiguous


def test_iteration_ends(zt, arrays):
    with holdall.open(zt) as f:
        assert np.array_equal(np.stack(list(f["w"])), arrays["w"])
        assert len(f["w"]) == 64
        with pytest.raises(TypeError):
            len(f["scalar"])


def test_dlpack(zt, arrays):
    f = holdall.open(zt)
    for name in ("w", "ids", "half", "c", "scalar", "nothing", "mask"):
        t = f[name]
        a = np.from_dlpack(t)
        assert np.array_equal(a, arrays[name]) and a.dtype == arrays[name].dtype
    a = np.from_dlpack(f["w"])
    # NumPy asks for capsules that can say they are read-only from 2.1 on.
    knows = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)
    assert np.shares_memory(a, f["w"].numpy()) is knows
    assert not (knows and a.flags.writeable)
    assert f["w"].__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(f["w"].__dlpack__(max_version=(1, 0)))
    old = f["w"].__dlpack__()
    assert '"dltensor"' in repr(old)
    for bad in ({"dl_device": (2, 0)}, {"stream": 1}, {"copy": False}):
        with pytest.raises(BufferError):
            f["w"].__dlpack__(**bad)
    f.close()
    assert np.array_equal(a, arrays["w"])


def test_an_old_capsule_is_memory_of_its_own(zt, arrays):
    class Old:
        def __init__(self, t):
            self.t = t

        def __dlpack__(self, **_):
            return self.t.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    with holdall.open(zt) as f:
        a = np.from_dlpack(Old(f["w"]))
        assert np.array_equal(a, arrays["w"]) and not np.shares_memory(a, f["w"].numpy())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has __buffer__")
def test_buffer_protocol(zt, arrays):
    with holdall.open(zt) as f:
        view = memoryview(f["w"])
        assert view.readonly and view.shape == (64, 32) and view.tobytes() == arrays["w"].tobytes()


def test_array_protocol(zt, arrays):
    with holdall.open(zt) as f:
        assert np.asarray(f["w"], dtype=np.float64).dtype == np.float64
        assert np.array(f["w"]).flags.writeable
        assert np.array_equal(np.asarray(f["w"]) + f["w"], 2 * arrays["w"])
        with pytest.raises(ValueError):
            f["w"].__array__(np.float64, copy=False)


def test_a_closed_file_is_an_error(zt):
    f = holdall.open(zt)
    t = f["w"]
    f.close()
    f.close()
    calls = [
        lambda: f["w"], lambda: len(f), lambda: list(f), lambda: "w" in f, lambda: f.attributes, lambda: f.warnings,
        lambda: t.numpy(), lambda: t[0], lambda: t.components, lambda: t.attributes, lambda: t.stats(),
        lambda: t.verify(), lambda: t.__dlpack__(), lambda: np.asarray(t), lambda: f.verify(), lambda: f.load(),
        lambda: t.read_into(np.empty(1)), lambda: t.to_dense(), lambda: f.__enter__(), lambda: f.load_into({"w": 1}),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(holdall.UsageError) as e:
            call()
        assert e.value.code == "python/closed"
    assert t.name == "w" and t.shape == (64, 32) and "closed" in f._repr_html_()


def test_types_of_ml_dtypes(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = [
        "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
        "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
    ]  # fmt: skip
    arrays = {}
    for name in names:
        width = np.dtype(getattr(ml_dtypes, name)).itemsize
        top = {"float4_e2m1fn": 16, "float6_e2m3fn": 64, "float6_e3m2fn": 64}.get(name, 256)
        codes = np.arange(top, dtype=np.uint8)[: 252 if top == 256 else top]
        arrays[name] = np.repeat(codes, width).view(getattr(ml_dtypes, name)).reshape(2, -1)
    holdall.save(tmp_path / "a.zt", arrays)
    with holdall.open(tmp_path / "a.zt") as f:
        for name, a in arrays.items():
            assert f[name].dtype == name
            for found in (f[name].numpy(), f[name].numpy(copy=True), f.load([name])[name], f[name][:]):
                assert found.dtype == a.dtype and found.shape == a.shape
                assert found.tobytes() == a.tobytes()
            assert f[name][1, 3:5].tobytes() == a[1, 3:5].tobytes()


def test_without_ml_dtypes(tmp_path, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    holdall.save(tmp_path / "a.zt", {"b": np.ones(4, ml_dtypes.bfloat16)})
    from holdall import _arrays

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    _arrays.DTYPES.clear()
    with holdall.open(tmp_path / "a.zt") as f:
        with pytest.warns(UserWarning, match="`b`"):
            found = f.load()
        assert not found and list(found.faults) == ["b"]
        for call in (f["b"].numpy, lambda: f.load(["b"]), lambda: found["b"], lambda: f["b"][0], lambda: np.asarray(f["b"])):
            with pytest.raises(holdall.UnsupportedError) as e:
                call()
            assert "ml_dtypes" in e.value.hint and e.value.code == "python/extra"
        assert bytes(f["b"].components["data"].bytes()) == b"\x80\x3f" * 4
        assert list(f["b"].components["data"].numpy()) == [0x3F80] * 4
    _arrays.DTYPES.clear()


def test_errors_are_pickled(zt):
    f = holdall.open(zt)
    with pytest.raises(holdall.NotFoundError) as e:
        f["nope"]
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is holdall.MissingNameError and str(again) == str(e.value) and again.tensor == "nope"


def test_pictures(zt):
    with holdall.open(zt) as f:
        assert "ztensor 1.2.0, 7 tensors" in repr(f)
        assert repr(f["w"]) == "<holdall.Tensor 'w' float32 [64, 32], dense>"
        html = f._repr_html_()
        assert "<table>" in html and "64 × 32" in html and "scalar" in html
    data = holdall.save_bytes({"<b>&": np.ones(1)}, format="zt")
    assert "&lt;b&gt;&amp;" in holdall.open(data)._repr_html_()


def test_names_of_any_kind():
    names = ["", "a\0b", "\n", "ü", "😀", "a" * 10_000, "<script>"]
    data = holdall.save_bytes({n: np.ones(1) for n in names}, format="zt")
    with holdall.open(data) as f:
        assert set(f) == set(names)
        assert all(f[n].name == n and f[n].verify() for n in names)


def test_what_is_large_is_imported_when_it_is_asked_for():
    script = (
        "import sys, holdall; early = {'holdall.carton', 'holdall.schema', 'tempfile'} & set(sys.modules); "
        "print(sorted(early), holdall.carton.__name__, holdall.schema.infer([{'a': 1}])['required'])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[] holdall.carton ['a']\n"
    with pytest.raises(AttributeError, match="nonsense"):
        holdall.nonsense


def test_a_tensor_of_one_element_is_a_number(tmp_path):
    """Python parses what has a buffer and no `__float__` as text."""
    values = {
        "u8": np.array(51, np.uint8),
        "u8s": np.frombuffer(b"42", np.uint8)[:1].copy(),
        "i16": np.array(0x3130, np.int16),
        "f4": np.frombuffer(b"1234", np.float32).copy()[0],
        "f2": np.array([[2.5]], np.float16),
        "c8": np.array(1 + 2j, np.complex64),
        "big": np.array(2**63 + 1, np.uint64),
        "flag": np.array(True),
        "many": np.array([1, 2]),
        "none": np.zeros((0,)),
    }
    holdall.save(tmp_path / "n.zt", values)
    for mode in ("map", "read"):
        f = holdall.open(tmp_path / "n.zt", io=mode)
        for name, value in values.items():
            for kind in (float, int, complex, operator.index):
                try:
                    wanted = kind(np.asarray(value).reshape(-1)[0].item() if np.size(value) == 1 else value)
                    if kind is operator.index and (np.shape(value) or value.dtype.kind not in "iu"):
                        wanted = TypeError
                except TypeError:
                    wanted = TypeError
                if wanted is TypeError:
                    with pytest.raises(TypeError):
                        kind(f[name])
                else:
                    assert kind(f[name]) == wanted and type(kind(f[name])) is type(wanted), (name, kind)
