"""torch itself, where it is installed: every type bit for bit, beside what safetensors reads and writes.

Without torch this file is skipped, and `test_torch_stand_in` holds as much as can be held without it.
"""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import holdall
import holdall.safetensors
import holdall.torch as ht

torch = pytest.importorskip("torch")
peer = pytest.importorskip("safetensors.torch")

NAMES = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex64 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
)
DTYPES = [getattr(torch, name) for name in NAMES.split() if hasattr(torch, name)]


def bits(t):
    """A tensor's bytes, row-major."""
    return bytes(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def some(dtype, *shape):
    """Elements of every bit pattern, or of 0 and 1 where the type has no other."""
    width = torch.empty((), dtype=dtype).element_size()
    count = int(np.prod(shape)) * width
    raw = np.random.default_rng(7).integers(0, 2 if dtype == torch.bool else 256, count, np.uint8)
    return torch.from_numpy(raw).view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def tensors():
    out = {}
    for dtype in DTYPES:
        name = str(dtype).partition(".")[2]
        out[f"{name}.matrix"] = some(dtype, 6, 4)
        out[f"{name}.turned"] = some(dtype, 6, 4).T
        out[f"{name}.step"] = some(dtype, 9)[1::2]
        out[f"{name}.none"] = some(dtype, 0, 4)
        if name != "float4_e2m1fn_x2":
            out[f"{name}.one"] = some(dtype, 1).reshape(())
    out["expanded"] = torch.ones(1).expand(5)
    out["parameter"] = torch.nn.Parameter(torch.ones(2, 2))
    return out


@pytest.fixture(params=["zt", "mt", "safetensors"])
def path(request, tmp_path):
    path = tmp_path / f"a.{request.param}"
    ht.save_file(tensors(), path)
    return path


def test_every_type_there_and_back(path):
    given = tensors()
    with holdall.open(path) as f:
        each = {name: t.torch() for name, t in f.items()}
        by_pt = {}
        with holdall.safetensors.safe_open(path, framework="pt") as s:
            by_pt = s.get_tensors()
    for found in (ht.load_file(path), ht.load(path.read_bytes()), each, by_pt):
        assert set(found) == set(given)
        for name, x in given.items():
            assert same(found[name], x), name
            assert found[name].is_contiguous()
            if x.numel():
                found[name].reshape(-1).view(torch.uint8).zero_()  # It is nobody else's.
    assert all(same(x, given[name]) for name, x in ht.load_file(path).items())


def test_each_reads_what_safetensors_writes_and_the_other_way_round(tmp_path):
    given = {name: x.contiguous() for name, x in tensors().items()}
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    ht.save_file(given, ours, metadata={"k": "v"})
    peer.save_file(given, theirs, metadata={"k": "v"})
    for found in (peer.load_file(ours), ht.load_file(theirs), ht.load(peer.save(given))):
        assert set(found) == set(given)
        assert all(same(found[name], x) for name, x in given.items())
    # From bytes it reads fewer types than from files.
    known = {name: x for name, x in given.items() if not name.startswith(("float8_e8m0", "float4"))}
    assert all(same(x, known[name]) for name, x in peer.load(ht.save(known)).items())
    with holdall.open(theirs) as a, holdall.open(ours) as b:
        assert {n: (t.dtype, t.shape) for n, t in a.items()} == {n: (t.dtype, t.shape) for n, t in b.items()}


def test_views_share_memory_and_torch_warns(tmp_path):
    w = torch.arange(12.0).reshape(3, 4)
    holdall.save(tmp_path / "a.zt", {"w": w, "h": w.to(torch.bfloat16), "f": w.to(torch.float8_e4m3fn)})
    f = holdall.open(tmp_path / "a.zt", io="map")
    a = f["w"].numpy()
    for make in (torch.from_dlpack, torch.as_tensor, torch.asarray):
        with pytest.warns(UserWarning, match="writing to it ends the process") as seen:
            view = make(f["w"])
        assert all(w.filename == __file__ for w in seen)
        assert view.data_ptr() == a.__array_interface__["data"][0]
        assert torch.equal(view, w)
    with pytest.warns(UserWarning):
        assert torch.equal(torch.from_dlpack(f["h"]), w.to(torch.bfloat16))
        assert same(torch.from_dlpack(f["f"]), w.to(torch.float8_e4m3fn))
    with pytest.warns(UserWarning, match="not writable"):
        assert torch.from_numpy(a).data_ptr() == view.data_ptr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.from_dlpack(f["w"])
        for own in (f["w"].torch(), torch.from_dlpack(f["w"].numpy(copy=True)), torch.from_dlpack(f["w"].to_dense())):
            own += 1
        with holdall.open(tmp_path / "a.zt", io="read") as read:
            assert torch.equal(torch.from_dlpack(read["w"]), w)
    f.close()
    assert torch.equal(view, w)


def test_torch_lends_its_memory(tmp_path):
    w = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    holdall.save(tmp_path / "a.zt", {"w": w, "i": torch.arange(4)})
    out = {"w": torch.zeros_like(w), "i": torch.zeros(4, dtype=torch.int64, requires_grad=False)}
    pointers = [x.data_ptr() for x in out.values()]
    holdall.load_into(tmp_path / "a.zt", out)
    assert same(out["w"], w) and same(out["i"], torch.arange(4))
    assert [x.data_ptr() for x in out.values()] == pointers
    parameter = torch.nn.Parameter(torch.zeros(2, 3, dtype=torch.bfloat16))
    holdall.open(tmp_path / "a.zt")["w"].read_into(parameter)
    assert same(parameter, w)
    for wrong in (torch.zeros(3, 2, dtype=torch.bfloat16).T, torch.zeros(2, 3), torch.zeros(2, 3, device="meta")):
        with pytest.raises(holdall.UsageError):
            holdall.load_into(tmp_path / "a.zt", {"w": wrong})


def test_tied_weights(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

    model, other = Model(), Model()
    with pytest.raises(RuntimeError):
        peer.save_file(model.state_dict(), tmp_path / "refused.safetensors")
    for extension in ("safetensors", "zt", "mt"):
        path = tmp_path / f"a.{extension}"
        ht.save_model(model, path)
        assert not torch.equal(other.head.weight, model.head.weight)
        missing, unexpected = ht.load_model(other, path)
        assert not missing and not unexpected
        assert other.head.weight is other.embed.weight and same(other.head.weight, model.head.weight)
        other = Model()
        holdall.save(path, model.state_dict())
        with holdall.open(path) as f:
            shared = f["embed.weight"].location == f["head.weight"].location
        assert shared == (extension != "safetensors")
        halves = {"all": model.embed.weight, "rows": model.embed.weight[:2]}
        holdall.save(path, halves)
        assert all(same(x, halves[name]) for name, x in ht.load_file(path).items())


def test_lazy_bits_are_resolved(tmp_path):
    c = torch.tensor([1 + 2j, 3 - 4j])
    given = {"conjugate": c.conj(), "negative": c.conj().imag}
    assert c.conj().is_conj() and c.conj().imag.is_neg()
    holdall.save(tmp_path / "a.zt", given)
    found = holdall.load(tmp_path / "a.zt")
    assert found["conjugate"].tolist() == [1 - 2j, 3 + 4j] and found["negative"].tolist() == [-2, 4]


def test_what_cannot_be_stored(tmp_path):
    hybrid = torch.sparse_coo_tensor([[0, 1]], torch.ones(2, 3), (2, 3))
    wrong = {
        "python/tensor": [torch.ones(2, device="meta"), torch.ones(2, 2).to_sparse().to("meta")],
        "python/layout": [hybrid, torch.ones(2, 3, 4).to_sparse_csr(), torch.ones(2, 2).to_mkldnn()],
        "python/dtype": [torch.ones(2, dtype=torch.complex32)],
    }
    for code, values in wrong.items():
        for value in values:
            with pytest.raises(holdall.UnsupportedError) as e:
                holdall.save(tmp_path / "a.zt", {"w": value})
            assert e.value.code == code, value
    assert not (tmp_path / "a.zt").exists()


def test_types_that_torch_lacks(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with holdall.Writer(tmp_path / "a.zt") as w:
        w.add("six", np.zeros(4, ml_dtypes.float6_e2m3fn))
        w.add("odd", np.zeros((2, 3), ml_dtypes.float4_e2m1fn))
    with holdall.open(tmp_path / "a.zt") as f:
        for t in f.values():
            with pytest.raises(holdall.UnsupportedError) as e:
                t.torch()
            assert e.value.code == "python/dtype"


def test_strides_of_dimensions_of_one_element(tmp_path):
    given = {
        "turned": torch.nn.Linear(5, 1).weight.T.detach(),
        "step": torch.arange(10.0)[::10],
        "half": torch.randn(1, 5).bfloat16().T,
        "bytes": torch.arange(10, dtype=torch.uint8)[::10],
        "part": torch.randn(5, 2)[:1].T[1:],
        "scalar": torch.tensor(3.0),
        "none": torch.zeros(0, 3),
        "last": torch.ones(1, 3, 4, 4).to(memory_format=torch.channels_last),
    }
    from holdall.safetensors.torch import save_file

    holdall.save(tmp_path / "a.zt", given)
    ht.save_file(given, tmp_path / "a.safetensors")
    save_file({name: x.clone(memory_format=torch.preserve_format) for name, x in given.items() if name != "last"}, tmp_path / "b.safetensors")
    for path in tmp_path.iterdir():
        found = ht.load_file(path)
        for name in found:
            assert torch.equal(found[name], given[name]) and found[name].dtype == given[name].dtype, (path, name)
    into = torch.zeros(1, 10)[:, ::10]
    holdall.load_into(tmp_path / "a.zt", {"step": into.reshape(-1)})
    assert into.item() == 0.0


def test_views_of_checkpoints(tmp_path):
    w = torch.arange(24.0).reshape(2, 3, 4)
    given = {"turned": w.permute(2, 0, 1), "step": w[:, ::2, 1::2], "half": w.T.bfloat16().T, "whole": w}
    torch.save(given, tmp_path / "a.pt")
    for found in (ht.load_file(tmp_path / "a.pt"), {n: t.torch() for n, t in holdall.open(tmp_path / "a.pt").items()}):
        for name, x in given.items():
            assert torch.equal(found[name], x) and found[name].dtype == x.dtype, name
            found[name].add_(1)
    found = holdall.load(tmp_path / "a.pt")
    assert np.array_equal(found["turned"], given["turned"].numpy())
    with holdall.open(tmp_path / "a.pt") as f:
        assert torch.equal(torch.from_dlpack(f["turned"]), given["turned"])
        assert np.array_equal(f["step"][1], given["step"][1].numpy())
        holdall.save(tmp_path / "b.zt", f)
    assert np.array_equal(holdall.load(tmp_path / "b.zt")["step"], given["step"].numpy())


def test_training_checkpoints(tmp_path):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    given = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "rng": (torch.get_rng_state(), np.random.default_rng(1).bit_generator.state["state"]["state"], np.arange(3)),
        "epoch": 3,
        "best": None,
        "loss": [0.5, float("inf")],
    }
    for format in ("ztensor", "ztensor2"):
        path = tmp_path / f"{format}.zt"
        holdall.save(path, given, format=format)
        found = ht.load_file(path)
        assert list(found) == list(given) and found["epoch"] == 3 and found["best"] is None and found["loss"] == given["loss"]
        assert type(found["model"]) is type(given["model"]) and list(found["model"]) == list(given["model"])
        assert all(torch.equal(found["model"][name], x) for name, x in given["model"].items())
        assert found["optimizer"]["param_groups"] == given["optimizer"]["param_groups"]
        assert list(found["optimizer"]["state"]) == list(given["optimizer"]["state"])
        for at, state in given["optimizer"]["state"].items():
            for name, x in state.items():
                assert torch.equal(found["optimizer"]["state"][at][name], x)
        assert found["schedule"] == given["schedule"]
        assert type(found["rng"]) is tuple and torch.equal(found["rng"][0], given["rng"][0]) and found["rng"][1] == given["rng"][1]
        assert isinstance(found["rng"][2], np.ndarray)
        assert holdall.open(path)["optimizer.state.0.exp_avg"].shape == (3, 4)
        assert isinstance(holdall.load(path)["model"]["0.weight"], np.ndarray)
        again = torch.optim.AdamW(model.parameters(), lr=1.0)
        again.load_state_dict(found["optimizer"])
        assert again.param_groups[0]["lr"] == 1e-3
        model.load_state_dict(found["model"])
    with pytest.raises(TypeError, match="`model`.*Sequential"):
        holdall.save(path, {"model": model, "epoch": 3})


def test_devices(tmp_path):
    holdall.save(tmp_path / "a.zt", {"w": torch.ones(3), "s": torch.eye(2).to_sparse_csr()})
    for name, x in ht.load_file(tmp_path / "a.zt", device="meta").items():
        assert x.device.type == "meta", name
    assert holdall.open(tmp_path / "a.zt")["w"].torch("meta").shape == (3,)
    with pytest.raises((RuntimeError, TypeError)):
        holdall.open(tmp_path / "a.zt")["w"].torch("nowhere")


SPARSE = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
ENTRIES = [[0, 1, 0], [2, 0, 3], [0, 0, 0]]


@pytest.mark.parametrize("dtype", [*SPARSE, torch.complex64], ids=str)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_there_and_back(tmp_path, dtype):
    d = torch.tensor(ENTRIES).to(dtype)
    given = {
        "csr": d.to_sparse_csr(),
        "coo": d.to_sparse(),
        "csc": d.to_sparse_csc(),
        "bsr": d.to_sparse_bsr((1, 1)),
        "cube": torch.stack([d, d]).to_sparse(),
        "none": torch.zeros(3, 4, dtype=dtype).to_sparse(),
        "no-rows": torch.zeros(0, 4, dtype=dtype).to_sparse_csr(),
    }
    holdall.save(tmp_path / "a.zt", {**given, "dense": d})
    found = ht.load_file(tmp_path / "a.zt")
    with holdall.open(tmp_path / "a.zt") as f:
        assert list(found) == list(f)
        assert {n: t.layout for n, t in f.items() if t.layout != "sparse_coo"} == {
            "csr": "sparse_csr", "no-rows": "sparse_csr", "dense": "dense",
        }  # fmt: skip
        assert f.verify()
        for name, x in given.items():
            for y in (found[name], f[name].torch()):
                assert y.layout == x.layout, name
                assert y.dtype == x.dtype and y.shape == x.shape, name
                assert torch.equal(y.to_dense(), x.to_dense()), name
                assert y.layout != torch.sparse_coo or y.is_coalesced(), name


@pytest.mark.filterwarnings("ignore:Sparse")
def test_blocks_of_sparse_tensors(tmp_path):
    d = torch.zeros(4, 6)
    d[0, 1], d[3, 5], d[2, 4] = 1.0, 2.0, 3.0
    given = {"bsr": d.to_sparse_bsr((2, 3)), "bsc": d.to_sparse_bsc((2, 3)), "csc": d.to_sparse_csc()}
    holdall.save(tmp_path / "a.zt", given)
    for name, x in ht.load_file(tmp_path / "a.zt").items():
        assert x.layout == given[name].layout and torch.equal(x.to_dense(), d)
        if name != "csc":
            assert x.values().shape == given[name].values().shape
    with holdall.Writer(tmp_path / "b.zt") as w:
        w.add("x", d.to_sparse(), {"torch.layout": "sparse_bsr", "torch.block": [0, 5]})
        w.add("y", d.to_sparse(), {"torch.layout": 3})
    for x in ht.load_file(tmp_path / "b.zt").values():
        assert x.layout == torch.sparse_coo and torch.equal(x.to_dense(), d)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_entries_in_any_order_and_twice(tmp_path):
    twice = torch.sparse_coo_tensor([[1, 1, 0], [2, 2, 0]], torch.tensor([1.0, 2, 5]), (2, 3))
    small = torch.ones(3).to(torch.float8_e4m3fn)
    with holdall.Writer(tmp_path / "a.zt") as w:
        w.add("twice", twice)
        w.add_csr("turned", (2, 3), [0, 2, 3], [2, 0, 1], np.arange(1, 4, dtype=np.float32))
        w.add_csr("summed", (2, 3), [0, 2, 3], [2, 2, 1], np.ones(3, np.float32))
        w.add_csr("small", (2, 3), [0, 2, 3], [0, 2, 1], small)
        w.add_csr("small-twice", (2, 3), [0, 2, 3], [2, 2, 1], small)
        w.add_csr("outside", (2, 3), [0, 2, 3], [2, 3, 1], np.ones(3, np.float32))
        w.add_csr("nothing", (2, 3), [0, 0, 0], [], np.ones(0, np.float32))
        w.add_quantized(
            "q", (2, 8), np.zeros((2, 1), np.int32), np.ones((2, 1), np.float16),
            attributes={"bits": 4, "group_size": 8, "packing": "8_per_i32"},
        )  # fmt: skip
    with holdall.open(tmp_path / "a.zt") as f:
        assert not f["twice"].torch().is_coalesced()
        for name in ("twice", "turned", "summed", "nothing"):
            assert f[name].torch().to_dense().tolist() == f[name].to_dense().tolist(), name
        assert f["turned"].torch().layout == torch.sparse_csr
        assert bits(f["small"].torch().values()) == bits(small)
        with pytest.raises(holdall.UnsupportedError) as e:
            f["small-twice"].torch()
        assert e.value.tensor == "small-twice"
        with pytest.raises(holdall.MalformedError) as e:
            f["outside"].torch()
        assert e.value.code == "sparse/index-bounds"
        with pytest.raises(holdall.UsageError):
            f["q"].torch()
    with pytest.warns(UserWarning, match="3 tensors could not be loaded"):
        found = ht.load_file(tmp_path / "a.zt")
    assert set(found) == {"twice", "turned", "summed", "small", "nothing"}
    assert set(found.faults) == {"q", "small-twice", "outside"}
    with pytest.raises(holdall.UnsupportedError) as e:
        found["q"]
    assert e.value.tensor == "q"
    with pytest.raises(holdall.UnsupportedError) as e:
        holdall.save(tmp_path / "a.safetensors", {"s": twice})
    assert e.value.code == "safetensors/layout"


def test_pickles_are_not_needed_to_cross_processes(tmp_path):
    """A loader's workers open the file by its path, whichever way they are started."""
    code = """
import sys, torch, holdall
class Rows(torch.utils.data.Dataset):
    def __init__(self, path): self.path, self.file = path, None
    def __len__(self): return 8
    def __getitem__(self, i):
        self.file = self.file or holdall.open(self.path)
        return torch.from_numpy(self.file["w"][i].copy())
def main(how):
    loader = torch.utils.data.DataLoader(Rows(sys.argv[1]), 4, num_workers=2, multiprocessing_context=how)
    assert torch.equal(torch.cat(list(loader)), torch.arange(24.0).reshape(8, 3)), how
if __name__ == "__main__":
    main(sys.argv[2])
"""
    (tmp_path / "rows.py").write_text(code)
    holdall.save(tmp_path / "a.zt", {"w": torch.arange(24.0).reshape(8, 3)})
    for how in ("fork", "spawn") if sys.platform.startswith("linux") else ("spawn",):
        command = [sys.executable, str(tmp_path / "rows.py"), str(tmp_path / "a.zt"), how]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr[-2000:]


def test_a_real_model(tmp_path):
    """The weights that `test_safetensors.test_a_real_model` reads too."""
    from conftest import real_model

    path = real_model()
    expected = peer.load_file(path)
    holdall.convert(path, tmp_path / "model.zt", encoding="zstd", level=1, sync=False)
    ht.save_file(expected, tmp_path / "model.safetensors")
    for source in (path, tmp_path / "model.zt", tmp_path / "model.safetensors"):
        found = ht.load_file(source)
        assert set(found) == set(expected) and len(expected) > 100
        assert all(same(found[name], x) for name, x in expected.items())
    assert all(same(x, expected[name]) for name, x in peer.load_file(tmp_path / "model.safetensors").items())


@pytest.mark.parametrize("mmap", [False, True])
def test_torch_maps_what_is_written(tmp_path, mmap):
    some = {name: t for name, t in tensors().items() if "float4" not in name}
    some["tied"] = some["float32.matrix"]
    some[""], some["a.b/ç"] = torch.ones(2), torch.zeros(3, dtype=torch.uint16)
    source, target = tmp_path / "x.zt", tmp_path / "x.pt"
    torch.save(some, tmp_path / "w.pt")
    holdall.convert(tmp_path / "w.pt", source)
    holdall.convert(source, target)
    back = torch.load(target, weights_only=True, mmap=mmap)
    assert back.keys() == some.keys()
    for name, t in some.items():
        assert same(back[name], t), name
    assert back["tied"].untyped_storage().data_ptr() == back["float32.matrix"].untyped_storage().data_ptr()
    # What torch makes of it is read as the same again.
    torch.save(back, tmp_path / "y.pt")
    assert not holdall.diff(tmp_path / "y.pt", target)
    assert holdall.scan(target)


def test_views_in_files_of_torch_are_edited_as_they_are(tmp_path):
    path = tmp_path / "x.pt"
    matrix = some(torch.float32, 6, 4)
    torch.save({"a": matrix, "turned": matrix.T, "step": matrix[:, ::2]}, path)
    holdall.convert(path, tmp_path / "copy.pt")
    back = torch.load(tmp_path / "copy.pt", weights_only=True, mmap=True)
    assert same(back["turned"], matrix.T) and same(back["step"], matrix[:, ::2])
