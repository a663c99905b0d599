"""Writing: kinds of arrays, kinds of targets, tied arrays, the Writer."""

import array
import io

import numpy as np
import pytest

import holdall
import holdall.numpy

FORMATS = ["ztensor", "metatensor", "safetensors"]


@pytest.mark.parametrize("format", FORMATS)
def test_arrays_of_every_shape_of_memory(format):
    base = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    frozen = base.copy()
    frozen.flags.writeable = False
    arrays = {
        "plain": base,
        "transposed": base.T,
        "strided": base[::2, 1::2, ::-1],
        "fortran": np.asfortranarray(base),
        "big": base.astype(">f4"),
        "big strided": base.astype(">f4")[:, ::2],
        "broadcast": np.broadcast_to(base[0, 0], (3, 6)),
        "frozen": frozen,
        "scalar": np.float64(2.5),
        "big scalar": np.array(7, ">i8"),
        "nothing": base[:0],
        "field": np.zeros(3, [("a", "u1"), ("b", "<f4")])["b"],
    }
    found = holdall.load(holdall.save_bytes(arrays, format=format))
    for name, a in arrays.items():
        assert np.array_equal(found[name], a), name
        assert found[name].dtype == a.dtype.newbyteorder("<")


def test_other_kinds_of_arrays():
    tensors = {
        "bytes": b"abc",
        "bytearray": bytearray(b"abc"),
        "array": array.array("d", [1, 2]),
        "view": memoryview(np.ones((2, 2), np.int16)),
        "dlpack": Dlpack(np.arange(3)),
        "array protocol": ArrayLike(),
        "tensor": holdall.open(holdall.save_bytes({"a": np.arange(4)}, format="zt"))["a"],
    }
    found = holdall.load(holdall.save_bytes(tensors, format="zt"))
    assert found["bytes"].tobytes() == found["bytearray"].tobytes() == b"abc"
    assert list(found["array"]) == [1, 2] and found["array"].dtype == np.float64
    assert found["view"].shape == (2, 2) and found["view"].dtype == np.int16
    assert list(found["dlpack"]) == [0, 1, 2] and list(found["tensor"]) == [0, 1, 2, 3]
    assert list(found["array protocol"]) == [5, 6]


class Dlpack:
    def __init__(self, a):
        self.a = a

    def __dlpack__(self, **kw):
        return self.a.__dlpack__(**kw)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


class ArrayLike:
    def __array__(self, dtype=None, copy=None):
        return np.array([5, 6], dtype)


@pytest.mark.parametrize("value", [None, 3, 2.5, "text", [1, 2], (1,), {}, object(), {"a": 1}, lambda: 0, type, ...])
def test_what_is_no_array(value, tmp_path):
    for name in ("a.safetensors", "a.npz", "a.mt"):
        with pytest.raises(TypeError, match="'x' must be an array"):
            holdall.save(tmp_path / name, {"x": value})
    assert not list(tmp_path.iterdir())
    with holdall.Writer(tmp_path / "a.zt") as w, pytest.raises(TypeError, match="'x' must be an array"):
        w.add("x", value)


@pytest.mark.parametrize(
    "value",
    [np.array([object()]), np.array(["a", None]), np.zeros(2, [("a", "O")]), np.zeros(1, np.longdouble), np.zeros(1, np.clongdouble)],
)
def test_elements_that_no_file_holds(value, tmp_path):
    with pytest.raises(holdall.UnsupportedError) as info:
        holdall.save(tmp_path / "a.zt", {"x": value})
    assert str(value.dtype["a"] if value.dtype.names else value.dtype) in str(info.value) and info.value.tensor == "x"
    assert not (tmp_path / "a.zt").exists()


def test_names_that_are_none(tmp_path):
    for name in (3, None, b"a", ("a",)):
        with pytest.raises(TypeError):
            holdall.save(tmp_path / "a.npz", {name: np.ones(1)})
    with pytest.raises(TypeError):
        holdall.save(tmp_path / "a.zt", {b"a": np.ones(1)})
    with pytest.raises((UnicodeEncodeError, holdall.HoldallError)):
        holdall.save(tmp_path / "a.zt", {"\ud800": np.ones(1)})
    with pytest.raises(TypeError):
        holdall.save(tmp_path / "a.zt", [np.ones(1)])
    assert not list(tmp_path.iterdir())


def test_tied_arrays(tmp_path):
    w = np.arange(1000.0)
    tensors = {"a": w, "b": w, "part": w[:10], "turned": w[::-1]}
    for extension, shared in (("zt", True), ("mt", True), ("safetensors", False)):
        path = tmp_path / f"a.{extension}"
        holdall.save(path, tensors)
        with holdall.open(path) as f:
            assert (f["a"].location == f["b"].location) is shared
            assert f["part"].location != f["a"].location
        found = holdall.load(path)
        for name, a in tensors.items():
            assert np.array_equal(found[name], a)
        # One memory where they are tied in the file, or what is asked for.
        assert np.shares_memory(found["a"], found["b"]) is shared
        assert not np.shares_memory(found["a"], found["part"])
        found["a"][:] = 0
        assert np.array_equal(found["b"], found["a"] if shared else w)
        loaded = holdall.numpy.load_file(path)
        assert np.shares_memory(loaded["a"], loaded["b"]) is shared
        # And so they are tied in the next file.
        holdall.save(tmp_path / "again.zt", loaded)
        with holdall.open(tmp_path / "again.zt") as f:
            assert (f["a"].location == f["b"].location) is shared
        apart = holdall.load(path, tied="copy")
        apart["a"][:] = 0
        assert np.array_equal(apart["b"], w)
    holdall.save(tmp_path / "c.zt", tensors, tied="copy")
    with holdall.open(tmp_path / "c.zt") as f:
        assert f["a"].location != f["b"].location
    holdall.save(tmp_path / "s.safetensors", {"a": w, "b": w}, tied="share")
    assert (tmp_path / "s.safetensors").stat().st_size < 1.5 * w.nbytes
    assert np.array_equal(holdall.load(tmp_path / "s.safetensors")["b"], w)


def test_tied_elements_that_are_packed_have_one_memory(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    packed = np.arange(16).astype(ml_dtypes.float4_e2m1fn)
    holdall.save(tmp_path / "b.zt", {"a": packed, "b": packed})
    found = holdall.load(tmp_path / "b.zt")
    assert np.shares_memory(found["a"], found["b"]) and found["b"].dtype == packed.dtype
    apart = holdall.load(tmp_path / "b.zt", tied="copy")
    assert not np.shares_memory(apart["a"], apart["b"])
    with pytest.raises(holdall.UsageError):
        holdall.load(tmp_path / "b.zt", tied="auto")


def test_targets(tmp_path, arrays):
    class Slow(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def write(self, b):
            self.data += bytes(b[:7])
            return min(len(b), 7)

    class Quiet:
        data = b""

        def write(self, b):
            self.data += b

    small = {"a": arrays["ids"]}
    whole = holdall.save_bytes(small, format="zt")
    for out in (Slow(), Quiet()):
        holdall.save(out, small, format="zt")
        assert out.data == whole
    with open(tmp_path / "file", "wb") as out:
        holdall.save(out, small, format="zt")
    assert (tmp_path / "file").read_bytes() == whole
    with pytest.raises(holdall.UsageError):
        holdall.save(Quiet(), small)
    with pytest.raises(TypeError):
        holdall.save(3, small, format="zt")


def test_what_a_target_raises_comes_out():
    class Full:
        def write(self, b):
            raise RuntimeError("full up")

    class Odd:
        def write(self, b):
            return "many"

    with pytest.raises(RuntimeError, match="full up"):
        holdall.save(Full(), {"a": np.ones(10)}, format="zt")
    with pytest.raises(TypeError):
        holdall.save(Odd(), {"a": np.ones(10)}, format="zt")
    with pytest.raises(RuntimeError, match="full up"):
        holdall.convert(holdall.save_bytes({"a": np.ones(10)}, format="zt"), Full(), format="mt")


def test_overwriting(tmp_path):
    path = tmp_path / "a.zt"
    holdall.save(path, {"a": np.ones(1)})
    with pytest.raises(holdall.UsageError) as e:
        holdall.save(path, {"a": np.zeros(1)}, overwrite=False)
    assert e.value.code == "write/exists" and "overwrite=True" in e.value.hint
    assert holdall.load(path)["a"][0] == 1
    holdall.save(path, {"a": np.zeros(1)}, sync=False)
    assert holdall.load(path)["a"][0] == 0


def test_attributes_come_back(tmp_path):
    values = {
        "text": "ü", "int": -(2**63), "big": 2**64 - 1, "float": 1.5, "none": None, "yes": True, "bytes": b"\0\xff",
        "list": [1, [2, "x"]], "map": {"a": {"b": [None]}}, "tag": holdall.Tag(32, "http://x"),
        "undefined": holdall.Simple(23), "inf": float("-inf"), "numpy": np.float32(0.5), "keys": {1: 2, (1, 2): 3},
    }  # fmt: skip
    holdall.save(tmp_path / "a.zt", {"a": np.ones(1)}, attributes=values)
    with holdall.open(tmp_path / "a.zt") as f:
        found = f.attributes
    assert found == {**values, "numpy": 0.5}
    assert list(found) == list(values) or set(found) == set(values)
    assert type(found["tag"]) is holdall.Tag and type(found["yes"]) is bool


def test_attributes_that_cannot_be():
    endless = []
    endless.append(endless)
    for bad in ({"a": object()}, {3: 1}, {"a": 2**64}, {"a": endless}, {"a": {"b": {1, 2}}}):
        with pytest.raises(holdall.UsageError):
            holdall.save_bytes({"a": np.ones(1)}, format="zt", attributes=bad)
    with pytest.raises(TypeError):
        holdall.save_bytes({"a": np.ones(1)}, format="zt", attributes=[1])
    with pytest.raises(UnicodeEncodeError):
        holdall.save_bytes({"a": np.ones(1)}, format="zt", attributes={"a": "\ud800"})


def test_digests_encodings_alignment(tmp_path):
    tensors = {"a": np.zeros(1 << 16), "b": np.ones(3)}
    path = tmp_path / "a.zt"
    holdall.save(path, tensors, encoding="zstd", level=9, digest="sha256", align=4096)
    with holdall.open(path, check="all") as f:
        c = f["a"].components["data"]
        assert c.encoding == "zstd" and c.digest.startswith("sha256") and c.end - c.start < 1000
        assert all(x.start % 4096 == 0 for t in f.values() for x in t.components.values())
        assert np.array_equal(f["a"], tensors["a"])
        assert f.verify().digests == {"sha256": 2}
    holdall.save(path, tensors, digest="none")
    with holdall.open(path) as f:
        assert f["a"].components["data"].digest is None
    with pytest.raises(holdall.UsageError) as e:
        holdall.save(tmp_path / "a.safetensors", tensors, encoding="zstd")
    assert "--" not in e.value.hint


def test_what_a_format_cannot_hold_leaves_nothing(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"before")
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(holdall.UnsupportedError):
        holdall.save(path, {"a": sparse.eye_array(3, format="csr")})
    assert path.read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1


def test_writer(tmp_path):
    a = np.arange(100, dtype=np.float32).reshape(20, 5)
    with holdall.Writer(tmp_path / "a.zt", attributes={"k": 1}) as w:
        w.add("whole", a, {"unit": "m"})
        w.begin("rows", a.shape, "float32")
        for row in a:
            w.write(row)
        w.begin("bytes", (3,), np.uint8)
        w.write(b"ab")
        w.write(b"c")
        assert not w.closed
    assert w.closed
    with holdall.open(tmp_path / "a.zt") as f:
        assert np.array_equal(f["whole"], a) and np.array_equal(f["rows"], a)
        assert f["whole"].attributes == {"unit": "m"} and f.attributes == {"k": 1}
        assert f["bytes"].numpy().tobytes() == b"abc"


def test_writer_that_is_declared(tmp_path):
    with holdall.Writer(tmp_path / "a.safetensors") as w:
        w.declare([holdall.TensorSpec("a", (2,), "int32"), ("b", (1, 2), "bool")])
        w.begin("a", (2,), "int32")
        w.write(np.array([1, 2], np.int32))
        w.add("b", np.array([[True, False]]))
    assert list(holdall.load(tmp_path / "a.safetensors")["a"]) == [1, 2]
    with pytest.raises(holdall.UsageError) as e:
        with holdall.Writer(tmp_path / "b.safetensors") as w:
            w.add("a", np.ones(1))
    assert e.value.code == "write/declare" and "declare()" in e.value.hint and not (tmp_path / "b.safetensors").exists()


def test_writer_gives_up(tmp_path):
    path = tmp_path / "a.zt"
    with pytest.raises(RuntimeError):
        with holdall.Writer(path) as w:
            w.add("a", np.ones(1))
            raise RuntimeError
    with pytest.raises(holdall.UsageError):
        with holdall.Writer(path) as w:
            w.begin("a", (2,), "int32")
            w.write(np.ones(1, np.int32))
    with pytest.raises(holdall.UsageError):
        with holdall.Writer(path) as w:
            w.begin("a", (1,), "int32")
            w.write(np.ones(2, np.int32))
    w = holdall.Writer(path)
    w.abort()
    w.abort()
    for call in (w.close, lambda: w.add("a", np.ones(1)), lambda: w.write(b"x")):
        with pytest.raises(holdall.UsageError) as e:
            call()
        assert e.value.code == "python/closed"
    assert not list(tmp_path.iterdir())


def test_sparse(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(1)
    m = sparse.csr_array(np.where(rng.random((20, 30)) < 0.1, rng.random((20, 30)), 0).astype(np.float32))
    with holdall.Writer(tmp_path / "a.zt") as w:
        w.add("csr", m)
        w.add("coo", m.tocoo())
        w.add("csc", m.tocsc())
        w.add_csr("parts", m.shape, m.indptr, m.indices, m.data)
        w.add_coo("places", m.shape, np.stack(m.tocoo().coords), m.tocoo().data)
        with pytest.raises(holdall.UsageError):
            w.add_coo("negative", m.shape, [[-1], [0]], np.ones(1))
        with pytest.raises(holdall.UsageError):
            w.add_coo("floats", m.shape, [[1.0], [0]], np.ones(1))
    with holdall.open(tmp_path / "a.zt") as f:
        assert f["csr"].layout == "sparse_csr" and f["coo"].layout == "sparse_coo"
        for t in f.values():
            assert (t.scipy() != m).nnz == 0
            assert np.array_equal(t.to_dense(), m.toarray())
            assert t.verify().verdict == "sound"
            with pytest.raises(holdall.UsageError):
                t.numpy()
            with pytest.raises(holdall.UsageError):
                t[0]
        found = f.load()
        kinds = {name: type(a).__name__.partition("_")[0] for name, a in found.items()}
        assert kinds == {"csr": "csr", "coo": "coo", "csc": "csc", "parts": "csr", "places": "coo"}
        assert all((a != m).nnz == 0 and a.dtype == m.dtype for a in found.values())
        assert np.array_equal(f.load(dense=True)["csc"], m.toarray())


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("format", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
def test_sparse_objects_keep_their_class(tmp_path, format, kind):
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(1)
    for shape in [(6, 4), (0, 3), (4, 0), (2, 2)]:
        dense = np.where(rng.random(shape) < 0.4, rng.random(shape), 0).astype(np.float32)
        m = getattr(sparse, f"{format}_{kind}")(dense)
        if format == "bsr" and dense.size:
            m = m.tobsr((2, 2))
        holdall.save(tmp_path / "a.zt", {"m": m, "w": np.ones(2)})
        found = holdall.load(tmp_path / "a.zt")["m"]
        assert type(found) is type(m) and found.shape == m.shape and found.dtype == m.dtype
        assert np.array_equal(found.toarray(), m.toarray())
        if format in ("csr", "csc", "bsr"):
            assert np.array_equal(found.data, m.data) and np.array_equal(found.indices, m.indices)
            assert np.array_equal(found.indptr, m.indptr)
        if format == "bsr":
            assert found.blocksize == m.blocksize
        holdall.save(tmp_path / "b.zt", holdall.load(tmp_path / "a.zt"))
        assert type(holdall.load(tmp_path / "b.zt")["m"]) is type(m)
    with pytest.raises(holdall.UnsupportedError, match=f"`m`.*{format}_{kind}"):
        holdall.save(tmp_path / "a.npz", {"m": m})


def test_entries_of_compressed_columns_keep_their_order(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    # Unsorted, with a duplicate and a zero.
    m = sparse.csc_array((np.array([1.0, 2, 0, 4, 5]), np.array([2, 0, 1, 1, 1]), np.array([0, 2, 2, 5])), shape=(3, 3))
    holdall.save(tmp_path / "a.zt", {"m": m})
    found = holdall.load(tmp_path / "a.zt")["m"]
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(found, part), getattr(m, part))


def test_sparse_indices_outside_the_shape(tmp_path):
    with holdall.Writer(tmp_path / "a.zt") as w:
        w.add_coo("bad", (2, 2), [[5], [0]], np.ones(1))
    with holdall.open(tmp_path / "a.zt") as f:
        for call in (f["bad"].to_dense, f["bad"].scipy):
            with pytest.raises((holdall.MalformedError, holdall.UnsupportedError)) as e:
                call()
            assert isinstance(e.value, holdall.MalformedError)


def test_quantized(tmp_path):
    packed = np.full((2, 4), 0x11111111, np.int32)
    with holdall.Writer(tmp_path / "a.zt") as w:
        w.add_quantized(
            "q", (2, 32), packed, np.full((2, 2), 0.5, np.float32), np.zeros((2, 2), np.float32),
            attributes={"bits": 4, "group_size": 16, "packing": "8_per_i32"},
        )  # fmt: skip
    with holdall.open(tmp_path / "a.zt") as f:
        assert f["q"].dequantize().shape == (2, 32)
        assert set(np.unique(f["q"].dequantize())) == {np.float32(0.5)}
        assert np.array_equal(f["q"].components["packed_weight"].numpy(), packed.reshape(-1))


def test_jax(tmp_path):
    jnp = pytest.importorskip("jax.numpy")
    arrays = {"a": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3, jnp.bfloat16), "f": jnp.ones(4, jnp.float8_e4m3fn)}
    holdall.save(tmp_path / "a.zt", arrays)
    with holdall.open(tmp_path / "a.zt") as f:
        for name, a in arrays.items():
            assert f[name].dtype == a.dtype.name
            assert (jnp.asarray(f[name].numpy()) == a).all()


@pytest.mark.parametrize("extension", ["zt", "safetensors"])
def test_what_cannot_be_saved_is_named(tmp_path, extension):
    good = np.zeros(2)
    wrongs = [np.array([None]), np.array(["text", None]), np.zeros(2, np.longdouble)]
    for wrong in wrongs:
        with pytest.raises(holdall.UnsupportedError, match="tensor 'labels'") as info:
            holdall.save(tmp_path / f"a.{extension}", {"w": good, "labels": wrong})
        assert (info.value.tensor, info.value.code) == ("labels", "python/dtype") and info.value.hint
        assert not list(tmp_path.iterdir())
    with holdall.Writer(tmp_path / "b.zt") as w:
        with pytest.raises(holdall.UnsupportedError, match="tensor 'labels'") as info:
            w.add("labels", wrongs[0])
        assert info.value.tensor == "labels"


def test_booleans_are_0_or_1_in_a_file(tmp_path):
    odd = np.array([0, 1, 2, 255, 128, 0], np.uint8).view(np.bool_)
    cases = {
        "plain": odd,
        "flipped": odd[::-1],
        "square": odd.reshape(2, 3).T,
        "scalar": odd[2:3].reshape(()),
        "long": np.full(40 << 20, 3, np.uint8).view(np.bool_),
        "sound": np.array([True, False]),
        "none": np.zeros((0, 2), np.bool_),
    }
    path = tmp_path / "x.safetensors"
    holdall.save(path, cases)
    with holdall.Writer(tmp_path / "y.zt") as w:
        for name, value in cases.items():
            w.add(name, value)
        w.begin("written", (6,), "bool")
        w.write(odd)
    for path in (path, tmp_path / "y.zt"):
        with holdall.open(path) as f:
            for name, value in cases.items():
                expected = np.ascontiguousarray(value).reshape(-1).view(np.uint8) != 0
                got = np.frombuffer(f[name].numpy().tobytes(), np.uint8)
                assert got.tobytes() == expected.astype(np.uint8).tobytes(), name
        assert holdall.verify(path)
    with holdall.open(tmp_path / "y.zt") as f:
        assert f["written"].numpy().tobytes() == bytes([0, 1, 1, 1, 1, 0])


def test_booleans_of_records_are_0_or_1_in_a_file(tmp_path):
    inner = np.dtype([("flags", np.bool_, (2,)), ("n", np.uint8)])
    raw = np.array([[2, 0, 255, 7], [0, 1, 0, 9]], np.uint8)
    rows = raw.reshape(-1).view(np.dtype([("ok", np.bool_), ("inner", inner)]))
    holdall.save(tmp_path / "x.zt", {"rows": rows})
    assert holdall.verify(tmp_path / "x.zt")
    with holdall.open(tmp_path / "x.zt") as f:
        stored = f["rows"].components["data"].numpy().tobytes()
    assert stored == bytes([1, 0, 1, 7, 0, 1, 0, 9])


class Stop(Exception):
    pass


@pytest.mark.parametrize("at_end", [False, True])
def test_what_progress_raises_is_heard_while_zstd_works(tmp_path, at_end):
    import time

    data = np.random.default_rng(0).integers(0, 16, 7 << 20, dtype=np.uint8)
    reports = []

    def progress(done, total):
        reports.append((done, total))
        ends = [one for one in reports if one[0] == one[1]]
        # The second time that all is given: frames are being waited for.
        if len(reports) == 3 if not at_end else len(ends) == 2:
            progress.at = time.monotonic()
            raise Stop

    progress.at = None
    with pytest.raises(Stop):
        holdall.save(tmp_path / "x.zt", {"x": data}, encoding="zstd", level=19, threads=1, progress=progress)
    assert time.monotonic() - progress.at < 0.5
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import holdall
signal.signal(signal.SIGINT, signal.default_int_handler)
path, how = sys.argv[1:]
data = np.random.default_rng(0).integers(0, 16, 12 << 20, dtype=np.uint8)
sent = []
def interrupt():
    time.sleep(0.7)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
try:
    if how == "save":
        threading.Thread(target=interrupt).start()
        holdall.save(path, {"x": data}, encoding="zstd", level=19, threads=1)
    else:
        with holdall.Writer(path, encoding="zstd", level=19, threads=1) as w:
            threading.Thread(target=interrupt).start()
            w.add("x", data)
    print("finished")
except KeyboardInterrupt:
    took = time.monotonic() - sent[0]
    print("heard" if took < 0.5 else took, os.path.exists(path))
"""


@pytest.mark.parametrize("how", ["save", "writer"])
def test_ctrl_c_is_heard_while_zstd_works(tmp_path, how):
    import subprocess
    import sys

    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "x.zt"), how], capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "heard False\n", run.stdout + run.stderr
