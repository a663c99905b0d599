"""Arrow types that records have no kind for: stored as other types, and restored when the records are read as Arrow.

The schema of a member names its Arrow type where the kind does not express it, in keywords that are annotations: other
readers see the stored values.

- ``arrow.type``: the format string of the type in Arrow's C data interface.
- ``arrow.dictionary``: the format string of the indices of a dictionary column, and ``arrow.ordered``.
- ``arrow.categories``: the values of an ordered dictionary column that are not texts, as texts, in their order.
- ``arrow.decimal`` and ``arrow.map``: decimals and maps, as the command writes them too.
- ``arrow.nullable``: a member that could be null, although no record lacks it.
- ``arrow.nulls``: a list with nulls. Its elements are structs with one optional member, ``value``.
- ``arrow.extension``: the name of an extension type, and ``arrow.extension.metadata``.
"""

from __future__ import annotations

import importlib
import json
import re
from typing import Any

from ._packages import package
from .errors import UnsupportedError

__all__ = [
    "VALUE",
    "add_categories",
    "annotate",
    "declared_format",
    "dictionary",
    "extension",
    "has_nulls",
    "restored",
    "stored",
    "stored_type",
]

#: The member that holds an element of a list with nulls.
VALUE = "value"

_UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}
#: Format strings that a kind can be restored to, by kind.
_KNOWN = {
    "datetime64[ns]": re.compile(r"ts[smun]:[^\0]*|td[Dm]"),
    "int32": re.compile(r"tt[sm]"),
    "int64": re.compile(r"tt[un]|tD[smun]"),
    "string": re.compile(r"u|vu|n|d:\d{1,3},-?\d{1,4}(,(32|64|128|256))?"),
    "bytes": re.compile(r"z|vz|w:[1-9]\d{0,8}"),
    "array": re.compile(r"\+l|\+m"),
}
_INDICES = {"int8": "c", "uint8": "C", "int16": "s", "uint16": "S", "int32": "i", "uint32": "I", "int64": "l", "uint64": "L"}


def declared_format(node: Any, kind: str) -> str | None:
    """Returns the format string that the schema of a member of this kind names, if it is one for the kind."""
    found = node.get("arrow.type") if isinstance(node, dict) else None
    known = _KNOWN.get(kind)
    if found is None and isinstance(node, dict):
        found = _understood(node)
    return found if isinstance(found, str) and known is not None and known.fullmatch(found) else None


def _understood(node: dict[str, Any]) -> str | None:
    """Returns the format string of a decimal or a map that the command wrote, from a Parquet file for example."""
    digits = node.get("arrow.decimal")
    if isinstance(digits, list) and len(digits) == 2 and all(type(number) is int for number in digits):
        return f"d:{digits[0]},{digits[1]}"
    return "+m" if node.get("arrow.map") is True else None


def dictionary(node: Any) -> tuple[str, bool] | None:
    """Returns the format string of the indices of a dictionary column, and whether its values are ordered."""
    found = node.get("arrow.dictionary") if isinstance(node, dict) else None
    if not isinstance(found, str) or found not in _INDICES.values():
        return None
    return found, node.get("arrow.ordered") is True


def has_nulls(node: Any) -> bool:
    """Returns whether the schema of an array is that of a list with nulls."""
    return isinstance(node, dict) and node.get("arrow.nulls") is True


def extension(node: Any) -> list[tuple[str, str]]:
    """Returns the metadata of a column of an extension type."""
    name = node.get("arrow.extension") if isinstance(node, dict) else None
    if not isinstance(name, str):
        return []
    more = node.get("arrow.extension.metadata", "")
    return [("ARROW:extension:name", name), ("ARROW:extension:metadata", more if isinstance(more, str) else "")]


# To records.


def annotate(node: dict[str, Any], kind: Any) -> None:
    """Adds the Arrow type of a column to its schema, as far as the kinds do not express it."""
    pa = package("pyarrow")
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.fixed_shape_tensor":
            return
        node["arrow.extension"] = kind.extension_name
        more = _parameters(kind)
        if more:
            node["arrow.extension.metadata"] = more
        kind = kind.storage_type
    if types.is_dictionary(kind):
        node["arrow.dictionary"] = _INDICES[str(kind.index_type)]
        if kind.ordered:
            node["arrow.ordered"] = True
        if "enum" not in node:
            annotate(node, kind.value_type)
        return
    if types.is_run_end_encoded(kind):
        return annotate(node, kind.value_type)
    format = _format(types, kind)
    if format is not None:
        node["arrow.type"] = format
    # What these two say, the command and Parquet understand as well (metatensor.md, 5.9).
    if types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        node["arrow.decimal"] = [kind.precision, kind.scale]
    elif types.is_map(kind):
        node["arrow.map"] = True
    if types.is_struct(kind):
        for field in kind:
            _annotate_member(node, field.name, field)
    elif types.is_map(kind):
        below = node["items"]["properties"]
        annotate(below["key"], kind.key_type)
        _annotate_member(node["items"], "value", kind.item_field)
    elif "items" in node:
        items = node["items"]
        annotate(items["properties"][VALUE] if has_nulls(node) else items, kind.value_type)


def _annotate_member(node: dict[str, Any], name: str, field: Any) -> None:
    """Adds the Arrow type of a member, and whether it could be null although it is not."""
    member = node["properties"][name]
    annotate(member, field.type)
    if field.nullable and name in node["required"]:
        member["arrow.nullable"] = True


def _parameters(kind: Any) -> str:
    """Returns the metadata of an extension type."""
    if kind.extension_name == "arrow.opaque":
        return json.dumps({"type_name": kind.type_name, "vendor_name": kind.vendor_name})
    serialize = getattr(kind, "__arrow_ext_serialize__", None)
    try:
        return "" if serialize is None else str(serialize().decode())
    except UnicodeDecodeError:
        return ""


def _format(types: Any, kind: Any) -> str | None:
    """Returns the format string of a type that is restored; ``None`` for the types that records have anyway."""
    if types.is_timestamp(kind):
        format = f"ts{_UNITS[kind.unit]}:{kind.tz or ''}"
        return None if format == "tsn:UTC" else format
    if types.is_time(kind):
        return f"tt{_UNITS[kind.unit]}"
    if types.is_duration(kind):
        return f"tD{_UNITS[kind.unit]}"
    if types.is_decimal(kind):
        return f"d:{kind.precision},{kind.scale}" + ("" if kind.bit_width == 128 else f",{kind.bit_width}")
    if types.is_fixed_size_binary(kind):
        return f"w:{kind.byte_width}" if kind.byte_width else None
    if types.is_map(kind):
        return "+m"
    if types.is_list(kind):
        return "+l"
    names = {"date32[day]": "tdD", "date64[ms]": "tdm", "string": "u", "string_view": "vu", "binary": "z", "binary_view": "vz", "null": "n"}
    return names.get(str(kind))


def stored_type(kind: Any) -> Any:
    """Returns the type as which values of a type are stored."""
    pa = package("pyarrow")
    return stored(pa.nulls(0, kind)).type if _changes(pa.types, kind) else kind


def stored(array: Any, node: Any = None) -> Any:
    """Returns an array of a type that records have. ``node`` is the schema of the member."""
    pa = package("pyarrow")
    types, kind = pa.types, array.type
    if not _changes(types, kind) and not _wraps(node):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return stored(array.storage, node)
    if types.is_dictionary(kind):
        return stored(array.dictionary_decode(), node)
    if types.is_run_end_encoded(kind):
        return stored(_compute().run_end_decode(array), node)
    if types.is_time32(kind):
        return array.cast(pa.int32())
    if types.is_time64(kind) or types.is_duration(kind):
        return array.cast(pa.int64())
    if types.is_decimal(kind):
        return array.cast(pa.string())
    if types.is_map(kind):
        fields = [pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)]
        return stored(array.cast(pa.list_(pa.struct(fields))), node)
    if types.is_struct(kind):
        below = node.get("properties", {}) if isinstance(node, dict) else {}
        columns = [stored(array.field(at), below.get(field.name)) for at, field in enumerate(kind)]
        fields = [pa.field(field.name, column.type, field.nullable) for field, column in zip(kind, columns)]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        values = _items(pa, array.values[array.offset * size : (array.offset + len(array)) * size], node)
        return pa.FixedSizeListArray.from_arrays(values, size, mask=array.is_null())
    lengths = _compute().fill_null(_compute().list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), _compute().cumulative_sum(lengths)])
    return pa.LargeListArray.from_arrays(offsets, _items(pa, _compute().list_flatten(array), node), mask=array.is_null())


def _items(pa: Any, values: Any, node: Any) -> Any:
    """Returns the elements of a list as they are stored."""
    items = node.get("items") if isinstance(node, dict) else None
    if has_nulls(node) and isinstance(items, dict):
        values = stored(values, items.get("properties", {}).get(VALUE))
        return pa.StructArray.from_arrays([values], fields=[pa.field(VALUE, values.type)])
    return stored(values, items)


def _changes(types: Any, kind: Any) -> bool:
    """Returns whether values of a type are stored as another type."""
    if hasattr(kind, "extension_name"):
        return bool(kind.extension_name != "arrow.fixed_shape_tensor")
    if types.is_dictionary(kind):
        return str(kind.value_type) not in ("string", "large_string", "string_view")
    if types.is_struct(kind):
        return any(_changes(types, field.type) for field in kind)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _changes(types, kind.value_type)
    views = str(kind).startswith(("list_view", "large_list_view"))
    others = (types.is_time, types.is_duration, types.is_decimal, types.is_map, types.is_run_end_encoded)
    return views or any(of(kind) for of in others)


def _wraps(node: Any) -> bool:
    """Returns whether a schema has a list with nulls."""
    if not isinstance(node, dict):
        return False
    below = node.get("properties")
    nested = list(below.values()) if isinstance(below, dict) else []
    return has_nulls(node) or any(_wraps(each) for each in [*nested, node.get("items")])


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")


def add_categories(texts: list[str], column: Any) -> None:
    """Adds the values of an ordered dictionary column, as texts, to those of earlier batches."""
    pa = package("pyarrow")
    if not pa.types.is_dictionary(column.type) or not column.type.ordered:
        return
    try:
        values = _as_numbers(pa, column.dictionary).cast(pa.string()).to_pylist()
        if not _categories(pa, values, column.type.value_type).equals(column.dictionary):
            raise pa.ArrowInvalid("other values")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as e:
        message = f"the order of categories of type {column.type.value_type} cannot be stored"
        hint = "cast the categories to texts, or make them unordered"
        raise UnsupportedError(message, code="python/arrow", kind="unsupported", hint=hint) from e
    texts += [text for text in values if text is not None and text not in texts]


def _as_numbers(pa: Any, values: Any) -> Any:
    """Returns times of day and durations as the numbers of their units, other values as they are."""
    if pa.types.is_time32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_time(values.type) or pa.types.is_duration(values.type) else values


def _categories(pa: Any, texts: list[Any], kind: Any) -> Any:
    """Returns the values of texts that :func:`add_categories` made."""
    values = pa.array(texts, pa.string())
    return values.cast(_as_numbers(pa, pa.array([], kind)).type).cast(kind)


# From records.


def _by_categories(pa: Any, array: Any, kind: Any, node: Any) -> Any:
    """Returns values as indices of the categories that the schema names; ``None`` if it does not name all of them."""
    texts = node.get("arrow.categories") if isinstance(node, dict) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return None
    try:
        values = _categories(pa, texts, kind.value_type)
        indices = _compute().index_in(array, value_set=values).cast(kind.index_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return pa.DictionaryArray.from_arrays(indices, values) if indices.null_count == array.null_count else None


def restored(array: Any, kind: Any, node: Any = None) -> Any:
    """Returns the values of an array of stored values as values of this type. ``node`` is the schema of the member."""
    pa = package("pyarrow")
    types, found = pa.types, array.type
    if found == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, restored(array, kind.storage_type, node))
    if types.is_dictionary(kind):
        if not types.is_dictionary(found):
            array = restored(array, kind.value_type, node)
            array = _by_categories(pa, array, kind, node) or array.dictionary_encode()
        values = restored(array.dictionary, kind.value_type)
        return pa.DictionaryArray.from_arrays(array.indices.cast(kind.index_type), values, ordered=kind.ordered)
    below = node.get("properties") if isinstance(node, dict) else None
    if types.is_struct(kind):
        nodes = below if isinstance(below, dict) else {}
        columns = [restored(array.field(at), field.type, nodes.get(field.name)) for at, field in enumerate(kind)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())
    mask = array.is_null() if array.null_count else None
    items = node.get("items") if isinstance(node, dict) else None
    if types.is_map(kind):
        nodes = (items or {}).get("properties", {})
        pairs = array.values
        keys = restored(pairs.field(0), kind.key_type, nodes.get("key"))
        values = restored(pairs.field(1), kind.item_type, nodes.get(VALUE))
        return pa.MapArray.from_arrays(array.offsets.cast(pa.int32()), keys, values, kind, mask=mask)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        values = array.values
        if has_nulls(node):
            values, items = values.field(0), (items or {}).get("properties", {}).get(VALUE)
        values = restored(values, kind.value_type, items)
        if types.is_fixed_size_list(kind):
            return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=mask)
        is_short = types.is_list(kind)
        offsets = array.offsets.cast(pa.int32() if is_short else pa.int64())
        return (pa.ListArray if is_short else pa.LargeListArray).from_arrays(offsets, values, type=kind, mask=mask)
    if types.is_null(kind):
        return pa.nulls(len(array))
    # Units that are coarser than nanoseconds round down times of other programs.
    return array.cast(kind, safe=False) if types.is_temporal(kind) else array.cast(kind)
