"""Thousands of wrong calls: each ends in an exception or a value, never in the end of the process.

They are made in a process of their own, so that an abort is seen as a failure and not as silence.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import holdall

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__)


def odd_values():
    """What people and programs pass by mistake."""
    ro = np.zeros(4)
    ro.flags.writeable = False
    deep = []
    for _ in range(2000):
        deep = [deep]
    released = memoryview(bytearray(8))
    released.release()

    class Liar:
        def __len__(self):
            return -1

        def __index__(self):
            raise ZeroDivisionError

        def __fspath__(self):
            return 3

        def __array__(self, *a, **k):
            return "no array"

        def __iter__(self):
            raise RuntimeError

    class Endless(dict):
        def items(self):
            return [1, 2, 3]

        def keys(self):
            return [None]

    return [
        None, True, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 10**30, 1.5, float("nan"), float("inf"), 1j, "", "w", "zt",
        "a\0b", "\ud800", "x" * 100_000, b"", b"w", b"\0" * 8, b"\xff" * 100, bytearray(8), bytearray(), released,
        memoryview(b"abc"), memoryview(np.zeros((4, 4)))[::2], (), (1,), (1, 2), ("w", 1), [], [None], ["w"], ["w", 3],
        deep, {}, {"w": 1}, {1: "w"}, {"w": None}, {"w": ro}, {"w": bytearray(3)}, Endless(), set(), frozenset(["w"]),
        object(), Liar(), int, len, lambda *a: None, lambda: 0, iter([1]), range(3), slice(None), slice("a", None), ...,
        np.zeros(4), ro, np.zeros((2, 2))[:, 0], np.array(["x"]), np.array([None]), np.zeros(0), np.float32(1),
        np.dtype("f4"), np.zeros((64,) + (1,) * 10), NotImplemented, Exception(), sys, pathlib.Path("a\0b"),
        pathlib.Path("/nope/nope"), {"rank": -1}, {"rank": 2**70}, {"tensors": "x"},
    ]  # fmt: skip


def targets(folder):
    """Every function and method, opened and closed."""
    from holdall import _holdall, safetensors
    from holdall import numpy as hn

    path = folder / "a.zt"
    f, closed = holdall.open(path), holdall.open(path)
    t, dead = f["w"], closed["w"]
    closed.close()
    c = t.components["data"]
    n, b = f._native, f._native.read(0, "data")
    sets = [holdall.open(folder / "r.mt") for _ in range(2)]
    records = [part for s in sets for part in (s["r"].records(), s["r"].records()[3:1:-1], s["b"].blob())]
    natives = [_holdall.Records.open(sets[0]._native, 0), _holdall.Blob.open(sets[0]._native, 1), _holdall.Records, _holdall.Blob]
    sets[1].close()
    writers = [holdall.Writer(folder / f"w{i}.zt") for i in range(2)]
    writers[1].abort()
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model/w").write_bytes(b"w")
    holdall.carton.pack(folder / "model", runner="noop", framework_version="1", tensors={"x": np.zeros(2)})
    package, shut = (holdall.carton.open(folder / "model.carton") for _ in range(2))
    shut.close()
    model = package.load()
    packages = (holdall.carton, package, shut, package.values, package.files, model, package._native, model._native)
    out = []
    calls = (*records, *natives, *packages)
    for x in (holdall, hn, safetensors, f, closed, t, dead, c, n, b, *writers, _holdall, _holdall.File, *calls):
        for name in dir(x):
            if name in ("__class__", "__init_subclass__", "__subclasshook__", "__reduce_ex__", "__new__", "__del__"):
                continue
            if name.startswith("__") and name not in (
                "__getitem__", "__contains__", "__array__", "__dlpack__", "__eq__", "__len__", "__exit__",
            ):  # fmt: skip
                continue
            try:
                call = getattr(x, name)
            except holdall.HoldallError:
                continue
            if callable(call) and name not in ("close", "errors", "command"):
                out.append((f"{type(x).__name__}.{name}", call))
    return out


def main(folder, seed):
    import os

    os.chdir(folder)
    rng = np.random.default_rng(seed)
    values = odd_values()
    words = [
        "io", "check", "limits", "names", "dense", "threads", "progress", "format", "attributes", "encoding", "level",
        "digest", "align", "version", "tied", "overwrite", "sync", "include", "exclude", "rename", "sharing", "copy",
        "dtype", "bins", "path", "start", "stop", "make", "at", "kind", "json", "rtol", "max_version", "dl_device",
        "stream", "framework", "device", "metadata", "allow", "offline", "strict", "model", "options", "timeout", "log",
        "runner", "framework_version", "inputs", "outputs", "self_tests", "tensors", "misc", "from_toml", "links",
        "base_url", "atol", "equal_nan",
    ]  # fmt: skip
    calls, raised, odd = 0, 0, {}
    for name, call in targets(folder):
        for round in range(len(values) + 60):
            if round < len(values):
                args, named = [values[round]], {}
            else:
                args = [values[i] for i in rng.integers(0, len(values), rng.integers(0, 5))]
                named = {words[i]: values[rng.integers(0, len(values))] for i in rng.integers(0, len(words), 1)}
                named = named if rng.random() < 0.5 else {}
            # A huge number of threads or bins is a wish, not a mistake.
            if any(isinstance(v, int) and v > 10**6 for v in named.values()):
                named = {}
            calls += 1
            try:
                call(*args, **named)
            except Exception as e:
                raised += 1
                if type(e).__name__ in ("PanicException", "SystemError", "MemoryError"):
                    odd[f"{name}: {e!r}"[:300]] = (args, named)
            except BaseException as e:
                odd[f"{name}: {e!r}"[:300]] = (args, named)
    print(f"{calls} calls, {raised} exceptions")
    for text, how in odd.items():
        print("ODD", text, repr(how)[:300])
    return 1 if odd else 0


@pytest.mark.parametrize("seed", range(1, 9 if "HOLDALL_WHOLE" in os.environ else 2))
def test_wrong_calls_end_in_exceptions(tmp_path, arrays, seed):
    holdall.save(tmp_path / "a.zt", arrays)
    with holdall.open(ROOT / "corpus/accept/metatensor/made-blob-utf-8.mt") as f:
        rows = np.zeros(5, [("id", "u4"), ("at", [("x", "f4"), ("b", "?")])])
        holdall.save(tmp_path / "r.mt", {"r": rows, "b": f["b"]})
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(HERE), str(tmp_path), str(seed)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, (run.returncode, run.stdout[-3000:], run.stderr[-3000:])
    calls, _, raised, _ = run.stdout.splitlines()[-1].split()
    assert int(calls) > 5000 and int(raised) > 3000


@pytest.mark.parametrize("extension", ["zt", "mt", "safetensors"])
def test_changed_bytes_end_in_exceptions(tmp_path, arrays, extension):
    """Every byte of a small file changed, in memory: an exception or arrays, nothing else."""
    data = holdall.save_bytes({k: arrays[k] for k in ("ids", "half", "scalar")}, format=extension)
    rng = np.random.default_rng(3)
    outcomes = set()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= int(rng.integers(1, 256))
        try:
            with holdall.open(changed) as f:
                f.load()
                for t in f.values():
                    t.numpy(), t.attributes, t.components
            outcomes.add("read")
        except (holdall.HoldallError, UnicodeError) as e:
            outcomes.add(type(e).__name__)
    assert "MalformedError" in outcomes and "read" in outcomes


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), int(sys.argv[2])))
