"""Weights: from a dict of arrays to a file, some rows of it, the same file smaller and in another format, checked.

    python examples/stories/weights.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np

import holdall
import holdall.safetensors.numpy


def main(folder: Path) -> None:
    weights = {"embed": np.arange(4000, dtype=np.float32).reshape(1000, 4), "bias": np.zeros(4, np.float32)}
    path = folder / "model.safetensors"
    holdall.safetensors.numpy.save_file(weights, path, metadata={"format": "np"})

    with holdall.open(path) as f:
        print(f"{path.name}: {len(f)} tensors, {f['embed'].shape}")
        rows = f["embed"][10:12]  # Reads these rows only.
        assert rows.tolist() == weights["embed"][10:12].tolist()

    small = folder / "model.zt"
    report = holdall.convert(path, small, encoding="zstd", digest="sha256")
    print(f"{small.name}: {small.stat().st_size} bytes of {path.stat().st_size}, {report.tensors} tensors")
    assert holdall.verify(small)
    back = holdall.load(small, include="embed")
    assert back["embed"].tobytes() == weights["embed"].tobytes()

    # A download that went wrong says what it is.
    (folder / "broken.safetensors").write_text("<html><title>Sign in</title></html>")
    try:
        holdall.open(folder / "broken.safetensors")
    except holdall.UnsupportedError as e:
        print(f"{e}\n{e.hint}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
