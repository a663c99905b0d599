"""`holdall.safetensors` beside the package whose place it takes: files, slices, errors, `install`."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

import holdall
import holdall.safetensors as hs
import holdall.safetensors.numpy as hn

peer = pytest.importorskip("safetensors")
pn = pytest.importorskip("safetensors.numpy")


def arrays():
    rng = np.random.default_rng(2)
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8"]
    out = {f"x.{k}": rng.integers(0, 2, (3, 5)).astype(k) for k in kinds}
    out |= {"b.f4": np.ones(3, "f4"), "a.f4": np.zeros((2, 2), "f4"), "scalar": np.array(1.5, "f8"), "ü": np.ones(1, "i2")}
    return {**out, "none.f8": np.zeros((2, 0)), "none.u1": np.zeros(0, "u1")}


@pytest.fixture
def path(tmp_path):
    pn.save_file({"a": np.arange(50.0).reshape(10, 5), "s": np.array(2.0), "e": np.zeros((0, 4))}, tmp_path / "a.safetensors")
    return tmp_path / "a.safetensors"


def outcome(call):
    """What a call raises, or what it gives."""
    try:
        return call()
    except Exception as e:
        return type(e).__name__, str(e)


@pytest.mark.parametrize("metadata", [None, {"k": "v"}, {"format": "pt"}])
def test_the_same_file_whatever_order_names_come_in(tmp_path, metadata):
    given = arrays()
    for names in (list(given), sorted(given), sorted(given, reverse=True)):
        shuffled = {name: given[name] for name in names}
        assert hn.save(shuffled, metadata) == pn.save(shuffled, metadata)
        hn.save_file(shuffled, tmp_path / "ours.safetensors", metadata)
        pn.save_file(shuffled, tmp_path / "theirs.safetensors", metadata)
        assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()


def test_big_endian_and_scattered_arrays_are_written_right():
    a = np.arange(6, dtype=">i4").reshape(2, 3)
    assert hn.save({"a": a}) == pn.save({"a": a})
    # Here the published package writes what lies in memory, which is something else.
    assert np.array_equal(hn.load(hn.save({"a": a.T}))["a"], a.T)


def test_names_come_in_the_order_of_the_bytes(path):
    with hs.safe_open(path, framework="np") as a, peer.safe_open(path, framework="np") as b:
        assert a.keys() == b.keys() and a.offset_keys() == b.offset_keys()
        assert list(a.get_tensors()) == list(b.get_tensors()) == a.offset_keys()
    assert list(hn.load_file(path)) == list(pn.load_file(path))


#: Keys of which both say the same; `slice` by its parts.
KEYS = [
    slice(None), (), slice(2, None, 3), slice(2, 2), slice(None, 7), 3, -1, np.int64(3), True, [], ..., (..., 1), (0, 0),
    (slice(2, None), 0), (slice(2, None), -5), (slice(0, 4, 2), slice(1, 4, 2)), (0, slice(None, None, 7)),
    slice(None, None, 0), slice(None, None, -1), slice(10, 10), slice(None, 20), (slice(None), slice(None, 20)), 10, -11,
    (slice(2, None), 20), (slice(2, None), -6), [0, 1], None, (..., ...), (0, 0, 0), (slice(None), []), 1.5, "a", 10**12,
    slice(1, 20, 3),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_slices_and_what_is_wrong_with_them(path, key, backend):
    with hs.safe_open(path, "np", backend=backend) as a, peer.safe_open(path, "np", backend=backend) as b:
        for name in ("a", "s"):
            ours, theirs = outcome(lambda: a.get_slice(name)[key]), outcome(lambda: b.get_slice(name)[key])
            if isinstance(theirs, tuple):
                assert ours == theirs
            else:
                assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs) and ours.shape == theirs.shape
                assert ours.flags.writeable


def test_slices_that_only_we_have(path):
    with hs.safe_open(path, "np") as f:
        a = f.get_slice("a")
        assert np.array_equal(a[-3:], a[7:]) and a[5:2].shape == (0, 5) and f.get_slice("e")[:].shape == (0, 4)
        with pytest.raises(TypeError):
            a[: "x"]


CALLS = {
    "no tensor": lambda m, p: m.safe_open(p, "np").get_tensor("nope"),
    "no slice": lambda m, p: m.safe_open(p, "np").get_slice("nope"),
    "framework": lambda m, p: m.safe_open(p, "bad"),
    "backend": lambda m, p: m.safe_open(p, "np", backend="bad"),
    "device": lambda m, p: m.safe_open(p, "np", "bad"),
    "device of torch": lambda m, p: m.safe_open(p, "np", "cuda"),
    "number of a device": lambda m, p: m.safe_open(p, "np", 0),
    "no file": lambda m, p: m.safe_open("not/a file", "np"),
    "dtype of a spec": lambda m, p: outcome(lambda: m.TensorSpec(dtype="F32", shape=[1], data_ptr=0, data_len=0))[0],
    "negative shape": lambda m, p: m.TensorSpec(dtype="int8", shape=[-1], data_ptr=0, data_len=0),
    "length of a spec": lambda m, p: m.serialize(
        {"a": m.TensorSpec(dtype="int8", shape=[2], data_ptr=np.ones(2, "i1").ctypes.data, data_len=1)}
    ),
    "no folder": lambda m, p: outcome(
        lambda: m.serialize_file({"a": m.TensorSpec(dtype="int8", shape=[0], data_ptr=0, data_len=0)}, p / "no" / "x")
    )[0],
}


@pytest.mark.parametrize("what", CALLS)
def test_the_same_is_said(path, what):
    ours, theirs = outcome(lambda: CALLS[what](hs, path)), outcome(lambda: CALLS[what](peer, path))
    assert ours == theirs and (isinstance(ours, str) or len(ours) == 2)


BAD = {
    "empty": lambda d: b"",
    "half a header": lambda d: d[:50],
    "cut": lambda d: d[:-3],
    "more": lambda d: d + b"x",
}


@pytest.mark.parametrize("what", BAD)
def test_the_same_is_said_of_bad_files(path, what):
    data = BAD[what](path.read_bytes())
    path.write_bytes(data)
    for call in (lambda m: m.deserialize(data), lambda m: m.safe_open(path, "np")):
        ours, theirs = outcome(lambda: call(hs)), outcome(lambda: call(peer))
        assert ours == theirs
    with pytest.raises(hs.SafetensorError) as e:
        hs.safe_open(path, "np")
    assert isinstance(e.value.__cause__, holdall.HoldallError) and e.value.__cause__.code


@pytest.mark.parametrize("data", [b"\0\0\0\0", b"hello world, this is not a tensor file", b"\x40" + bytes(7) + b"[" * 64])
def test_what_is_no_file_is_refused(path, data):
    path.write_bytes(data)
    for m in (hs, peer):
        with pytest.raises(m.SafetensorError, match="Error while deserializing header"):
            m.safe_open(path, "np")
        with pytest.raises(m.SafetensorError, match="Error while deserializing: "):
            m.deserialize(data)
        with pytest.raises(TypeError):
            m.deserialize("a.safetensors")


def test_a_closed_file(path):
    for m in (hs, peer):
        with m.safe_open(path, "np") as f:
            part = f.get_slice("a")
        for call in (f.keys, f.offset_keys, f.metadata, f.get_tensors, lambda: f.get_tensor("a"), lambda: f.get_slice("a")):
            with pytest.raises(m.SafetensorError, match="File is closed"):
                call()
    del part


def test_specs_and_bytes(tmp_path):
    a = np.arange(6, dtype="f4").reshape(2, 3)
    made = []
    for m in (hs, peer):
        spec = m.TensorSpec(dtype="float32", shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
        assert (spec.dtype, spec.shape, spec.data_ptr, spec.data_len) == ("F32", [2, 3], a.ctypes.data, 24)
        pairs = m.TensorSpec(dtype="float4_e2m1fn_x2", shape=[2, 3], data_ptr=a.ctypes.data, data_len=6)
        assert pairs.shape == [2, 6] and pairs.dtype == "F4"
        m.serialize_file({"a": spec, "p": pairs}, tmp_path / "a.safetensors", metadata={"k": "v"})
        made.append((repr(spec), m.serialize({"p": pairs, "a": spec}), (tmp_path / "a.safetensors").read_bytes()))
        with pytest.raises(AttributeError):
            spec.shape = [1]
        with pytest.raises(TypeError):
            m.TensorSpec("float32", [2, 3], 0, 24)
        with pytest.raises(TypeError):
            m.serialize({"a": {"dtype": "float32", "shape": [1], "data_ptr": 0, "data_len": 0}})
    assert made[0] == made[1]
    found = dict(hs.deserialize(made[0][1]))
    assert found == dict(peer.deserialize(made[0][1]))
    assert isinstance(found["a"]["data"], bytearray) and found["a"]["shape"] == [2, 3]


@pytest.mark.parametrize(
    "dtype", "float64 float16 bfloat16 int64 int16 uint32 uint8 bool complex64 float8_e4m3fn float8_e8m0fnu".split()
)
def test_every_type_of_a_spec(dtype):
    raw = np.arange(64, dtype="u1") % 2
    for n in (0, 4):
        assert hs.serialize({"a": spec(hs, dtype, raw, n)}) == peer.serialize({"a": spec(peer, dtype, raw, n)})


def spec(m, dtype, raw, n):
    width = {"bool": 1, "uint8": 1, "complex64": 8}.get(dtype) or (
        1 if dtype.startswith("float8") else 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
    )
    return m.TensorSpec(dtype=dtype, shape=[n], data_ptr=raw.ctypes.data, data_len=n * width)


def test_a_handle(path):
    with open(path) as f, hs._safe_open_handle(f, framework="np", device="cpu") as g:
        assert np.array_equal(g.get_tensor("a"), pn.load_file(path)["a"])
    with pytest.raises(AttributeError):
        hs._safe_open_handle("a.safetensors", "np")


def test_every_format(tmp_path):
    for extension in ("zt", "mt", "safetensors"):
        hn.save_file(arrays(), tmp_path / f"a.{extension}")
        with hs.safe_open(tmp_path / f"a.{extension}", "np") as f:
            assert f.get_slice("x.f4").get_dtype() == "F32" and set(f.get_tensors()) == set(arrays())
        assert len(hs.deserialize((tmp_path / f"a.{extension}").read_bytes())) == len(arrays())


def test_types_that_only_we_give(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.arange(4).astype(ml_dtypes.bfloat16)
    hn.save_file({"a": a}, tmp_path / "a.safetensors")
    assert hn.load_file(tmp_path / "a.safetensors")["a"].dtype == a.dtype
    with hs.safe_open(tmp_path / "a.safetensors", "np") as f:
        assert np.array_equal(f.get_slice("a")[1:3], a[1:3])


@pytest.mark.parametrize("name", ["jax", "mlx", "tensorflow", "paddle", "torch"])
def test_frameworks_that_are_not_there(path, name):
    # Some of them cannot be in one process, so they are only looked for.
    if importlib.util.find_spec(name):
        pytest.skip("it is there")
    with pytest.raises(ImportError):
        hs.safe_open(path, name).get_tensor("a")
    with pytest.raises(ImportError):
        __import__(f"holdall.safetensors.{'flax' if name == 'jax' else name}")


def run(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_install_and_uninstall():
    found = run(
        """
import importlib.metadata, importlib.util, json, sys
import safetensors as theirs, safetensors.numpy
import holdall.safetensors as ours
ours.install()
ours.install()
import safetensors, safetensors.numpy
from safetensors._safetensors_rust import safe_open
from safetensors import SafetensorError
out = [safetensors is ours, sys.modules["safetensors.numpy"] is sys.modules["holdall.safetensors.numpy"]]
out += [safetensors.numpy.__name__ == "holdall.safetensors.numpy", safe_open is ours.safe_open]
out += [importlib.metadata.version("safetensors") == ours.__version__ == safetensors.__version__]
out += [importlib.util.find_spec("safetensors") is not None, importlib.util.find_spec("safetensors.torch") is not None]
out += [importlib.util.find_spec("safetensors.nope") is None, importlib.import_module(SafetensorError.__module__) is not None]
out += [ours.__spec__.name == "holdall.safetensors", importlib.metadata.version("numpy") != ours.__version__]
ours.uninstall()
ours.uninstall()
import safetensors, safetensors.numpy
out += [safetensors is theirs, safetensors.numpy.__name__ == "safetensors.numpy"]
print(json.dumps(out))
"""
    )
    assert found == [True] * len(found) and len(found) == 13


def test_install_where_the_package_is_not(tmp_path):
    """As where it is not installed: its finders do not find it."""
    found = run(
        """
import importlib.metadata, json, sys
from importlib.abc import MetaPathFinder
import holdall.safetensors as ours
class Hidden(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "safetensors":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
ours.install()
from safetensors.numpy import save, load
import numpy as np
ok = load(save({"a": np.ones(3)}))["a"].sum() == 3
ours.uninstall()
try:
    import safetensors
except ImportError:
    print(json.dumps([bool(ok)]))
"""
    )
    assert found == [True]


def test_the_release_whose_behaviour_it_has():
    assert hs.__version__ == peer.__version__
