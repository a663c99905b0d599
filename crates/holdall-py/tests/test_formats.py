"""Files of llama.cpp and of PyTorch, and models in several files."""

import json
import pickle

import numpy as np
import pytest
from conftest import ACCEPT

import holdall


def accepted(name):
    (path,) = [path for path in ACCEPT if path.name == name]
    return path


def test_blocks_of_gguf_are_numbers(tmp_path):
    with holdall.open(accepted("gguf-py_blocks.gguf")) as f:
        assert f.format == "gguf" and f.attributes["k.u8"] == 200 and f.attributes["a.str"] == ["a", "", "ccc"]
        t = f["x.q6_k"]
        assert (t.layout, t.shape) == ("gguf.q6_k", (4, 512))
        numbers = t.dequantize()
        assert numbers.shape == (4, 512) and numbers.dtype == np.float32
        with pytest.raises(holdall.UsageError):
            t.numpy()
        np.testing.assert_array_equal(f["plain.i64"].numpy(), [0, 1, 2])
    again = tmp_path / "again.gguf"
    holdall.convert(accepted("gguf-py_blocks.gguf"), again)
    assert again.read_bytes() == accepted("gguf-py_blocks.gguf").read_bytes()


def test_arrays_are_written_as_gguf(tmp_path):
    arrays = {"w": np.arange(12, dtype="f4").reshape(3, 4), "h": np.ones(5, dtype="f2")}
    holdall.save(tmp_path / "a.gguf", arrays, attributes={"general.architecture": "llama", "n": 3})
    loaded = holdall.load(tmp_path / "a.gguf")
    assert {name: a.tolist() for name, a in loaded.items()} == {name: a.tolist() for name, a in arrays.items()}
    with pytest.raises(holdall.UnsupportedError):
        holdall.save(tmp_path / "b.gguf", {"w": np.zeros(3, dtype="u2")})


def test_files_of_torch_are_read_without_torch():
    with holdall.open(accepted("torch_state.pt")) as f:
        np.testing.assert_array_equal(f["lin.bias"].numpy(), np.arange(6.0))
        w = f["lin.weight"].numpy()
        np.testing.assert_array_equal(f["row"].numpy(), w[1])
        assert f["t"].layout == "strided"
        np.testing.assert_array_equal(f["t"].to_dense(), w.T)
    with holdall.open(accepted("torch_checkpoint.pt")) as f:
        assert f.attributes["epoch"] == 7 and "model.0.weight" in f


def test_what_would_run_is_refused(tmp_path):
    (path,) = [
        path
        for path in (accepted("torch_state.pt").parents[2] / "reject" / "pytorch").iterdir()
        if path.name == "pytorch.global.system.pt"
    ]
    with pytest.raises(holdall.UnsupportedError) as e:
        holdall.open(path)
    assert e.value.code == "pytorch/global"
    with holdall.open(path, limits={"skip_unknown": True}) as f:
        assert [w.code for w in f.warnings] == ["pytorch/left-out"] and len(f) == 0


def test_a_list_of_shards_is_one_file(tmp_path):
    paths = [tmp_path / "b.safetensors", str(tmp_path / "a.safetensors")]
    holdall.save(paths[0], {"b": np.arange(3.0)})
    holdall.save(paths[1], {"a": np.ones((2, 2), np.float32), "c": np.zeros(1)})
    with holdall.open(paths) as f:
        assert list(f) == ["b", "a", "c"] and f.name == f"{paths[0]} and 1 more"
        again = pickle.loads(pickle.dumps(f))
        assert list(again) == list(f) and np.array_equal(again["a"].numpy(), np.ones((2, 2)))
    assert list(holdall.load(paths, include=["a", "b"])) == ["b", "a"]
    assert holdall.verify(paths) and not holdall.diff(paths, paths)
    holdall.convert(paths, tmp_path / "all.zt")
    assert not holdall.diff(paths, tmp_path / "all.zt")
    assert list(holdall.open(paths[:1])) == ["b"] and holdall.open(paths[:1]).name == str(paths[0])
    with pytest.raises(holdall.MalformedError) as e:
        holdall.open([*paths, paths[0]])
    assert e.value.code == "index/duplicate-name"
    with pytest.raises(holdall.NotFoundError):
        holdall.open([])
    with pytest.raises(TypeError):
        holdall.open([b"bytes of a file", 1])


def test_records_are_no_file_of_another_format(tmp_path):
    holdall.save(tmp_path / "a.mt", {"r": np.zeros(2, [("x", "<f4")])})
    with pytest.raises(holdall.UsageError) as e:
        holdall.convert(tmp_path / "a.mt", tmp_path / "a.parquet")
    assert e.value.code == "write/extension" and "to_parquet" in e.value.hint


def test_a_folder_of_shards_is_one_file(tmp_path):
    for name, tensors in [("m-1.safetensors", {"a": np.ones(2, "f4")}), ("m-2.safetensors", {"b": np.zeros(3, "f4")})]:
        holdall.save(tmp_path / name, tensors)
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        assert {name: a.tolist() for name, a in holdall.load(path).items()} == {"a": [1, 1], "b": [0, 0, 0]}


def test_zips_of_arrays_are_numpys(tmp_path):
    arrays = {"w": np.arange(12, dtype="f4").reshape(3, 4), "a/b": np.arange(3, dtype=">i8"), "t": np.asfortranarray([[1, 2], [3, 4]])}
    for name, write in (("s.npz", np.savez), ("c.npz", np.savez_compressed)):
        write(tmp_path / name, **arrays)
        for source in (tmp_path / name, (tmp_path / name).read_bytes()):
            loaded = holdall.load(source, dense=True)
            assert {name: a.tolist() for name, a in loaded.items()} == {name: a.tolist() for name, a in arrays.items()}
        with holdall.open(tmp_path / name) as f:
            assert f.format == "npz" and f["t"].layout == "strided"
            np.testing.assert_array_equal(f["w"].numpy(), arrays["w"])
            np.testing.assert_array_equal(f["a/b"].numpy(), arrays["a/b"])
            np.testing.assert_array_equal(f["t"].to_dense(), arrays["t"])
    ml_dtypes = pytest.importorskip("ml_dtypes")
    arrays["half"] = np.ones(5, dtype=ml_dtypes.bfloat16)
    holdall.save(tmp_path / "out.npz", arrays, attributes={"n": 3})
    with np.load(tmp_path / "out.npz") as read:
        np.testing.assert_array_equal(read["w"], arrays["w"])
        assert read["half"].dtype == "V2"
    with holdall.open(tmp_path / "out.npz") as f:
        assert f.attributes["n"] == 3 and f["half"].numpy().dtype == ml_dtypes.bfloat16


def test_weights_of_graphs_are_tensors(tmp_path):
    with holdall.open(accepted("onnx_all.onnx")) as f:
        assert f.format == "onnx" and f.attributes["opset_import"]["ai.onnx"] == 20
        np.testing.assert_array_equal(f["cst"].numpy(), np.arange(5))
        np.testing.assert_array_equal(f["if_1.then_branch.W"].numpy(), [1, 1])
        np.testing.assert_array_equal(f["sp2"].to_dense(), [[0, 4, 0, 0], [0, 0, 0, 0], [0, 0, 0, 5]])
    out = tmp_path / "out.safetensors"
    holdall.convert(accepted("onnx_all.onnx"), out, include=["typed_f*", "cst"])
    assert holdall.load(out)["typed_f32"].shape == (2, 4)


def test_files_of_h5py_are_read_without_h5py(tmp_path):
    with holdall.open(accepted("h5_chunked.h5")) as f:
        assert f.format == "hdf5"
        plain = f["plain"].numpy()
        assert plain.shape == (20, 30)
        for name in ("gzip", "shuffle_gzip", "fletcher32", "lzf"):
            np.testing.assert_array_equal(f[name].numpy(), plain)
        np.testing.assert_array_equal(f["gzip"][3:9], plain[3:9])
        assert (f["sparse_chunks"].numpy() == -1).any()
    with holdall.open(accepted("h5py_zipped.keras")) as f:
        assert f.attributes["keras_version"] == "3.0" and f["layers/dense/vars/0"].shape == (4, 3)
    holdall.convert(accepted("h5py_legacy.h5"), tmp_path / "a.safetensors")
    loaded = holdall.load(tmp_path / "a.safetensors")
    assert loaded["model_weights/dense/dense/kernel:0"].shape == (3, 4)


def test_files_of_ztensor_2_are_read():
    with holdall.open(accepted("ztensor-2.1.2_encoded.zt")) as f:
        assert f.format == "ztensor2"
        np.testing.assert_array_equal(f["big"].numpy(), np.arange(700000) // 5000)
    with holdall.open(accepted("ztensor-2.1.2_dense.zt")) as f:
        assert f.attributes["l"] == [1, "x", None, True]
        np.testing.assert_array_equal(f["f32"].numpy(), np.arange(6.0).reshape(2, 3))


def test_groups_of_ztensor_2_have_their_elements(tmp_path):
    with holdall.open(accepted("ztensor-2.1.2_groups.zt")) as f:
        names = [name for name in f.keys() if f[name].layout == "quantized_group"]
        assert len(names) == 13
        for name in names:
            np.testing.assert_array_equal(f[name].dequantize(), f[name + ".elements"].numpy())
        content = f.verify().content
        assert content == "sha256:c32c4fc3d05898957e5aecbd1e7015ff28f7f33ac879bfa1120155dcf9bf9a59"
        report = holdall.convert(f, tmp_path / "model", format="ztensor2", max_shard_size=2000)
        assert report.files[-1] == "model.zt" and len(report.files) > 3
    with holdall.open(tmp_path / "model") as f:
        assert f.verify().content == content


@pytest.mark.parametrize("options", [{}, {"digest": "sha256"}, {"encoding": "zstd"}, {"align": 65536, "digest": "none"}])
def test_files_of_ztensor_2_are_written(tmp_path, options):
    tensors = {"b": np.arange(700000), "a": np.array([[True, False]]), "c": np.zeros((0, 2), np.complex64)}
    path, again = tmp_path / "w.zt", tmp_path / "again.zt"
    holdall.save(path, tensors, format="ztensor2", attributes={"n": [1, {"b": 2, "a": None}]}, **options)
    holdall.convert(path, again, format="ztensor2")
    for path in (path, again):
        assert holdall.verify(path)
        with holdall.open(path) as f:
            assert f.format == "ztensor2" and f.attributes["n"] == [1, {"b": 2, "a": None}]
            for name, wanted in tensors.items():
                np.testing.assert_array_equal(f[name].numpy(), wanted)
    with pytest.raises(holdall.UnsupportedError):
        holdall.save(tmp_path / "no.zt", tensors, format="ztensor2", attributes={"": 1})


RECORDS = {
    "plain": [("id", "<u4"), ("x", "<f8"), ("ok", "?"), ("at", "<M8[ns]"), ("h", "<f2")],
    "big": [("id", ">u4"), ("x", ">f8", (2, 3)), ("c", ">c8"), ("t", ">M8[us]"), ("d", ">m8[s]"), ("u", ">U2", (2,)), ("s", "S3")],
    "aligned": np.dtype([("b", "i1"), ("x", "f8"), ("s", "S5"), ("n", [("q", "u2"), ("w", "u8")], (2,))], align=True),
    "gaps": np.dtype({"names": ["a", "b"], "formats": [">i4", "V2"], "offsets": [3, 9], "itemsize": 16}),
    "names": [(("The width", "w"), "<f4"), ("\u65e5", "<i8"), ("q'\"\\\\", "|i1"), ("z", "<c16")],
}


def _same(a, b):
    """Whether two structured arrays have the same members, bit for bit, whatever lies between them."""
    assert a.dtype.names == b.dtype.names and a.shape == b.shape
    for name in a.dtype.names:
        if a[name].dtype.names:
            _same(a[name], b[name])
        else:
            little = b[name].dtype.newbyteorder("<")
            assert a[name].dtype == little, name
            assert a[name].tobytes() == b[name].astype(little).tobytes(), name


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "deflated"])
@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
def test_structured_arrays_are_datasets(tmp_path, save):
    rng = np.random.default_rng(17)
    arrays = {}
    for name, of in RECORDS.items():
        dtype = np.dtype(of)
        arrays[name] = np.frombuffer(rng.integers(0, 64, 40 * dtype.itemsize, dtype=np.uint8).tobytes(), dtype).copy()
    arrays["plain"]["ok"] = rng.integers(0, 2, 40)
    arrays["big"]["u"] = [["a\u00e9", ""]] * 40
    # Fewer bytes when they are compressed than one record has.
    arrays["zeros"] = np.zeros(40, [("x", ">f8", (100,))])
    save(tmp_path / "a.npz", **arrays)
    for target in ("b.mt", "b.npz"):
        holdall.convert(tmp_path / "a.npz", tmp_path / target)
    for path in ("a.npz", "b.mt", "b.npz"):
        assert holdall.verify(tmp_path / path)
        with holdall.open(tmp_path / path) as f:
            for name, wanted in arrays.items():
                records = f[name].records()
                assert records.numpy().dtype == records.dtype
                _same(records.numpy(), wanted)
    back = np.load(tmp_path / "b.npz")
    for name, wanted in arrays.items():
        _same(back[name], wanted)
        np.save(tmp_path / "one.npy", wanted)
        with holdall.open(tmp_path / "one.npy") as f:
            _same(f["data"].records().numpy(), wanted)
    # Datasets of other files are structured arrays to NumPy, padding and all.
    holdall.save(tmp_path / "c.mt", {"r": arrays["aligned"][["b", "x"]]})
    holdall.convert(tmp_path / "c.mt", tmp_path / "c.npz")
    _same(np.load(tmp_path / "c.npz")["r"], arrays["aligned"][["b", "x"]])


def test_arrays_of_objects_in_fields_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([(1, None)], [("a", "i4"), ("b", "O")]), allow_pickle=True)
    with pytest.raises(holdall.UnsupportedError, match="npy/dtype|objects"):
        holdall.open(tmp_path / "o.npy")
