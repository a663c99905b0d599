"""Files that run nothing when they are loaded, of many kinds, of which a scan has to say `safe` or `no pickles`.

    python3 benign.py SCANNER [--packages FOLDER]

SCANNER is the example `scan_many` of holdall-formats. Files are written by NumPy, pandas, scikit-learn and joblib, and by torch where there is
one; FOLDER has files of any kind, an environment's `site-packages` for example, which are scanned one by one and in archives. Those that
are known not to be judged so are counted, each kind with its reason: `EXPECTED`.
"""

from __future__ import annotations

import argparse
import bz2
import collections
import datetime
import decimal
import fractions
import gzip
import io
import json
import lzma
import pathlib
import pickle
import struct
import subprocess
import sys
import tarfile
import uuid
import warnings
import zipfile
import zlib
from collections import Counter
from typing import Any, Iterator

import joblib
import numpy as np
import pandas as pd
import sklearn
from sklearn.utils import all_estimators

try:
    import torch
except Exception:  # Not installed, or without a library that it needs.
    torch = None  # type: ignore[assignment]

warnings.simplefilter("ignore")
Case = tuple[str, bytes]


def plain() -> Iterator[Any]:
    yield from [None, 1, 1 << 100, 1.5, "text", "ä" * 300, b"bytes" * 100, bytearray(b"x"), [1, [2]], (1, (2, 3)), {"a": {"b": 1}}, {1, 2}, frozenset("ab")]
    yield from [datetime.datetime.now(), datetime.timedelta(1), decimal.Decimal("1.5"), fractions.Fraction(1, 3), uuid.uuid4(), pathlib.PurePosixPath("a/b")]
    yield from [collections.OrderedDict(a=1), collections.Counter("abca"), collections.deque([1, 2]), collections.defaultdict(list, a=[1]), 1j, range(5)]
    yield ["class Foo:\n    pass\n", "cat\ndog\n", "(c) 2020", b"(function", "I1\n"]


def arrays() -> Iterator[np.ndarray]:
    rng = np.random.default_rng(1)
    for dtype in ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8", "c16", ">f4", ">i8"]:
        yield rng.integers(0, 2, (3, 4)).astype(dtype)
        yield rng.random((1000,)).astype(dtype)
    yield np.array(3.5)
    yield np.zeros((0, 3))
    yield np.asfortranarray(rng.random((5, 6)))
    yield np.array(["a", "bcd"])
    yield np.array([b"a", b"bcd"])
    yield np.array(["2020-01-01", "2021-02-03"], "M8[D]")
    yield np.array([1, 2], "m8[s]")
    yield np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    yield np.array([None, "a", 1, [1]], object)
    yield rng.random((300, 300))


def frames() -> Iterator[Any]:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [1.5, None], "d": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    yield frame
    yield frame.set_index("b")
    yield frame["a"]
    yield frame["b"].astype("category")
    yield pd.Index([1, 2, 3])
    yield pd.date_range("2020-01-01", periods=5, freq="D")
    yield pd.MultiIndex.from_product([[1, 2], ["a", "b"]])
    yield pd.DataFrame({"x": pd.array([1, None], dtype="Int64"), "y": pd.array([True, None], dtype="boolean")})
    yield pd.Timestamp("2020-01-01")
    yield pd.interval_range(0, 3)
    yield pd.Series([1, 2], index=pd.period_range("2020", periods=2, freq="M"))


def models() -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(1)
    x, y = rng.random((40, 4)), rng.integers(0, 2, 40)
    for name, cls in all_estimators():
        for trial in (y, rng.random(40), None):
            try:
                model = cls()
                model.fit(x, trial) if trial is not None else model.fit(x)
            except Exception:
                continue
            yield name, model
            break


def pickled(name: str, value: Any, protocols: range = range(2, 6)) -> Iterator[Case]:
    for protocol in protocols:
        try:
            yield f"{name}, pickle protocol {protocol}", pickle.dumps(value, protocol)
        except Exception:
            pass


def dumped(name: str, value: Any, ways: list[Any]) -> Iterator[Case]:
    for way in ways:
        out = io.BytesIO()
        try:
            joblib.dump(value, out, compress=way)
        except Exception:
            continue
        yield f"{name}, joblib {way}", out.getvalue()


WAYS = [0, 3, ("zlib", 3), ("gzip", 3), ("bz2", 3), ("lzma", 3), ("xz", 3), ("lz4", 3)]


def cases(packages: pathlib.Path | None) -> Iterator[Case]:
    for at, value in enumerate(plain()):
        yield from pickled(f"plain {at}", value, range(6))
        yield from dumped(f"plain {at}", value, WAYS[:3])
    for at, array in enumerate(arrays()):
        out = io.BytesIO()
        np.save(out, array)
        one = out.getvalue()
        yield f"array {at}", one
        yield f"array {at}, twice", one + one
        out = io.BytesIO()
        np.savez(out, a=array, b=array)
        yield f"array {at}, npz", out.getvalue()
        out = io.BytesIO()
        np.savez_compressed(out, a=array, b=array)
        yield f"array {at}, npz compressed", out.getvalue()
        yield from pickled(f"array {at}", array)
        yield from dumped(f"array {at}", {"a": array, "b": [array, 1]}, WAYS)
    for at, frame in enumerate(frames()):
        yield from pickled(f"frame {at}", frame)
        yield from dumped(f"frame {at}", frame, WAYS[:4])
        yield f"frame {at}, gzip", gzip.compress(pickle.dumps(frame))
    for name, model in models():
        yield from pickled(f"sklearn {name}", model, range(4, 6))
        yield from dumped(f"sklearn {name}", model, [0, 3])
    yield "JSON", json.dumps({"a": list(range(1000))}).encode()
    yield "PNG", b"\x89PNG\r\n\x1a\n" + bytes(100)
    yield "JPEG", b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(100)
    yield from folders()
    if torch is not None:
        yield from saved()
    if packages is None:
        return
    groups: dict[str, list[pathlib.Path]] = {}
    for path in sorted(packages.rglob("*")):
        if path.is_file() and path.stat().st_size < 20 << 20:
            groups.setdefault(path.relative_to(packages).parts[0], []).append(path)
    for group, paths in groups.items():
        for path in paths[:400]:
            yield f"file {path.relative_to(packages)}", path.read_bytes()
        some = paths[:300]
        for method, what in ((zipfile.ZIP_STORED, "stored"), (zipfile.ZIP_DEFLATED, "deflated")):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", method) as file:
                for path in some:
                    file.write(path, path.relative_to(packages))
            yield f"zip of {group}, {what}", out.getvalue()
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:") as file:
            for path in some:
                file.add(path, path.relative_to(packages))
        yield f"tar of {group}", out.getvalue()
        yield f"tar.gz of {group}", gzip.compress(out.getvalue(), 1)


def tensors() -> Iterator[Any]:
    """What people give `torch.save`."""
    for dtype in ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "float8_e4m3fn", "float8_e5m2", "uint16"]:
        if hasattr(torch, dtype):
            yield torch.zeros(3, 4).to(getattr(torch, dtype))
    whole = torch.arange(24.0).reshape(4, 6)
    yield from [whole.t(), whole[1:, ::2], {"a": whole, "b": whole[0]}, torch.tensor(1.5), torch.zeros(0, 3), whole.requires_grad_()]
    yield from [torch.nn.Parameter(torch.ones(3)), torch.ones(3, 3).to_sparse(), torch.ones(3, 3).to_sparse_csr(), torch.zeros(2, device="meta")]
    yield from [torch.quantize_per_tensor(torch.rand(4), 0.1, 3, torch.quint8), torch.quantize_per_tensor(torch.rand(4), 0.1, 0, torch.qint8)]
    yield torch.quantize_per_channel(torch.rand(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 0]), 0, torch.qint8)
    yield from [torch.Size([1, 2]), torch.float16, torch.device("cpu"), torch.ones(3)._typed_storage() if hasattr(torch.Tensor, "_typed_storage") else None]
    named = torch.ones(2)
    named.note = "an attribute"  # type: ignore[attr-defined]
    yield named
    layers = [torch.nn.Linear(4, 3), torch.nn.Conv2d(3, 4, 3), torch.nn.LSTM(3, 4), torch.nn.Embedding(5, 3), torch.nn.BatchNorm1d(3), torch.nn.MultiheadAttention(4, 2),
              torch.nn.TransformerEncoderLayer(8, 2, 16), torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))]
    for layer in layers:
        yield layer.state_dict()
        yield list(layer.parameters())
        yield {"epoch": 3, "model": layer.state_dict(), "args": argparse.Namespace(lr=0.1, name="x"), "loss": 0.5}
    for kind in ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"]:
        layer = torch.nn.Linear(4, 3)
        optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.1)
        layer(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        yield optimizer.state_dict()
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        yield {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(), "rng": torch.get_rng_state()}
    yield {"numpy": np.ones(3), "rng": np.random.get_state(), "time": datetime.datetime.now(), "path": pathlib.PurePosixPath("a")}


def saved() -> Iterator[Case]:
    """Every format that this version of torch writes, at every protocol."""
    for at, value in enumerate(tensors()):
        for protocol in range(2, 6):
            for is_zip in (True, False):
                out = io.BytesIO()
                try:
                    torch.save(value, out, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip)
                except Exception:
                    continue
                yield f"torch {at}, {'zip' if is_zip else 'legacy'}, protocol {protocol}", out.getvalue()


def folders() -> Iterator[Case]:
    """The files of a model as hubs have them, one by one and in archives."""
    files = {
        "README.md": b"---\nlicense: mit\n---\n# Model\n\ncat and dog\n",
        "config.json": json.dumps({"architectures": ["Bert"], "hidden_size": 4}, indent=2).encode(),
        "tokenizer.json": json.dumps({"model": {"vocab": {f"w{at}": at for at in range(3000)}}}).encode(),
        "merges.txt": b"#version: 0.2\nt h\nth e\n",
        "model.safetensors": struct.pack("<Q", 64) + b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(64) + bytes(8),
        "image.png": b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(4000)),
        "photo.jpg": b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(256)) * 8,
        "modeling.py": b"import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n",
        "model.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
        "weights.npy": struct.pack("<6sBBH", b"\x93NUMPY", 1, 0, 118) + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n" + bytes(8),
        "pytorch_model.bin": pickle.dumps({"a": [1.0, 2.0]}, 2),
        ".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n",
    }
    for name, data in files.items():
        yield f"folder {name}", data
        yield f"folder {name}, gzip", gzip.compress(data)
    for method, what in ((zipfile.ZIP_STORED, "stored"), (zipfile.ZIP_DEFLATED, "deflated")):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as file:
            for name, data in files.items():
                file.writestr(f"model/{name}", data)
        yield f"zip of a folder, {what}", out.getvalue()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for name, data in files.items():
            info = tarfile.TarInfo(f"model/{name}")
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    yield "tar of a folder", out.getvalue()
    yield "tar.gz of a folder", gzip.compress(out.getvalue())


CLOSED = ("packed by bzip2", "packed by xz", "packed by LZMA", "packed by LZ4")


def expected(name: str, report: dict[str, Any]) -> str | None:
    """Why a file is judged otherwise, where that is known and meant so."""
    unread, imports = report["unread"], {tuple(i) for i in report["imports"]}
    if report["verdict"] == "unknown" and unread and all(any(what in e for what in CLOSED) for e in unread):
        return "compressed by bzip2, xz, LZMA or LZ4"
    # They tell joblib to load other files, by name.
    if any(name in ("NDArrayWrapper", "ZNDArrayWrapper") for _, name in imports):
        return "of joblib before 0.10, whose arrays are in other files"
    return None


def extension(name: str) -> str:
    """How the file would be called: other scanners go by that."""
    kind = name.split(" ")[0].rstrip(",")
    if kind in ("file", "folder"):
        return pathlib.Path(name.removesuffix(", gzip")).suffix + (".gz" if name.endswith(", gzip") else "")
    known = {"zip": ".zip", "tar": ".tar", "tar.gz": ".tar.gz", "torch": ".pt", "JSON": ".json", "PNG": ".png", "JPEG": ".jpg"}
    if kind in known:
        return known[kind]
    for what, ending in (("joblib", ".joblib"), ("npz", ".npz"), ("pickle", ".pkl"), ("gzip", ".pkl.gz")):
        if what in name:
            return ending
    return ".npy"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scanner")
    parser.add_argument("--packages", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder that the files are written to, for other scanners")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    excused: Counter[str] = Counter()
    failed: list[tuple[str, Any]] = []
    some: list[Case] = []

    def scan() -> None:
        frames = b"".join(struct.pack("<I", len(data)) + data for _, data in some)
        done = subprocess.run([args.scanner], input=frames, stdout=subprocess.PIPE, check=True)
        for (name, _), line in zip(some, done.stdout.splitlines(), strict=True):
            report = json.loads(line)
            counts[report["verdict"]] += 1
            if report["verdict"] in ("safe", "no pickles"):
                continue
            why = expected(name, report)
            if why:
                excused[why] += 1
            else:
                failed.append((name, report))
        some.clear()

    for at, (name, data) in enumerate(cases(args.packages)):
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            (args.keep / f"{at:05}{extension(name)}").write_bytes(data)
        some.append((name, data))
        if len(some) >= 200 or sum(len(data) for _, data in some) > 100 << 20:
            scan()
    scan()
    for name, report in failed:
        print(name, report["verdict"], *report["blamed"][:10], *report["unread"][:2], sep="\t")
    for why, count in excused.items():
        print(f"{count:>9}  not counted: {why}")
    judged = sum(counts.values()) - sum(excused.values())
    print(f"{judged} benign files, {len(failed)} of them neither `safe` nor `no pickles`; {'with' if torch else 'without'} torch")
    for verdict, count in sorted(counts.items()):
        print(f"{count:>9}  {verdict}")
    if judged < 2000:
        sys.exit("fewer than 2,000 files")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
