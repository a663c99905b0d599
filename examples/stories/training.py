"""Training: batches of two ranks, shuffled from a seed, stopped in the middle and gone on with.

    python examples/stories/training.py FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np

import holdall


def main(folder: Path) -> None:
    kind = {
        "TypeDef:Struct": ["x", "label"],
        "required": ["x", "label"],
        "properties": {"x": {"TypeDef:Tensor": {"dtype": "F32", "shape": [8]}}, "label": {"TypeDef:Uint8": True}},
    }
    x = np.arange(8000, dtype=np.float32).reshape(1000, 8)
    paths = [folder / "a.mt", folder / "b.mt"]
    for path, rows in zip(paths, (range(600), range(600, 1000))):
        records = ({"x": x[n], "label": n % 10} for n in rows)
        holdall.save(path, {"train": holdall.Dataset(records, kind)})

    seen = []
    for rank in range(2):
        batches = holdall.Batches(paths, batch=64, shuffle=1, rank=rank, ranks=2)
        for number, batch in enumerate(batches):
            seen += batch["x"][:, 0].tolist()
            if number == 2:
                break
        (folder / "state.json").write_text(json.dumps(batches.state_dict()))

        batches = holdall.Batches(paths, batch=64, shuffle=1, rank=rank, ranks=2)
        batches.load_state_dict(json.loads((folder / "state.json").read_text()))
        for batch in batches:
            seen += batch["x"][:, 0].tolist()
    assert sorted(seen) == x[:, 0].tolist()
    print(f"{len(seen)} records, each once")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
