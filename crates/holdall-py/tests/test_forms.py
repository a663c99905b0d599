"""Dense tensors made sparse or quantized on their way into another file."""

from pathlib import Path

import numpy as np
import pytest

import holdall


def test_matrices_become_sparse_and_come_back(tmp_path: Path) -> None:
    few = np.zeros((20, 30), np.float32)
    few[3, 4], few[19, 29], few[0, 0] = 1.5, -2.0, -0.0
    holdall.save(tmp_path / "a.zt", {"few": few, "full": np.ones((2, 2), np.float32)})
    report = holdall.convert(tmp_path / "a.zt", tmp_path / "b.zt", sparse="csr")
    assert [(r.name, r.form, r.max_error) for r in report.reformed] == [("few", "csr", None)]
    with holdall.open(tmp_path / "b.zt") as file:
        assert (file["few"].layout, file["full"].layout) == ("sparse_csr", "dense")
        assert file["few"].to_dense().tobytes() == few.tobytes()
    report = holdall.convert(tmp_path / "a.zt", tmp_path / "c.zt", sparse={"full": "coo"})
    assert [r.name for r in report.reformed] == ["full"]


def test_the_error_that_quantizing_makes_is_that_of_what_is_read(tmp_path: Path) -> None:
    w = np.random.default_rng(0).normal(size=(64, 96)).astype(np.float32)
    holdall.save(tmp_path / "a.zt", {"w": w, "norm": w[0].copy()})
    report = holdall.convert(tmp_path / "a.zt", tmp_path / "b.zt", quantize="group:4:32")
    (reformed,) = report.reformed
    read = holdall.load(tmp_path / "b.zt", ["w"], dense=True)["w"]
    error = np.abs(w.astype(np.float64) - read.astype(np.float64))
    assert reformed.max_error == error.max()
    assert reformed.rms_error is not None and np.isclose(reformed.rms_error, np.sqrt(np.mean(error**2)), rtol=1e-12)
    assert (reformed.name, reformed.form, reformed.from_len) == ("w", "group:4:32", w.nbytes)
    assert reformed.len < w.nbytes / 6


def test_floats_become_blocks_of_gguf(tmp_path: Path) -> None:
    w = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    holdall.save(tmp_path / "a.safetensors", {"w": w, "norm": w[0].copy(), "odd": w[:, :33].copy()})
    report = holdall.convert(tmp_path / "a.safetensors", tmp_path / "b.gguf", quantize="q8_0")
    (reformed,) = report.reformed
    assert (reformed.name, reformed.form, reformed.len) == ("w", "q8_0", 8 * 2 * 34)
    with holdall.open(tmp_path / "b.gguf") as file:
        assert {t.name: t.layout for t in file.values()} == {"w": "gguf.q8_0", "norm": "dense", "odd": "dense"}
        error = np.abs(w.astype(np.float64) - file["w"].dequantize().astype(np.float64))
    assert reformed.max_error == error.max()
    with pytest.raises(holdall.UsageError) as e:
        holdall.convert(tmp_path / "a.safetensors", tmp_path / "c.gguf", quantize={"odd": "q4_0"})
    assert e.value.code == "convert/not-formed"
    with pytest.raises(holdall.UsageError) as e:
        holdall.convert(tmp_path / "a.safetensors", tmp_path / "c.gguf", quantize="iq4_xs")
    assert e.value.code == "convert/form-rule"


def test_k_quants_are_what_gguf_reads(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    w = np.random.default_rng(0).normal(size=(6, 512)).astype(np.float32)
    w[2], w[3, :256], w[4, 7] = 0, -1.25, 900
    holdall.save(tmp_path / "a.safetensors", {"w": w})
    for of in ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k"):
        path = tmp_path / f"{of}.gguf"
        (reformed,) = holdall.convert(tmp_path / "a.safetensors", path, quantize=of).reformed
        (t,) = gguf.GGUFReader(path).tensors
        assert t.tensor_type.name.lower() == of
        read = gguf.quants.dequantize(t.data, t.tensor_type)
        with holdall.open(path) as file:
            assert file["w"].dequantize().tobytes() == read.tobytes()
        assert reformed.max_error == np.abs(w.astype(np.float64) - read).max()


def test_files_have_at_most_so_many_tensors(tmp_path: Path) -> None:
    holdall.save(tmp_path / "a.zt", {name: np.ones(4, np.float32) for name in "abcde"})
    for format, count in (("gguf", 3), ("safetensors", 4)):
        report = holdall.convert(tmp_path / "a.zt", tmp_path / format, max_shard_tensors=2, format=format)
        assert len(report.files) == count
        assert sorted(holdall.load(tmp_path / format)) == list("abcde")
    with pytest.raises(holdall.UsageError):
        holdall.convert(tmp_path / "a.zt", tmp_path / "none", max_shard_tensors=0)


def test_wrong_forms_are_refused(tmp_path: Path) -> None:
    holdall.save(tmp_path / "a.zt", {"ids": np.zeros((2, 2), np.int32)})
    for how in ({"sparse": "group:4:32"}, {"quantize": "csr"}, {"sparse": 3}):
        with pytest.raises(holdall.UsageError):
            holdall.convert(tmp_path / "a.zt", tmp_path / "b.zt", **how)  # type: ignore[arg-type]
    with pytest.raises(holdall.UsageError) as e:
        holdall.convert(tmp_path / "a.zt", tmp_path / "b.zt", quantize={"ids": "group:4:32"})
    assert e.value.code == "convert/not-formed"
    assert not (tmp_path / "b.zt").exists()


def test_models_are_written_in_several_files(tmp_path: Path) -> None:
    import json

    arrays = {name: np.full(256, at, np.float32) for at, name in enumerate("abcd")}
    holdall.save(tmp_path / "a.zt", arrays)
    for size in (2048, "2KiB"):
        report = holdall.convert(tmp_path / "a.zt", tmp_path / "model", max_shard_size=size, overwrite=True)
    index = json.loads((tmp_path / "model" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 4096
    assert index["weight_map"]["c"] == "model-00002-of-00002.safetensors"
    assert report.files[:2] == [f"model-0000{no}-of-00002.safetensors" for no in (1, 2)]
    read = holdall.load(tmp_path / "model")
    assert {name: read[name].tobytes() for name in read} == {name: x.tobytes() for name, x in arrays.items()}
    report = holdall.convert(tmp_path / "a.zt", tmp_path / "parts", max_shard_size="2KiB", format="gguf")
    assert report.files == [f"model-0000{no}-of-00002.gguf" for no in (1, 2)]
    assert holdall.load(tmp_path / "parts").keys() == arrays.keys()
    assert holdall.convert(tmp_path / "a.zt", tmp_path / "b.zt").files == []
    with pytest.raises(holdall.UsageError):
        holdall.convert(tmp_path / "a.zt", tmp_path / "x", max_shard_size="much")
    with pytest.raises(holdall.UsageError) as e:
        holdall.convert(tmp_path / "a.zt", tmp_path / "model", max_shard_size=1, overwrite=False)
    assert e.value.code == "shards/target"
