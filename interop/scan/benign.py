"""Files that run nothing when they are loaded, of many kinds, of which a scan has to say `safe` or `no pickles`.

    python3 benign.py SCANNER [--packages FOLDER]

SCANNER is the example `scan_many` of holdall-formats. Files are written by NumPy, pandas, scikit-learn and joblib; FOLDER has files of
any kind, an environment's `site-packages` for example, which are scanned one by one and in archives.
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


def is_closed(name: str) -> bool:
    """Whether it is compressed in a way that is not opened, or has an array of objects from joblib: both are `unknown`."""
    return any(way in name for way in ("'bz2'", "'lzma'", "'xz'", "'lz4'"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scanner")
    parser.add_argument("--packages", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder that the files are written to, for other scanners")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    failed: list[tuple[str, Any]] = []
    some: list[Case] = []

    def scan() -> None:
        frames = b"".join(struct.pack("<I", len(data)) + data for _, data in some)
        done = subprocess.run([args.scanner], input=frames, stdout=subprocess.PIPE, check=True)
        for (name, _), line in zip(some, done.stdout.splitlines(), strict=True):
            said = json.loads(line)
            counts[said["verdict"]] += 1
            if said["verdict"] not in ("safe", "no pickles") and not (said["verdict"] == "unknown" and is_closed(name)):
                failed.append((name, said))
        some.clear()

    for at, (name, data) in enumerate(cases(args.packages)):
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            (args.keep / f"{at:05}.bin").write_bytes(data)
        some.append((name, data))
        if len(some) >= 200 or sum(len(data) for _, data in some) > 100 << 20:
            scan()
    scan()
    for name, said in failed:
        print(name, said["verdict"], *[".".join(i) for i in said["imports"]][:40], *said["unread"][:2], sep="\t")
    print(f"{sum(counts.values())} files: {dict(counts)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
