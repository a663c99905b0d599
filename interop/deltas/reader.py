"""Reads tensors in byte planes and applies deltas, after docs/spec/{ztensor,planes,delta}.md and without Holdall.

It shows that the pages are enough for a second implementation, and is compared with Holdall by
`crates/holdall-py/tests/test_second_reader.py`. It expects valid files, except that digests are compared.

    python interop/deltas/reader.py BASE.zt [DELTA.zt]

prints the name, type, shape and XXH3 digest of each tensor of the file, or of the delta's result.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
import zstandard

MAGIC = b"ZTEN1000"
WIDTHS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1}
WIDTHS |= {"u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1}
FLOATS = {"f64", "f32", "f16", "bf16", "f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e8m0"}
BLOCK = 1 << 20


@dataclass
class Tensor:
    """A dense tensor: little-endian elements, one after the other."""

    dtype: str
    type: str | None
    shape: list[int]
    elements: bytes

    def count(self) -> int:
        return int(np.prod(self.shape, dtype=object)) if self.shape else 1


class Cbor:
    """A decoder of CBOR (RFC 8949) for manifests in the form that Holdall writes (ztensor.md, 3.9)."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def item(self) -> Any:
        head = self.take(1)[0]
        kind, info = head >> 5, head & 31
        if kind == 7:
            if info in (20, 21, 22):
                return {20: False, 21: True, 22: None}[info]
            return np.frombuffer(self.take(1 << (info - 24)), f">f{1 << (info - 24)}")[0].item()
        number = info if info < 24 else int.from_bytes(self.take(1 << (info - 24)), "big")
        if kind == 0:
            return number
        if kind == 1:
            return -1 - number
        if kind == 2:
            return self.take(number)
        if kind == 3:
            return self.take(number).decode()
        if kind == 4:
            return [self.item() for _ in range(number)]
        if kind == 5:
            return {self.item(): self.item() for _ in range(number)}
        return self.item()  # a tag


class File:
    """A file of zTensor 1.2."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        if not (self.data.startswith(MAGIC) and self.data.endswith(MAGIC)):
            raise ValueError(f"{path} is not a file of zTensor 1.2")
        length = int.from_bytes(self.data[-16:-8], "little")
        manifest = Cbor(self.data[-16 - length : -16]).item()
        self.attributes: dict[str, Any] = manifest.get("attributes") or {}
        self.objects: dict[str, Any] = manifest["objects"]

    def component(self, name: str, role: str) -> bytes:
        """The decoded bytes of a component."""
        component = self.objects[name]["components"][role]
        stored = self.data[component["offset"] : component["offset"] + component["length"]]
        if component.get("encoding", "raw") == "raw":
            return stored
        return b"".join(frames(stored))

    def tensor(self, name: str) -> Tensor:
        """The elements of a tensor that is dense or in byte planes."""
        entry = self.objects[name]
        layout = entry["format"]
        if layout == "dense":
            component = entry["components"]["data"]
            return Tensor(component["dtype"], component.get("type"), entry["shape"], self.component(name, "data"))
        if not layout.startswith("planes."):
            raise ValueError(f"{name!r} has the layout {layout}")
        dtype = layout.removeprefix("planes.")
        planes = [self.component(name, f"p{k}") for k in range(WIDTHS[dtype])]
        return Tensor(dtype, None, entry["shape"], joined(dtype, planes))


def frames(stored: bytes) -> Iterator[bytes]:
    """The decoded frames of zstd; skippable ones, such as the seek table, give nothing."""
    while stored:
        if stored[1:4] == b"\x2a\x4d\x18" and stored[0] >> 4 == 5:
            stored = stored[8 + int.from_bytes(stored[4:8], "little") :]
            continue
        decoder = zstandard.ZstdDecompressor().decompressobj()
        yield decoder.decompress(stored)
        stored = decoder.unused_data


def joined(dtype: str, planes: list[bytes]) -> bytes:
    """Elements from their planes (planes.md, 1.3)."""
    width = WIDTHS[dtype]
    bytes_of_r = np.stack([np.frombuffer(plane, "u1") for plane in planes], axis=1)
    r = np.ascontiguousarray(bytes_of_r).view(f"<u{width}").reshape(-1)
    if dtype in ("bf16", "f16"):
        r = r >> 1 | r << 15
    elif dtype == "f32":
        upper = (r >> 16).astype("<u2")
        r = r & 0xFFFF | (upper >> 1 | upper << 15).astype("<u4") << 16
    return r.astype(f"<u{width}").tobytes()


def positions(delta: File, name: str, count: int) -> np.ndarray:
    """The elements that differ, in order (delta.md, 2.2 and 2.3)."""
    components = delta.objects[name]["components"]
    if "mask" in components:
        bits = np.frombuffer(delta.component(name, "mask"), "u1")
        return np.flatnonzero(np.unpackbits(bits, bitorder="little")[:count])
    gaps = np.frombuffer(delta.component(name, "gaps"), "u1").astype(np.int64)
    starts = np.frombuffer(delta.component(name, "starts"), "<u8").reshape(-1, 2)[:, 0].astype(np.int64)
    found = []
    for block, (start, end) in enumerate(zip(starts, [*starts[1:], len(gaps)])):
        part = gaps[start:end]
        # A gap of 255 is 255 unchanged elements; every other one ends at an element that differs.
        ends = part != 255
        steps = np.where(ends, part + 1, 255)
        found.append(block * BLOCK + np.cumsum(steps)[ends] - 1)
    return np.concatenate(found) if found else np.empty(0, np.int64)


def changed(delta: File, name: str, base: Tensor) -> bytes:
    """The elements of a tensor of layout `delta` (delta.md, 2.5)."""
    attributes = delta.objects[name]["attributes"]
    width = WIDTHS[attributes["dtype"]]
    unsigned = np.dtype(f"<u{width}")
    u = np.frombuffer(base.elements, unsigned).copy()
    at = positions(delta, name, len(u))
    planes = np.stack([np.frombuffer(delta.component(name, f"d{k}"), "u1") for k in range(width)], axis=1)
    zigzag = np.ascontiguousarray(planes).view(unsigned).reshape(-1) + unsigned.type(1)
    distance = zigzag >> unsigned.type(1) ^ (unsigned.type(0) - (zigzag & unsigned.type(1)))
    is_float = (attributes.get("type") or attributes["dtype"]) in FLOATS
    highest = unsigned.type(1 << (8 * width - 1))
    old = u[at]
    rank = np.where(old & highest, ~old, old | highest) if is_float else old
    rank = rank + distance
    u[at] = np.where(rank & highest, rank ^ highest, ~rank) if is_float else rank
    return u.tobytes()


def digest(elements: bytes, like: str) -> str:
    """The digest of elements, by the algorithm of `like`."""
    if like.startswith("sha256:"):
        return "sha256:" + hashlib.sha256(elements).hexdigest()
    return "xxh3-128:" + xxhash.xxh3_128_hexdigest(elements)


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file."""
    file = File(path)
    return {name: file.tensor(name) for name in file.objects}


def apply(base: dict[str, Tensor], delta: File) -> dict[str, Tensor]:
    """The tensors of the delta's target (delta.md, section 3)."""
    about = delta.attributes["delta"]
    result = {name: tensor for name, tensor in base.items() if name not in about.get("removed", [])}
    for name, entry in delta.objects.items():
        if entry["format"] != "delta":
            result[name] = delta.tensor(name)
            continue
        attributes, old = entry["attributes"], base[name]
        if digest(old.elements, attributes["base"]) != attributes["base"]:
            raise ValueError(f"{name!r} of the base is not what the delta was made from")
        elements = changed(delta, name, old)
        if digest(elements, attributes["target"]) != attributes["target"]:
            raise ValueError(f"{name!r} of the result has another digest than the target")
        result[name] = Tensor(attributes["dtype"], attributes.get("type"), entry["shape"], elements)
    if len(result) != about["tensors"]:
        raise ValueError(f"the result has {len(result)} tensors, not {about['tensors']}")
    return result


if __name__ == "__main__":
    tensors = read(Path(sys.argv[1]))
    if len(sys.argv) > 2:
        tensors = apply(tensors, File(Path(sys.argv[2])))
    for name, tensor in tensors.items():
        print(name, tensor.type or tensor.dtype, tensor.shape, xxhash.xxh3_128_hexdigest(tensor.elements))
