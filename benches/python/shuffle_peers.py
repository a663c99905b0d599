"""The contestants of `shuffle.py`: each a process that keeps its imports, and runs the commands that it reads, one per line.

    python3 shuffle_peers.py CONTESTANT

A line is JSON, as `answer` takes it; so is each answer. Every contestant has records of `x`, so many float32, and `label`, the
record's number, which is also the first element of `x`. Which calls it uses, and why those, is said in its class.
"""

import contextlib
import gc
import itertools
import json
import os
import pathlib
import shutil
import sys
import time

from shuffle_arrow import Arrow, Lance, LanceTake, Vortex
from shuffle_base import BATCH, labels, width
from shuffle_loaders import Datasets, Floor, Holdall, HoldallProcesses, LitData, Mds

CONTESTANTS = {
    "holdall": Holdall,
    "holdall, processes": HoldallProcesses,
    "lance": Lance,
    "lance, take": LanceTake,
    "litdata": LitData,
    "mds": Mds,
    "datasets": Datasets,
    "arrow": Arrow,
    "vortex": Vortex,
    "floor": Floor,
}
#: The packages of which versions are shown, and the folder of whose files a contestant reads.
PACKAGES = {
    "holdall": "holdall",
    "lance": "pylance",
    "litdata": "litdata",
    "mds": "mosaicml-streaming",
    "datasets": "datasets",
    "arrow": "pyarrow",
    "vortex": "vortex-data",
}


class Place:
    """Where a dataset is: a folder, and the same at addresses if it is read over HTTP."""

    def __init__(self, path, cache, endpoint, key):
        self.path, self.cache, self.endpoint, self.key = pathlib.Path(path), cache, endpoint, key
        self.remote = endpoint is not None
        self.url = f"{endpoint}/-/files/{key}"


def timed(contestant, at, setting, workers, most, cap, size):
    """Seconds from opening to the last of the batches, and to the first; how many there were."""
    import torch

    start = time.perf_counter()
    # `None`: without a loader that keeps states.
    loader = contestant.batches(at, setting != "epoch", workers, None)
    done = first = at_first = rows = 0
    for batch in loader:
        x, label = batch["x"], batch["label"]
        rows += len(label)
        done += 1
        now = time.perf_counter()
        if done == 1:
            at_first, first = now, (x, label)
        if done == most or now - at_first > cap:
            break
    seconds = time.perf_counter() - start
    for x, label in (first, (x, label)):
        x, label = torch.as_tensor(x), torch.as_tensor(label)
        assert x.shape == (len(label), width(size)) and x.dtype == torch.float32, (x.shape, x.dtype)
        assert torch.equal(x[:, 0].long(), label), "an x of another record"
    return {"seconds": seconds, "first": at_first - start, "batches": done, "rows": rows}


def check_resume(contestant, at, workers, batches=6, more=4):
    """Whether a loader that goes on after some batches has the order of one that was not interrupted."""
    whole = labels(itertools.islice(contestant.batches(at, True, workers), batches + more))
    gc.collect()
    return contestant.resumed(at, workers, batches, more) == whole[batches * BATCH :]


def answer(contestant, do, path, size, count=0, setting="", workers=0, most=0, cap=0.0, cache=None, endpoint=None, key=""):
    if do == "write":
        contestant.write(pathlib.Path(path), size, count)
        return {}
    if cache:
        shutil.rmtree(cache, ignore_errors=True)
        os.makedirs(cache)
    at = Place(path, cache, endpoint, key)
    try:
        if do == "resume":
            return {"resumes": check_resume(contestant, at, workers)}
        return timed(contestant, at, setting, workers, most, cap, size)
    finally:
        gc.collect()
        if cache:
            shutil.rmtree(cache, ignore_errors=True)


def main(name):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    contestant = CONTESTANTS[name]()
    for line in sys.stdin:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                found = answer(contestant, **json.loads(line))
        except Exception as e:
            import traceback

            traceback.print_exc()
            found = {"failed": f"{type(e).__name__}: {e}"[:300]}
        print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
