"""The package `ztensor` 2.1.2 for Python, called as interop/README.md says."""

import os
import sys

import numpy as np
import ztensor
from listing import Listing

LAYOUTS = {"zt.sparse_csr/1": "sparse_csr", "zt.sparse_coo/1": "sparse_coo"}


def layout_of(name):
    return name.removesuffix("/1") if name.startswith("gguf.") else LAYOUTS.get(name, name)


def read(path, listing):
    ztensor.verify(path, deep=True)
    with ztensor.open(path) as source:
        for name, tensor in source.items():
            # An error where a digest differs.
            tensor.verify()
            for role in tensor.parts:
                part = tensor[role]
                dtype, logical = part.dtype, part.logical
                if logical == "bool":
                    dtype, logical = "bool", None
                layout = layout_of(tensor.layout)
                listing.component(name, tensor.shape, layout, role, dtype, logical, part.tobytes())


def numbers(size):
    return bytes(i * 37 % 251 for i in range(size))


WIDTHS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1}
WIDTHS |= {"u64": 8, "u32": 4, "u16": 2, "u8": 1}
TYPES = {"f8_e4m3fn": ("u8", 1), "f8_e5m2": ("u8", 1), "f8_e4m3fnuz": ("u8", 1), "f8_e5m2fnuz": ("u8", 1)}
TYPES |= {"f8_e8m0": ("u8", 1), "f4_e2m1": ("u8", 0.5), "complex64": ("f32", 8), "complex128": ("f64", 16)}


def dense(writer, **options):
    tensors = [(dtype, dtype, None, width) for dtype, width in WIDTHS.items()]
    tensors += [(logical, dtype, logical, width) for logical, (dtype, width) in TYPES.items()]
    for name, dtype, logical, width in sorted(tensors):
        writer.add("t_" + name, numbers(int(12 * width)), [3, 4], dtype, logical=logical, **options)


def packed(codes, bits, word, order):
    """Codes one after the other in words, from their low or their high bits on."""
    per = np.dtype(word).itemsize * 8 // bits
    slots = np.arange(per, dtype=np.uint64)
    slots = slots if order == "lsb_first" else slots[::-1]
    lanes = (codes.reshape(-1, per).astype(np.uint64) & (2**bits - 1)) << (slots * np.uint64(bits))
    return np.bitwise_or.reduce(lanes, axis=1).astype(word)


def of_groups(numbers, size, axis, shape):
    """What each element has of numbers that its group has: `size` neighbours along an axis, 0 for an index of it."""
    if size == 0:
        dims = [1] * len(shape)
        dims[axis] = shape[axis]
        return np.broadcast_to(numbers.reshape(dims), shape)
    dims = [*shape]
    dims[axis] //= size
    return np.repeat(numbers.reshape(dims), size, axis=axis)


SHORT = {"float32": "f32", "float16": "f16", "uint8": "u8", "int8": "i8", "uint16": "u16", "uint32": "u32"}
SHORT |= {"uint64": "u64", "int32": "i32"}
# Shape, bits, group size, axis, words, order, scales, zero point.
GROUPS = [
    ([4, 16], 4, 8, 1, "uint32", "lsb_first", "float16", "same_as_data"),
    ([16, 4], 4, 8, 0, "uint32", "msb_first", "float32", "plain"),
    ([16, 8], 4, 4, 0, "int32", "lsb_first", "float32", "same_as_data"),
    ([4, 16], 2, 4, 1, "uint16", "msb_first", "float32", "plain"),
    ([4, 8], 8, 0, 0, "int8", "lsb_first", "float32", "none"),
    ([4, 8], 8, 0, 1, "uint8", "lsb_first", "float16", "none"),
    ([2, 3, 16], 4, 16, 2, "uint64", "lsb_first", "float32", 8),
    ([2, 4, 8], 4, 0, 0, "uint8", "msb_first", "float32", -3),
    ([32], 4, 8, 0, "uint32", "lsb_first", "float32", 7),
]


def groups(writer):
    """Quantized groups, each `x` with its elements by the formula of the profile as `x.elements`."""
    for number, (shape, bits, size, axis, word, order, dtype, zero) in enumerate(GROUPS):
        count, name = int(np.prod(shape)), f"g{number}"
        codes = (np.arange(count) * 7 + number) % 2**bits
        codes = codes.astype(np.int8).astype(np.int64) if word == "int8" else codes
        along = shape[axis]
        number_of = along if size == 0 else count // size
        scales = ((np.arange(number_of) * 5 % 11 + 1) / 4).astype(dtype)
        words = packed(codes, bits, word, order)
        parts = {
            "data": {"dtype": SHORT[word], "data": words.tobytes()},
            "scales": {"dtype": SHORT[dtype], "data": scales.tobytes()},
        }
        zeros = np.full(number_of, zero if isinstance(zero, int) else 0)
        if zero in ("plain", "same_as_data"):
            zeros = np.arange(number_of) * 3 % 2**bits
            data, of = zeros.astype(np.uint8), "u8"
            if zero == "same_as_data":
                data, of = packed(zeros, bits, word, order), SHORT[word]
            parts["zeros"] = {"dtype": of, "data": data.tobytes()}
            form = {"form": "tensor", "packing": zero}
        else:
            form = {"form": "none"} if zero == "none" else {"form": "implied", "value": zero}
        per = np.dtype(word).itemsize * 8 // bits
        attributes = {
            "bits": bits,
            "group_size": size,
            "axis": axis,
            "packing": {"word": SHORT["u" + word.removeprefix("u")], "order": order, "per_word": per},
            "scale_form": "f16_factors" if dtype == "float16" else "f32_factors",
            "zero_point": form,
            "note": "kept",
        }
        elements = codes.reshape(shape).astype(np.float32) - of_groups(zeros.astype(np.float32), size, axis, shape)
        elements = elements * of_groups(scales.astype(np.float32), size, axis, shape)
        writer.add_object(name, shape, parts, layout="zt.quant_group/1", attributes=attributes)
        writer.add(name + ".elements", elements.astype(np.float32).tobytes(), shape, "f32")


HALVES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


def small_float(mantissa, bias, special):
    """The value of each byte as an 8-bit float."""
    byte = np.arange(256)
    sign = np.where(byte & 128, np.float32(-1), np.float32(1))
    power, rest = (byte & 127) >> mantissa, byte & (2**mantissa - 1)
    one = 2.0**mantissa
    value = np.where(power == 0, rest / one * 2.0 ** (1 - bias), (1 + rest / one) * 2.0 ** (power.astype(float) - bias))
    return sign * special(power, rest, value).astype(np.float32)


E4M3 = small_float(3, 7, lambda p, m, v: np.where((p == 15) & (m == 7), np.nan, v))
E5M2 = small_float(2, 15, lambda p, m, v: np.where(p == 31, np.where(m == 0, np.inf, np.nan), v))


def mx(writer):
    """Blocks of OCP Microscaling, each `x` with its elements as `x.elements`."""
    kinds = [("f4_e2m1", "u8"), ("f8_e4m3fn", "u8"), ("f8_e5m2", "u8"), (None, "i8")]
    for number, (logical, dtype) in enumerate(kinds):
        shape, axis = ([2, 64], 1) if number % 2 == 0 else ([64, 3], 0)
        name, count = f"mx{number}", int(np.prod(shape))
        scales = (120 + np.arange(count // 32) * 3 % 17).astype(np.uint8)
        if logical == "f4_e2m1":
            codes = (np.arange(count) * 7) % 16
            data, values = packed(codes, 4, "uint8", "lsb_first"), HALVES[codes]
        else:
            # None of those that are no numbers.
            codes = (np.arange(count) * 5) % 120
            data = codes.astype(np.uint8)
            tables = {"f8_e4m3fn": E4M3, "f8_e5m2": E5M2}
            values = tables[logical][codes] if logical else (codes - 50).astype(np.float32) / 64
            data = data if logical else (codes - 50).astype(np.int8)
        powers = (2.0 ** (scales.astype(float) - 127)).astype(np.float32)
        elements = values.reshape(shape) * of_groups(powers, 32, axis, shape)
        parts = {
            "data": {"dtype": dtype, "data": data.tobytes()} | ({"logical": logical} if logical else {}),
            "scales": {"dtype": "u8", "logical": "f8_e8m0", "data": scales.tobytes()},
        }
        attributes = {"block_size": 32, "scale_form": "e8m0_exponent"} | ({} if axis else {"axis": axis})
        writer.add_object(name, shape, parts, layout="zt.mx/1", attributes=attributes)
        writer.add(name + ".elements", elements.astype(np.float32).tobytes(), shape, "f32")


def odd(writer):
    """What is rarely written: half a byte, scalars by coordinates, nothing at all, and attributes in other words than usual."""
    writer.add("f4", b"\x21\x03", [3], "u8", logical="f4_e2m1")
    writer.add("f4_scalar", b"\x05", [], "u8", logical="f4_e2m1", encoding="zt.zstd-seekable/1")
    writer.add("none", b"", [0, 4], "f32")
    parts = {"coords": {"dtype": "u64", "data": b""}, "values": {"dtype": "f32", "data": numbers(4)}}
    writer.add_object("scalar", [], parts, layout="zt.sparse_coo/1")
    parts = {"coords": {"dtype": "u32", "data": b""}, "values": {"dtype": "u8", "data": b""}}
    writer.add_object("scalar_none", [], parts, layout="zt.sparse_coo/1")
    of_groups = {"bits": 8, "packing": {"word": "u8", "order": "lsb_first", "per_word": 1}, "scale_form": "f32_factors"}
    zero = {"zero_point": {"form": "implied", "value": 0}}
    for name, shape, size, axis in [("g_vector", [4], 0, 0), ("g_cube", [2, 1, 4], 0, 0), ("g_zero", [2, 4], 2, 1)]:
        count = shape[axis] if size == 0 else 4
        parts = {
            "data": {"dtype": "u8", "data": numbers(int(np.prod(shape)))},
            "scales": {"dtype": "f32", "data": np.arange(1, count + 1, dtype=np.float32).tobytes()},
        }
        attributes = of_groups | {"group_size": size, "axis": axis} | zero
        writer.add_object(name, shape, parts, layout="zt.quant_group/1", attributes=attributes)
    parts = {
        "data": {"dtype": "i8", "data": numbers(64)},
        "scales": {"dtype": "u8", "logical": "f8_e8m0", "data": b"\x7f\x80"},
    }
    writer.add_object("mx", [2, 32], parts, layout="zt.mx/1", attributes={"block_size": 32, "axis": 1})


def write(folder):
    def path(name):
        return os.path.join(folder, name)

    with ztensor.Writer(path("python-2.1.2-canonical.zt")) as writer:
        dense(writer)
        writer.set_attributes({"n": 1, "x": 1.5, "l": [True, None, -7], "m": {"b": 1, "aa": 2}})
    with ztensor.Writer(path("python-2.1.2-groups.zt"), canonical=False, align=4096) as writer:
        groups(writer)
        mx(writer)
    with ztensor.Writer(path("python-2.1.2-odd.zt"), canonical=False, align=4096) as writer:
        odd(writer)
    with ztensor.Writer(path("python-2.1.2-encoded.zt"), canonical=False) as writer:
        dense(writer, encoding="zt.zstd-seekable/1")
        writer.add("z_long", numbers(3 << 20), [3 << 20], "u8", encoding="zt.zstd-seekable/1")
    with ztensor.Writer(path("python-2.1.2-appended.zt"), canonical=False, align=8192) as writer:
        writer.add("flags", np.array([1, 0], dtype=np.uint8), [2], "u8", logical="bool")
        indices = {"dtype": "u32", "data": np.array([0, 3, 1], dtype=np.uint32).tobytes()}
        indptr = {"dtype": "u32", "data": np.array([0, 2, 2, 3], dtype=np.uint32).tobytes()}
        values = {"dtype": "f32", "data": np.array([1, 2, 3], dtype=np.float32).tobytes()}
        parts = {"indices": indices, "indptr": indptr, "values": values}
        writer.add_object("csr", [3, 4], parts, layout="zt.sparse_csr/1")
    with ztensor.Writer(path("python-2.1.2-appended.zt"), canonical=False, append=True) as writer:
        writer.add("later", numbers(24), [3], "i64")


def main():
    if sys.argv[1:2] == ["read"]:
        read(sys.argv[2], Listing(sys.argv[3]))
    else:
        write(sys.argv[2])


main()
