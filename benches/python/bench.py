"""Measures the Python package beside its peers, in one run and on the same files.

    python benches/python/bench.py [--size MB] [--many N] [--repeat N] [--folder DIR]

Needs holdall (a release build: `cargo xtask python --release` leaves one in `target/python-package/venv`), numpy and
safetensors; ztensor where it is installed. The files are made in the folder, and kept there for the next run. Times are
the least of `--repeat` runs, warm: every file is in the system's cache. The floor of a load is a copy of the file into
fresh memory by `readinto`.
"""

import argparse
import gc
import pathlib
import time

import numpy as np

import holdall

try:
    import safetensors
    import safetensors.numpy as peer
except ImportError:
    safetensors = peer = None
try:
    import ztensor
except ImportError:
    ztensor = None


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--size", type=int, default=1024, help="MB of the large file")
    args.add_argument("--small", type=int, default=51_000, help="tensors of the file of small ones")
    args.add_argument("--tiny", type=int, default=200_000, help="tensors of the file of tiny ones")
    args.add_argument("--repeat", type=int, default=5)
    args.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("target/bench-python"))
    args = args.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    part = rng.standard_normal(1 << 20, dtype=np.float32)
    large = {f"layers.{i}.weight": (part + np.float32(i)).reshape(1024, 1024) for i in range(args.size // 4)}
    small = {f"t.{i:06}": part[i : i + 256].copy() for i in range(args.small)}
    tiny = {f"t.{i:06}": part[i : i + 4].copy() for i in range(args.tiny)}
    files = {}
    for name, tensors in (("large", large), ("small", small), ("tiny", tiny)):
        for extension in ("safetensors", "zt"):
            path = args.folder / f"{name}-{len(tensors)}.{extension}"
            if not path.exists():
                holdall.save(path, tensors, sync=False)
            files[name, extension] = path
    del small, tiny

    def row(what, *cases):
        for who, work in cases:
            if work is None:
                continue
            best = min(timed(work) for _ in range(args.repeat))
            print(f"{what:34} {who:28} {best * 1e3:10.1f} ms", flush=True)

    for name in ("large", "small", "tiny"):
        st, zt = files[name, "safetensors"], files[name, "zt"]
        row(
            f"{name}: all to owned arrays",
            ("floor: readinto", lambda: floor(st)),
            ("holdall safetensors", lambda: holdall.load(st)),
            ("holdall zTensor, crc32c", lambda: holdall.load(zt)),
            ("safetensors", peer and (lambda: peer.load_file(st))),
            ("ztensor", ztensor and (lambda: ztensor_load(zt))),
        )
        row(
            f"{name}: list",
            ("holdall safetensors", lambda: names(st)),
            ("holdall zTensor", lambda: names(zt)),
            ("safetensors", peer and (lambda: peer_names(st))),
        )
    st, zt = files["large", "safetensors"], files["large", "zt"]
    one = "layers.3.weight"
    row(
        "open, touch every tensor",
        ("holdall, views", lambda: [t.numpy()[0, 0] for t in holdall.open(st).values()]),
        ("safetensors, slices", peer and (lambda: peer_slices(st))),
    )
    row(
        "one tensor",
        ("holdall, owned", lambda: holdall.open(st)[one].numpy(copy=True)),
        ("holdall, view summed", lambda: holdall.open(st)[one].numpy().sum()),
        ("safetensors", peer and (lambda: peer_tensor(st, one))),
    )
    row(
        "16 rows of one tensor",
        ("holdall", lambda: np.array(holdall.open(st)[one][100:116])),
        ("safetensors", peer and (lambda: peer_rows(st, one))),
    )
    out = args.folder / "out.bin"
    row(
        "save",
        ("holdall zTensor, crc32c", lambda: holdall.save(out, large, format="ztensor", sync=False)),
        ("holdall safetensors", lambda: holdall.save(out, large, format="safetensors", sync=False)),
        ("safetensors", peer and (lambda: peer.save_file(large, out))),
        ("numpy.savez", lambda: np.savez(args.folder / "out.npz", **large)),
    )


def timed(work):
    gc.collect()
    start = time.perf_counter()
    kept = work()
    end = time.perf_counter()
    del kept
    return end - start


def floor(path):
    out = np.empty(path.stat().st_size, np.uint8)
    with open(path, "rb", buffering=0) as file:
        view, done = memoryview(out), 0
        while done < len(out):
            done += file.readinto(view[done:])
    return out


def names(path):
    with holdall.open(path) as f:
        return list(f)


def peer_names(path):
    with safetensors.safe_open(path, framework="numpy") as f:
        return list(f.keys())


def peer_slices(path):
    with safetensors.safe_open(path, framework="numpy") as f:
        return [f.get_slice(name)[0:1, 0:1] for name in f.keys()]


def peer_tensor(path, name):
    with safetensors.safe_open(path, framework="numpy") as f:
        return f.get_tensor(name)


def peer_rows(path, name):
    with safetensors.safe_open(path, framework="numpy") as f:
        return f.get_slice(name)[100:116]


def ztensor_load(path):
    with ztensor.Reader(str(path)) as reader:
        return {name: np.array(reader.read_numpy(name)) for name in reader.keys()}


if __name__ == "__main__":
    main()
