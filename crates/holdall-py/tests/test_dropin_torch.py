"""`holdall.safetensors.torch` beside the package whose place it takes, where torch is installed."""

import numpy as np
import pytest

import holdall.safetensors as hs

torch = pytest.importorskip("torch")
peer = pytest.importorskip("safetensors")
pt = pytest.importorskip("safetensors.torch")
ht = pytest.importorskip("holdall.safetensors.torch")


def outcome(call):
    """What a call raises, or what it gives."""
    try:
        return call()
    except Exception as e:
        return type(e).__name__, str(e)


def bits(x):
    return bytes(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def tensors():
    torch.manual_seed(1)
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 float8_e4m3fn float8_e5m2"
    out = {name: torch.randint(0, 2, (3, 4)).to(getattr(torch, name)) for name in names.split()}
    out |= {"one": torch.tensor(1.5), "none": torch.zeros(2, 0), "a.f32": torch.ones(3), "parameter": torch.ones(2, 2)}
    out["parameter"] = torch.nn.Parameter(out["parameter"])
    return out


class Tied(torch.nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.b = torch.nn.Linear(4, 4, bias=bias)
        self.a = self.b
        self.c = torch.nn.Linear(4, 2)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_the_same_file(tmp_path, metadata):
    given = tensors()
    assert ht.save(given, metadata) == pt.save(given, metadata)
    ht.save_file(dict(reversed(given.items())), tmp_path / "a.safetensors", metadata)
    assert (tmp_path / "a.safetensors").read_bytes() == pt.save(given, metadata)
    for backend in ("mmap", "pread"):
        found = ht.load_file(tmp_path / "a.safetensors", backend=backend)
        assert list(found) == list(pt.load_file(tmp_path / "a.safetensors"))
        assert all(same(found[name], x) for name, x in given.items())
    assert all(same(x, given[name]) for name, x in ht.load(pt.save(given)).items())


def test_what_was_loaded_can_be_saved(tmp_path):
    ht.save_file(tensors(), tmp_path / "a.safetensors")
    found = ht.load_file(tmp_path / "a.safetensors")
    assert ht.save(found) == pt.save(found) == (tmp_path / "a.safetensors").read_bytes()
    next(iter(found.values())).zero_()  # They are the caller's.


W = torch.ones(3, 3)
CALLS = {
    "no dict": lambda m: m.save("x"),
    "no tensor": lambda m: m.save({"a": {"some": "thing"}}),
    "of NumPy": lambda m: m.save({"a": np.ones(1)}),
    "sparse": lambda m: m.save({"a": torch.eye(2).to_sparse(), "b": W, "c": torch.eye(2).to_sparse()}),
    "meta": lambda m: m.save({"a": W.to("meta")}),
    "none": lambda m: len(m.save({"a": torch.zeros(0), "b": torch.zeros(0)})),
    "a part": lambda m: m.save({"a": torch.ones(10)[:3]}),
    "two parts": lambda m: m.save({"a": W[1:], "b": W[:1]}),
    "backend": lambda m: m.load_file("x", backend="bad"),
    "no file": lambda m: m.load_file("not/a file"),
}


@pytest.mark.parametrize("what", CALLS)
def test_the_same_is_said(what):
    assert outcome(lambda: CALLS[what](ht)) == outcome(lambda: CALLS[what](pt))


@pytest.mark.parametrize(
    "given, error, text",
    [
        ({"a": W, "b": W}, RuntimeError, "Some tensors share memory"),
        ({"a": W, "b": W[:1]}, RuntimeError, "Some tensors share memory"),
        ({"a": W.T[:2]}, ValueError, "You are trying to save a non contiguous tensor: `a` which is not allowed"),
        ({"a": torch.ones(1).expand(5)}, ValueError, "You are trying to save a non contiguous tensor: `a`"),
    ],
)
def test_what_is_refused(given, error, text):
    for m in (ht, pt):
        with pytest.raises(error, match=text):
            m.save(given)


def test_memory_of_tensors():
    a = torch.zeros(12)
    for x in (a, a[2:5], a[::4], a.reshape(3, 4).T, torch.zeros(0), torch.zeros(2, 2, device="meta")):
        assert ht.storage_ptr(x) == pt.storage_ptr(x) and ht.storage_size(x) == pt.storage_size(x)
        assert ht._is_complete(x) == pt._is_complete(x)
    for x in (a, a[2:5], a[::4], torch.zeros(0)):
        assert ht._end_ptr(x) == pt._end_ptr(x)


def groups():
    a, m = torch.zeros(10), torch.zeros(2, 2, device="meta")
    yield {"A": a, "B": a[:1]}
    yield {"A": a[:2], "B": a[2:]}
    yield {"A": a[:2], "B": a[1:], "C": a[9:]}
    yield {"A": a[:2], "B": a[2:], "C": a[:1], "D": torch.ones(2)}
    yield {"qkv": a, "q": a[:3], "k": a[3:6], "v": a[6:9]}
    yield {"z": a, "y": a, "x": a.reshape(2, 5)}
    yield {"A": m, "B": m[:1], "C": torch.zeros(0)}


@pytest.mark.parametrize("given", list(groups()), ids=lambda g: "-".join(g))
def test_shared_memory_is_found(given):
    assert ht._find_shared_tensors(given) == pt._find_shared_tensors(given)
    names = list(given)
    for how in ({}, {"preferred_names": names[1:]}, {"discard_names": names[:1]}, {"preferred_names": names, "discard_names": names}):
        ours, theirs = (outcome(lambda: dict(m._remove_duplicate_names(given, **how))) for m in (ht, pt))
        if isinstance(theirs, tuple):
            assert ours[0] == theirs[0] == "RuntimeError" and "found no suitable name to keep" in ours[1]
        else:
            assert ours == theirs


@pytest.mark.parametrize("metadata", [None, {"k": "v"}, {"b.weight": "mine"}])
def test_save_model(tmp_path, metadata):
    model = Tied()
    given = None if metadata is None else dict(metadata)
    files = []
    for m, name in ((ht, "ours"), (pt, "theirs")):
        path = tmp_path / f"{name}.safetensors"
        m.save_model(model, path, metadata=metadata if m is ht else given)
        with hs.safe_open(path, "pt") as f:
            files.append((f.keys(), f.metadata(), {name: bits(x) for name, x in f.get_tensors().items()}))
    assert files[0] == files[1]
    assert files[0][0] == ["a.bias", "a.weight", "c.bias", "c.weight"] and files[0][1]["b.bias"] == "a.bias"
    assert metadata is None or len(metadata) == 1  # It is the caller's.


def test_one_name_more_makes_the_same_file(tmp_path):
    """Of more than one key of metadata the published package does not fix the order."""
    model = Tied(bias=False)
    ht.save_model(model, tmp_path / "ours.safetensors")
    pt.save_model(model, tmp_path / "theirs.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()


def test_load_model(tmp_path):
    path = tmp_path / "m.safetensors"
    ht.save_model(Tied(), path)
    cases = [Tied(), torch.nn.Linear(4, 2), torch.nn.Sequential(torch.nn.Linear(4, 4)), Tied(bias=False)]
    wrong = Tied()
    wrong.c = torch.nn.Linear(3, 2)
    for model in [*cases, wrong]:
        for strict in (True, False):
            ours, theirs = (outcome(lambda: m.load_model(model, path, strict=strict)) for m in (ht, pt))
            assert repr(ours) == repr(theirs)
    model = Tied()
    assert ht.load_model(model, path, backend="pread") == (set(), [])
    assert same(model.a.weight.data, ht.load_file(path)["a.weight"]) and model.a.weight is model.b.weight


def test_names_of_tied_weights_that_another_file_kept(tmp_path):
    model = Tied()
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("a.")}
    ht.save_file(state, tmp_path / "m.safetensors")
    other = Tied()
    assert ht.load_model(other, tmp_path / "m.safetensors") == (set(), [])
    assert same(other.a.weight.data, model.a.weight.data)


def test_force_contiguous(tmp_path):
    model = torch.nn.Linear(4, 3, bias=False)
    model.weight = torch.nn.Parameter(torch.arange(12.0).reshape(4, 3).T)
    for m in (ht, pt):
        with pytest.raises(ValueError, match=r"use save_model\(..., force_contiguous=True\)"):
            m.save_model(model, tmp_path / "m.safetensors", force_contiguous=False)
    ht.save_model(model, tmp_path / "ours.safetensors")
    pt.save_model(model, tmp_path / "theirs.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()


#: Keys that torch itself judges.
KEYS = [
    slice(None), (), slice(2, None, 3), slice(-3, None), slice(5, 2), slice(None, 20), 3, -1, ..., (..., 1), (0, 0), None,
    (slice(0, 4, 2), slice(1, 4, 2)), torch.tensor([1, 2]), (slice(None), [0, 2]), True, np.int64(2),
    slice(None, None, -1), slice(None, None, 0), 10, -11, (0, 0, 0), 1.5, (slice(2, None), 20), 10**12,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "complex64", "bool"])
def test_slices_are_those_of_torch(tmp_path, dtype):
    x = (torch.arange(50).reshape(10, 5) % 2).to(getattr(torch, dtype))
    pt.save_file({"a": x, "s": x[0, 0].clone()}, tmp_path / "a.safetensors")
    with hs.safe_open(tmp_path / "a.safetensors", "pt") as a, peer.safe_open(tmp_path / "a.safetensors", "pt") as b:
        for key in KEYS:
            for name in "as":
                ours, theirs = outcome(lambda: a.get_slice(name)[key]), outcome(lambda: b.get_slice(name)[key])
                if isinstance(theirs, tuple):
                    assert ours == theirs, key
                else:
                    assert same(ours, theirs), key


def test_slices_read_by_position_are_checked(tmp_path):
    pt.save_file({"a": torch.arange(50.0).reshape(10, 5)}, tmp_path / "a.safetensors")
    with (
        hs.safe_open(tmp_path / "a.safetensors", "pt", backend="pread") as a,
        peer.safe_open(tmp_path / "a.safetensors", "pt", backend="pread") as b,
    ):
        for key in (slice(1, 3), (slice(None), slice(1, 3)), 1, (slice(2, None), 20), slice(None, 20), [0, 1], -11, []):
            ours, theirs = outcome(lambda: a.get_slice("a")[key]), outcome(lambda: b.get_slice("a")[key])
            assert ours == theirs if isinstance(theirs, tuple) else same(ours, theirs)


def test_pairs(tmp_path):
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no pairs")
    x = torch.arange(8, dtype=torch.uint8).reshape(2, 4).view(torch.float4_e2m1fn_x2)
    ht.save_file({"a": x}, tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == pt.save({"a": x})
    assert same(ht.load_file(tmp_path / "a.safetensors")["a"], x)
    with hs.safe_open(tmp_path / "a.safetensors", "pt") as f:
        assert f.get_slice("a").get_shape() == [2, 8] and same(f.get_slice("a")[1], x[1])


@pytest.mark.parametrize("device", ["bad", "cpu:0", "meta", "mps:1", "cuda:x", -1, 1.5])
def test_devices(tmp_path, device):
    pt.save_file({"a": W}, tmp_path / "a.safetensors")
    ours = outcome(lambda: hs.safe_open(tmp_path / "a.safetensors", "pt", device=device))
    theirs = outcome(lambda: peer.safe_open(tmp_path / "a.safetensors", "pt", device=device))
    assert ours[0] == theirs[0] and (ours == theirs or device in ("cuda:x", 1.5, -1))


def test_another_default_device(tmp_path):
    given = {"a": W, "none": torch.zeros(0, 2)}
    pt.save_file(given, tmp_path / "a.safetensors")
    with torch.device("meta"):
        found = ht.load_file(tmp_path / "a.safetensors")
        with hs.safe_open(tmp_path / "a.safetensors", "pt", device=torch.device("cpu")) as f:
            part = f.get_slice("none")[:]
    assert all(x.device.type == "cpu" for x in (*found.values(), part)) and same(found["a"], W)


def private_kib():
    """The memory of this process that no other shares, in KiB."""
    with open("/proc/self/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("Private_Dirty", "Private_Clean")))


@pytest.mark.skipif(not __import__("os").path.exists("/proc/self/smaps_rollup"), reason="Linux")
def test_tensors_lie_over_a_private_map(tmp_path):
    path = tmp_path / "a.safetensors"
    given = {f"t{i}": torch.full((1 << 20,), float(i)) for i in range(16)}
    pt.save_file(given, path)
    stored = path.read_bytes()
    before = private_kib()
    found = ht.load_file(path)
    with hs.safe_open(path, "pt") as f:
        one, part = f.get_tensor("t3"), f.get_slice("t4")[5:9]
    # 64 MiB of tensors that were not touched take no memory.
    assert private_kib() - before < 8 << 10
    # The file is closed, and can be replaced and deleted; writes do not reach it.
    for x in (found["t3"], one, part):
        x += 1
    assert path.read_bytes() == stored
    path.unlink()
    assert all(torch.equal(x, given[name] + (name == "t3")) for name, x in found.items())
    assert one[0] == 4.0 and part.tolist() == [5.0] * 4
    # A tensor with a digest is read, and checked.
    ht_path = tmp_path / "b.zt"
    ht.save_file(given, ht_path)
    raw = bytearray(ht_path.read_bytes())
    raw[len(raw) // 2] ^= 1
    ht_path.write_bytes(raw)
    with pytest.raises(hs.SafetensorError):
        ht.load_file(ht_path)


def test_unaligned_elements_are_copied(tmp_path):
    header = b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
    header += b" " * (-(8 + len(header)) % 8 + 3)
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + np.arange(3, dtype="<f4").tobytes())
    x = ht.load_file(path)["a"]
    assert x.tolist() == [0, 1, 2] and x.data_ptr() % 4 == 0
