"""Tensors in byte planes: read like dense ones, in every way that dense ones are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import holdall

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.fixture
def weights(rng: np.random.Generator = np.random.default_rng(7)) -> dict[str, np.ndarray]:
    bell = rng.standard_normal((300, 700)) * 0.02
    return {
        "a": bell.astype(np.float32),
        "b": bell.astype(ml_dtypes.bfloat16),
        "c": bell.astype(np.float16),
        "d": bell.astype(np.float32).astype(np.float64),
        "n": np.arange(1000, dtype=np.int64),
        "scalar": np.float32(3.5).reshape(()),
    }


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_what_is_saved_in_planes_is_loaded(tmp_path: Path, weights: dict[str, np.ndarray]) -> None:
    path, plain = tmp_path / "planes.zt", tmp_path / "plain.zt"
    holdall.save(path, weights, encoding="planes")
    holdall.save(plain, weights)
    assert path.stat().st_size < plain.stat().st_size * 0.9
    loaded = holdall.load(path)
    assert set(loaded) == set(weights)
    for name, value in weights.items():
        assert same(loaded[name], value), name
        assert loaded[name].flags.writeable
    with holdall.open(path) as file:
        assert [file[name].layout for name in "abcd"] == ["planes.f32", "planes.bf16", "planes.f16", "planes.f64"]
        assert file["n"].layout == "dense"
        for name in "abcd":
            t, value = file[name], weights[name]
            assert str(t.dtype) == str(holdall.open(plain)[name].dtype)
            assert same(t.numpy(), value) and same(t.to_dense(), value)
            assert same(np.asarray(t), value)
            for key in (slice(3, 9), 299, slice(None, None, 7), (slice(2, 4), 5), (..., -1), [4, 2]):
                assert same(np.asarray(t[key]), np.asarray(value[key])), (name, key)
        with pytest.raises(holdall.UsageError):
            file["a"].numpy(copy=False)
        assert file["a"].stats().max == weights["a"].max()
        assert "planes.f32" in file["a"]._repr_html_()


def test_planes_are_converted_and_saved_again(tmp_path: Path, weights: dict[str, np.ndarray]) -> None:
    path, back, again = tmp_path / "planes.zt", tmp_path / "back.safetensors", tmp_path / "again.zt"
    holdall.save(tmp_path / "plain.zt", weights)
    holdall.convert(tmp_path / "plain.zt", path, encoding="planes")
    holdall.convert(path, back)
    assert all(same(holdall.load(back)[name], value) for name, value in weights.items())
    with holdall.open(path) as file:
        holdall.save(again, {name: file[name] for name in file})
    assert all(same(holdall.load(again)[name], value) for name, value in weights.items())
    halves = holdall.load(path, dtype="float16")
    assert same(halves["a"], weights["a"].astype(np.float16))
    assert holdall.verify(path)
    assert holdall.diff(tmp_path / "plain.zt", path).is_identical


def test_a_writer_collects_tensors_for_planes(tmp_path: Path, weights: dict[str, np.ndarray]) -> None:
    path = tmp_path / "w.zt"
    with holdall.Writer(path, encoding="planes") as writer:
        for name, value in weights.items():
            writer.add(name, value)
    assert all(same(holdall.load(path)[name], value) for name, value in weights.items())


def test_formats_without_planes_refuse_them(tmp_path: Path, weights: dict[str, np.ndarray]) -> None:
    for name in ("x.safetensors", "x.npz", "x.gguf"):
        with pytest.raises(holdall.UsageError) as e:
            holdall.save(tmp_path / name, {"a": weights["a"]}, encoding="planes")
        assert e.value.code == "write/not-in-format"
        assert not (tmp_path / name).exists()


def test_safetensors_opens_planes(tmp_path: Path, weights: dict[str, np.ndarray]) -> None:
    from holdall.safetensors import safe_open

    path = tmp_path / "planes.zt"
    holdall.save(path, weights, encoding="planes")
    with safe_open(path, framework="np") as file:
        for name in "ac":
            assert same(file.get_tensor(name), weights[name])
            assert same(file.get_slice(name)[2:5, 1], weights[name][2:5, 1])


def test_the_smallest_encoding_of_each_tensor(tmp_path: Path, weights: dict[str, np.ndarray]) -> None:
    rng = np.random.default_rng(5)
    arrays = {
        **weights,
        "counts": np.arange(100_000, dtype=np.int64) * 3,
        "noise": rng.integers(0, 256, 200_000, dtype=np.uint8),
    }
    plain, path, saved = tmp_path / "plain.zt", tmp_path / "smallest.zt", tmp_path / "saved.zt"
    holdall.save(plain, arrays)
    report = holdall.convert(plain, path, encoding="smallest")
    holdall.save(saved, arrays, encoding="smallest")
    assert report.in_planes >= 3 and report.compressed >= 1
    for made in (path, saved):
        assert made.stat().st_size < 0.95 * plain.stat().st_size
        with holdall.open(made) as file:
            assert file["a"].layout == "planes.f32"
            for name, array in arrays.items():
                assert file[name].numpy().tobytes() == np.ascontiguousarray(array).tobytes(), name
    with pytest.raises(holdall.UsageError, match="planes"):
        holdall.save(tmp_path / "x.safetensors", arrays, encoding="smallest")
