"""The functions that people know, checked against safetensors itself."""

import numpy as np
import pytest
from conftest import ACCEPT, real_model

import holdall
import holdall.numpy as hn
import holdall.safetensors.numpy as dropped_in
from holdall.safetensors import SafetensorError, safe_open

peer = pytest.importorskip("safetensors")
pn = pytest.importorskip("safetensors.numpy")

FILES = [p for p in ACCEPT if p.suffix == ".safetensors"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_bit_for_bit_what_safetensors_reads(path):
    expected = dict(peer.deserialize(path.read_bytes()))
    with holdall.open(path) as f:
        # What has no entry is an alias, which safetensors does not know of.
        assert set(expected) <= set(f)
        for name, its in expected.items():
            t = f[name]
            assert bytes(t.components["data"].bytes()) == bytes(its["data"]), name
            assert list(t.shape) == list(its["shape"])
            assert safetensors_name(f, name) == its["dtype"]


def safetensors_name(f, name):
    return safe_open(f.name).get_slice(name).get_dtype()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_arrays_are_those_of_safetensors(path):
    try:
        expected = pn.load_file(path)
    except (AttributeError, TypeError) as e:
        pytest.skip(f"safetensors has no such arrays: {e}")
    found = hn.load_file(path)
    for name, a in expected.items():
        assert found[name].shape == a.shape and found[name].tobytes() == a.tobytes()
        assert found[name].dtype.itemsize == a.dtype.itemsize


def arrays():
    rng = np.random.default_rng(2)
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
    out = {f"x.{k}": rng.integers(0, 2, (3, 5)).astype(k) for k in kinds}
    return {**out, "scalar": np.array(1.5, "f4"), "nothing": np.zeros((2, 0), "f4")}


def test_each_reads_what_the_other_writes(tmp_path):
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    hn.save_file(arrays(), ours, metadata={"k": "v"})
    pn.save_file(arrays(), theirs, metadata={"k": "v"})
    for found in (pn.load_file(ours), hn.load_file(theirs), hn.load(theirs.read_bytes()), pn.load(hn.save(arrays()))):
        assert set(found) == set(arrays())
        for name, a in arrays().items():
            assert found[name].dtype == a.dtype and found[name].shape == a.shape and np.array_equal(found[name], a)


def test_safe_open_is_safetensors(tmp_path):
    path = tmp_path / "a.safetensors"
    pn.save_file(arrays(), path, metadata={"k": "v", "format": "pt"})
    with safe_open(path, framework="numpy") as a, peer.safe_open(path, framework="numpy") as b:
        assert list(a.keys()) == list(b.keys())
        assert a.offset_keys() == b.offset_keys()
        assert a.metadata() == b.metadata()
        for name in b.keys():
            x, y = a.get_tensor(name), b.get_tensor(name)
            assert x.dtype == y.dtype and np.array_equal(x, y) and x.flags.writeable
            s, t = a.get_slice(name), b.get_slice(name)
            assert s.get_shape() == list(t.get_shape()) and s.get_dtype() == t.get_dtype()
            if len(s.get_shape()) == 2 and x.size:
                for key in (slice(1, 3), (slice(None), slice(1, 2)), (slice(0, 2), 1), 1, (slice(2, 2), slice(None))):
                    assert np.array_equal(s[key], t[key]), (name, key)
        for call in (a.get_tensor, a.get_slice):
            with pytest.raises(SafetensorError):
                call("nope")
    assert safe_open(path).metadata() == {"k": "v", "format": "pt"}
    with pytest.raises(SafetensorError):
        safe_open(path, framework="tensorplow")
    with pytest.raises(FileNotFoundError):
        safe_open(tmp_path / "none.safetensors")


def test_metadata_that_is_not_there(tmp_path):
    hn.save_file({"a": np.ones(1)}, tmp_path / "a.safetensors")
    with safe_open(tmp_path / "a.safetensors") as f:
        assert f.metadata() is None
    with pytest.raises(TypeError):
        hn.save_file({"a": np.ones(1)}, tmp_path / "a.safetensors", metadata={"a": 1})


def test_every_format(tmp_path):
    for extension in ("zt", "mt", "safetensors"):
        path = tmp_path / f"a.{extension}"
        hn.save_file(arrays(), path)
        assert holdall.open(path).format.startswith({"zt": "z", "mt": "m", "safetensors": "s"}[extension])
        with safe_open(path) as f:
            assert np.array_equal(f.get_slice("x.f4")[1:], arrays()["x.f4"][1:])
            assert set(f.get_tensors()) == set(arrays())
    hn.save_file(arrays(), tmp_path / "model.weights")
    assert holdall.open(tmp_path / "model.weights").format == "safetensors"
    # The drop-in writes safetensors, whatever the file is called.
    for name in ("model.bin", "model.pt", "model.npz"):
        dropped_in.save_file(arrays(), tmp_path / name)
        assert holdall.open(tmp_path / name).format == "safetensors"


def test_bytes_are_not_paths():
    with pytest.raises(TypeError):
        hn.load("a.safetensors")


def test_tied_arrays_are_there_for_every_reader(tmp_path):
    w = np.ones(10)
    hn.save_file({"a": w, "b": w}, tmp_path / "a.safetensors")
    assert set(pn.load_file(tmp_path / "a.safetensors")) == {"a", "b"}


def test_bfloat16(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    hn.save_file({"a": a}, tmp_path / "a.safetensors")
    with peer.safe_open(tmp_path / "a.safetensors", framework="numpy") as f:
        assert f.get_slice("a").get_dtype() == "BF16"
    assert hn.load_file(tmp_path / "a.safetensors")["a"].dtype == ml_dtypes.bfloat16


def test_without_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        import holdall.torch as ht

        for call in (lambda: ht.load_file("x"), lambda: ht.load(b"")):
            with pytest.raises(holdall.UnsupportedError) as e:
                call()
            assert e.value.code == "python/extra"


def test_a_real_model(tmp_path):
    """Real weights, through NumPy; `test_torch.test_a_real_model` reads them through torch."""
    path = real_model()
    expected = pn.load_file(path)
    holdall.convert(path, tmp_path / "model.zt", encoding="zstd", level=1, sync=False)
    for tensors in (hn.load_file(path), holdall.load(tmp_path / "model.zt")):
        assert set(tensors) == set(expected) and len(expected) > 100
        for name, a in expected.items():
            assert tensors[name].dtype == a.dtype and tensors[name].tobytes() == a.tobytes()
            assert tensors[name].shape == a.shape
