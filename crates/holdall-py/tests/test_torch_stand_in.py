"""The way to torch and back, with a stand-in where torch itself is not installed: as much of it as is called.

What it holds is that memory is not shared with the file, that types are told by name, and that every way ends where it
should. `test_torch` holds the same, and more, against torch itself.
"""

import sys
import types

import numpy as np
import pytest

import holdall


class dtype:
    def __init__(self, name, like):
        self.name, self.like = name, np.dtype(like)

    def __repr__(self):
        return f"torch.{self.name}"


class Device:
    type = "cpu"

    def __str__(self):
        return "cpu"


class Tensor:
    """A NumPy array with torch's names."""

    layout = "strided"
    is_quantized = False
    device = Device()

    def __init__(self, a, dtype):
        self.a, self.dtype = a, dtype

    shape = property(lambda self: self.a.shape)
    detach = resolve_conj = resolve_neg = cpu = lambda self: self

    def element_size(self):
        return self.dtype.like.itemsize

    def numel(self):
        return self.a.size

    def data_ptr(self):
        return self.a.__array_interface__["data"][0]

    def stride(self):
        return tuple(s // self.a.itemsize for s in self.a.strides)

    def is_contiguous(self):
        return self.a.flags.c_contiguous

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self.a), self.dtype)

    def clone(self):
        return Tensor(self.a.copy(), self.dtype)

    def __getitem__(self, key):
        return Tensor(self.a[key], self.dtype)

    def reshape(self, *shape):
        return Tensor(self.a.reshape(*shape), self.dtype)

    def view(self, dtype):
        return Tensor(self.a.view(dtype.like), dtype)

    def numpy(self):
        assert self.dtype.like == self.a.dtype
        return self.a

    def to(self, device):
        return self


@pytest.fixture
def torch(monkeypatch):
    if "torch" in sys.modules:
        pytest.skip("torch itself is there")
    module = types.ModuleType("torch")
    module.dtype, module.Tensor, module.strided = dtype, Tensor, "strided"
    plain = ["float32", "float64", "int64", "uint8", "bool", "complex64"]
    for name, like in [*((n, n) for n in plain), ("bfloat16", "uint16"), ("float8_e4m3fn", "uint8")]:
        setattr(module, name, dtype(name, like))
    module.empty = lambda shape, dtype, device=None: Tensor(np.empty(shape, dtype.like), dtype)
    module.from_numpy = lambda a: Tensor(a, getattr(module, a.dtype.name))

    def frombuffer(buffer, *, dtype, count, offset):
        assert not memoryview(buffer).readonly, "torch would warn, and write"
        return Tensor(np.frombuffer(buffer, dtype.like, count, offset), dtype)

    module.frombuffer = frombuffer
    Tensor.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_there_and_back(torch, tmp_path):
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    given = {
        "w": Tensor(base, torch.float32),
        "turned": Tensor(base.T, torch.float32),
        "bf": Tensor(np.arange(5, dtype=np.uint16), torch.bfloat16),
        "f8": Tensor(np.arange(5, dtype=np.uint8).reshape(5, 1), torch.float8_e4m3fn),
        "c": Tensor(np.ones(2, np.complex64), torch.complex64),
        "s": Tensor(np.array(7, np.int64), torch.int64),
        "n": Tensor(np.empty((0, 3), np.float64), torch.float64),
        "b": Tensor(np.array([True, False]), torch.bool),
    }
    import holdall.torch as ht

    for extension in ("zt", "safetensors"):
        path = tmp_path / f"a.{extension}"
        ht.save_file(given, path)
        with holdall.open(path) as f:
            assert {name: t.dtype for name, t in f.items()} == {name: t.dtype.name for name, t in given.items()}
            one = {name: t.torch() for name, t in f.items()}
            one["w"].a[:] = 0
            assert np.array_equal(f["w"], base)
        for found in (ht.load_file(path), ht.load(path.read_bytes()), {**one, "w": given["w"]}):
            for name, x in given.items():
                assert found[name].dtype is x.dtype and found[name].shape == x.shape
                assert found[name].a.tobytes() == np.ascontiguousarray(x.a).tobytes()
                assert found[name].a.flags.writeable
        from holdall.safetensors import safe_open

        with safe_open(path, framework="pt", device="cpu") as f:
            assert np.array_equal(f.get_slice("w")[1:, ::2].a, base[1:, ::2])
            assert f.get_slice("s")[()].a == 7 and f.get_tensor("w").a.tobytes() == base.tobytes()
    out = Tensor(np.zeros((3, 4), np.float32), torch.float32)
    holdall.load_into(path, {"w": out})
    assert np.array_equal(out.a, base)
    with pytest.raises(holdall.UsageError):
        holdall.load_into(path, {"w": Tensor(np.zeros((4, 3), np.float32).T, torch.float32)})
    other = Tensor(np.zeros((3, 4), np.int64)[:, :2].copy(), torch.int64)
    with pytest.raises(holdall.UsageError) as e:
        holdall.load_into(path, {"w": other})
    assert "float32" in str(e.value) and "int64" in str(e.value)
    holdall.load_into(path, {"w": other}, raw=True)
    assert other.a.tobytes() == base.tobytes()
    # Tied weights have one memory.
    holdall.save(tmp_path / "tied.zt", {"a": given["w"], "b": given["w"]})
    tied = ht.load_file(tmp_path / "tied.zt")
    tied["a"].a[:] = 5
    assert (tied["b"].a == 5).all()


def test_tied_tensors_and_types_that_this_torch_lacks(torch, tmp_path):
    w = Tensor(np.ones(10, np.float32), torch.float32)
    holdall.save(tmp_path / "a.zt", {"a": w, "b": w, "h": np.ones(2, np.float16)})
    with holdall.open(tmp_path / "a.zt") as f:
        assert f["a"].location == f["b"].location
        with pytest.raises(holdall.UnsupportedError) as e:
            f["h"].torch()
        assert e.value.code == "python/dtype"
    sparse = Tensor(np.ones(1, np.float32), torch.float32)
    sparse.layout = "sparse_coo"
    with pytest.raises(holdall.UnsupportedError):
        holdall.save(tmp_path / "b.zt", {"a": sparse})


class Late:
    """A device that copies as late as it may: what is read into memory before its copy is done is what it copies."""

    def __init__(self):
        self.waiting, self.done, self.rooms, self.moved = [], 0, 0, 0

    def host(self, length):
        return Bytes(np.zeros(length, np.uint8))

    def room(self, length):
        self.rooms += 1
        return Bytes(np.full(length, 0xAA, np.uint8))

    def copy(self, to, start):
        self.waiting.append((to, start))

    def mark(self):
        return len(self.waiting)

    def wait(self, mark):
        for to, start in self.waiting[self.done : mark]:
            to.a[:] = start.a
        self.done = max(self.done, mark)

    def finish(self):
        self.wait(len(self.waiting))

    def move(self, host):
        self.moved += 1
        return host


class Bytes(Tensor):
    """Memory of a device or of the host."""

    def __init__(self, a):
        super().__init__(a, dtype("uint8", "uint8"))

    def __getitem__(self, key):
        return Bytes(self.a[key])

    def view(self, dtype):
        return Tensor(self.a.view(dtype.like), dtype)


@pytest.mark.parametrize("largest", [1 << 20, 9000])
def test_what_is_copied_to_a_device_is_read_into_no_memory_before_its_time(torch, tmp_path, monkeypatch, largest):
    from holdall import _cuda

    monkeypatch.setattr(_cuda, "SLOT", 8192)
    monkeypatch.setattr(_cuda, "REGION", 4096)
    monkeypatch.setattr(_cuda, "LARGEST", largest)
    rng = np.random.default_rng(1)
    given = {f"t{i}": rng.random(rng.integers(0, 900), np.float32) for i in range(60)}
    given["large"] = rng.random(5000).astype(np.float64)
    given["again"] = given["t7"] if given["t7"].size else given["large"]
    given["flat"] = np.arange(12, dtype=np.int64).reshape(3, 4)
    for options in ({}, {"encoding": "zstd"}):
        path = tmp_path / f"a{len(options)}.zt"
        holdall.save(path, given, **options)
        on = Late()
        with holdall.open(path) as f:
            names = list(f)
            found = _cuda.load(f._native, list(range(len(f))), on)
        assert list(found) == names
        for name, x in given.items():
            assert found[name].shape == x.shape and found[name].a.tobytes() == x.tobytes(), name
        # Neighbours share memory, and so do tied ones.
        assert on.rooms < len(given) * 0.8
        assert on.moved == (largest == 9000)
        twin = "t7" if given["t7"].size else "large"
        assert np.shares_memory(found["again"].a, found[twin].a)


@pytest.mark.parametrize("slot", [4096, 1 << 20])
def test_prefetch_hands_out_what_the_plan_says(torch, tmp_path, monkeypatch, slot):
    from holdall.safetensors import PrefetchLoader, SafetensorError, _open, _prefetch, safe_open

    monkeypatch.setattr(_prefetch, "SLOT", slot)
    monkeypatch.setattr(_open, "Cuda", lambda device: Late())
    rng = np.random.default_rng(3)
    given = {f"t{i}": rng.random((int(rng.integers(0, 9)), 31), np.float32) for i in range(60)}
    given["long"] = rng.integers(0, 99, 5000)
    for extension in ("safetensors", "zt"):
        path = tmp_path / f"a.{extension}"
        holdall.save(path, given)
        with safe_open(path, "pt") as f:
            plan = {}
            for name, x in given.items():
                low, high = sorted(rng.integers(-len(x), len(x) + 1, 2).tolist())
                plan[name] = [None, slice(low, high), slice(low, None)][int(rng.integers(3))]
            for chosen in (None, plan):
                rows = {name: slice(None) if chosen is None or chosen[name] is None else chosen[name] for name in given}
                loader = f.prefetch(chosen, device="cuda:0", threads=2)
                assert isinstance(loader, PrefetchLoader) and loader.names() == f.offset_keys()
                early = loader.take("t9")
                found = {"t9": early, **dict(loader)}
                assert set(found) == set(given) and dict(loader) == {}
                for name, x in given.items():
                    expected = x[rows[name]]
                    assert found[name].shape == expected.shape and found[name].a.tobytes() == expected.tobytes(), name
                with pytest.raises(SafetensorError, match="already delivered"):
                    loader.take("t9")
            outlives = f.prefetch({"long": slice(1, 3)}, device=0)
            wrong = {
                "does not contain": {"nope": None},
                "step 1": {"long": slice(0, 3, 2)},
                "invalid prefetch plan slice": {"long": slice(0, 3, 0)},
                "out of range for 5000 rows": {"long": slice(0, 5001)},
                "must be integers": {"long": slice(0.5, None)},
                "None or a slice": {"long": 3},
                "names": {3: None},
                "selects no tensors": {},
            }
            for message, bad in wrong.items():
                with pytest.raises(SafetensorError, match=message):
                    f.prefetch(bad, device="cuda:0")
            with pytest.raises(SafetensorError, match="cuda devices, not cpu"):
                f.prefetch()
        assert outlives.take("long").a.tolist() == given["long"][1:3].tolist()
        outlives.close()
        with pytest.raises(SafetensorError, match="closed|already delivered"):
            outlives.take("long")
        with pytest.raises(SafetensorError, match="File is closed"):
            f.prefetch(device="cuda:0")
    with safe_open(path, "np") as f, pytest.raises(SafetensorError, match='framework="pt"'):
        f.prefetch(device="cuda:0")


def test_prefetch_says_what_it_could_not_read(torch, tmp_path, monkeypatch):
    from holdall.safetensors import SafetensorError, _open, safe_open

    monkeypatch.setattr(_open, "Cuda", lambda device: Late())
    path = tmp_path / "a.safetensors"
    holdall.save(path, {"a": np.zeros(100_000, np.float32)})
    with safe_open(path, "pt", backend="pread") as f:
        with open(path, "r+b") as cut:
            cut.truncate(5000)
        loader = f.prefetch(device="cuda:0")
        with pytest.raises(SafetensorError):
            loader.take("a")
        with pytest.raises(SafetensorError):
            dict(loader)
        loader.close()


def test_metadata_of_a_tensor(torch, tmp_path):
    import json

    from holdall.safetensors import SafetensorError, safe_open

    path = tmp_path / "a.safetensors"
    holdall.save(path, {"b": np.zeros((2, 3), np.float32), "a": np.zeros(0), "c": np.zeros(5, np.int8)}, attributes={"k": "v"})
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    with safe_open(path, "np") as f:
        for name in f.keys():
            meta = f.get_tensor_meta(name)
            assert {"dtype": meta.dtype, "shape": meta.shape, "data_offsets": list(meta.data_offsets)} == header[name]
        with pytest.raises(SafetensorError, match="does not contain"):
            f.get_tensor_meta("nope")
