"""Deltas and weight updates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import holdall
from holdall import delta

UPDATES = Path(__file__).resolve().parents[3] / "corpus" / "updates"


def models(folder: Path, count: int) -> list[Path]:
    rng = np.random.default_rng(7)
    weights: dict[str, np.ndarray] = {"a": rng.normal(size=(64, 32)).astype("f4"), "b": np.arange(100), "same": np.ones(9, "f2")}
    paths = []
    for number in range(count):
        if number:
            weights = {name: array.copy() for name, array in weights.items()}
            weights["a"][rng.integers(64), rng.integers(32)] += 1
            weights[f"new{number}"] = rng.normal(size=5)
        path = folder / f"m{number}.safetensors"
        holdall.save(path, weights)
        paths.append(path)
    return paths


def assert_same(a: Path, b: Path) -> None:
    left, right = holdall.load(a), holdall.load(b)
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name])


def test_deltas_are_made_shown_applied_and_folded(tmp_path: Path) -> None:
    base, *others = models(tmp_path, 3)
    paths = []
    for number, (old, new) in enumerate(zip([base, *others], others)):
        path = tmp_path / f"d{number}.zt"
        report = delta.make(old, new, path)
        assert (report.changed, report.whole, report.elements) == (1, 1, 1)
        paths.append(path)
    shown = delta.show(paths[0])
    assert isinstance(shown, delta.DeltaReport)
    assert {tensor.name: tensor.changed for tensor in shown.tensors} == {"a": 1, "new1": None}
    folded = tmp_path / "folded.zt"
    assert delta.fold(paths, folded).whole == 2
    result = tmp_path / "result.safetensors"
    assert delta.apply(base, folded, result).tensors == 5
    assert_same(result, others[-1])
    with pytest.raises(holdall.IntegrityError) as e:
        delta.apply(others[0], folded, tmp_path / "never.safetensors")
    assert e.value.code == "delta/base"
    with pytest.raises(holdall.IntegrityError) as e:
        delta.fold(paths[::-1], tmp_path / "never.zt")
    assert e.value.code == "delta/chain"
    with pytest.raises(holdall.TargetExistsError):
        delta.fold(paths, folded)
    assert not list(tmp_path.glob("never*"))


def test_versions_are_applied(tmp_path: Path) -> None:
    expect = json.loads((UPDATES / "versions/expect.json").read_text())
    base, updates = UPDATES / "versions/base", UPDATES / "versions/updates"
    shown = delta.show(updates)
    assert isinstance(shown, delta.UpdateReport)
    assert [(update.version, update.encoding, update.checksums) for update in shown.updates] == [
        (1, "xor", "xxh3-128"),
        (2, "xor", "blake3"),
        (3, "overwrite", "adler32"),
        (4, "whole", None),
    ]
    for good in expect["good"]:
        version = good["target_version"]
        path = tmp_path / f"{version}.safetensors"
        assert delta.apply(base, updates, path, to=version).version == version
        with holdall.open(path) as file:
            assert set(file) == set(good["sha256_of_tensor_bytes"])
    # As a delta of Holdall and back.
    one = tmp_path / "1-3.zt"
    delta.convert(updates, one, base=tmp_path / "1.safetensors", version_of_base=1, to=3)
    back = tmp_path / "back.safetensors"
    delta.apply(tmp_path / "1.safetensors", one, back)
    with holdall.open(back) as made, holdall.open(tmp_path / "3.safetensors") as expected:
        assert holdall.diff(made, expected).is_identical
    with pytest.raises(holdall.MalformedError) as e:
        delta.apply(base, UPDATES / "versions/bad/short-diff", tmp_path / "never.safetensors", to=1)
    assert e.value.code == "delta/diff-length"


def test_steps_are_converted_without_their_base(tmp_path: Path) -> None:
    source = UPDATES / "steps/v1/deltas/step_000002.safetensors"
    path = tmp_path / "gap.safetensors"
    report = delta.convert(source, path, layout="trl-v2-gap")
    assert (report.changed, report.elements) == (2, 850)
    golden = UPDATES / "steps/v2-gap_delta/deltas/step_000002.safetensors"
    assert holdall.diff(path, golden).is_identical
    with pytest.raises(holdall.UsageError) as e:
        delta.convert(source, tmp_path / "never", layout="slime-xor")
    assert e.value.code == "delta/needs-base"
    with pytest.raises(holdall.UsageError):
        delta.convert(source, tmp_path / "never", layout="slime")  # type: ignore[arg-type]


def test_versions_are_for_weight_updates_only(tmp_path: Path) -> None:
    base, target = models(tmp_path, 2)
    path, never = tmp_path / "d.zt", tmp_path / "never.safetensors"
    delta.make(base, target, path)
    for versions in ({"to": 3}, {"version_of_base": 0}):
        with pytest.raises(holdall.UsageError, match="one base"):
            delta.apply(base, path, never, **versions)
        with pytest.raises(holdall.UsageError, match="one base"):
            delta.convert(path, tmp_path / "never", layout="trl-v1", base=base, **versions)
    assert not never.exists() and not (tmp_path / "never").exists()


def test_a_target_is_opened_without_being_written(tmp_path: Path) -> None:
    base, target = models(tmp_path, 2)
    delta.make(base, target, tmp_path / "d.zt")
    with delta.open_target(base, tmp_path / "d.zt") as opened, holdall.open(target) as expected:
        assert sorted(opened) == sorted(expected)
        for name in expected:
            a, b = opened[name], expected[name]
            assert a.shape == b.shape and a.dtype == b.dtype
            assert np.asarray(a[:2]).tobytes() == np.asarray(b[:2]).tobytes(), name
            assert a.numpy().tobytes() == b.numpy().tobytes(), name
    with pytest.raises(holdall.MalformedError) as e:
        delta.open_target(base, target)
    assert e.value.code == "delta/not-a-delta"
