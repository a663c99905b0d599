"""Tables of other libraries as records: objects with ``__arrow_c_stream__`` (pyarrow, pandas, Polars, DuckDB), and
columnar files (Parquet, Arrow), read by pyarrow, batch by batch."""

from __future__ import annotations

import importlib
import os
from typing import Any, Callable, Literal

from ._arrow import pyarrow
from ._arrow_types import VALUE, add_categories, annotate, stored, stored_type
from ._records import Records, Selection
from .errors import MalformedError, UnsupportedError

__all__ = ["batches_of", "says_its_types", "schema_of", "table"]

#: Kinds by the names of Arrow's types, with the JSON types of their values.
_KINDS = {
    "bool": ("boolean", "Boolean"),
    "int8": ("integer", "Int8"),
    "int16": ("integer", "Int16"),
    "int32": ("integer", "Int32"),
    "int64": ("integer", "Int64"),
    "uint8": ("integer", "Uint8"),
    "uint16": ("integer", "Uint16"),
    "uint32": ("integer", "Uint32"),
    "uint64": ("integer", "Uint64"),
    "halffloat": ("number", "Float16"),
    "float": ("number", "Float32"),
    "double": ("number", "Float64"),
    "string": ("string", "String"),
    "large_string": ("string", "String"),
    "string_view": ("string", "String"),
    "null": ("string", "String"),
}
#: dtypes of tensors, by the names of Arrow's types.
_DTYPES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "halffloat": "F16",
    "float": "F32",
    "double": "F64",
}
#: Types that Arrow lacks, by the name that Holdall's own columns have in their metadata.
_OWN = {"bfloat16": "BFloat16", "float8_e4m3fn": "Float8_E4M3", "float8_e5m2": "Float8_E5M2"}


#: Formats of columnar files, by their first bytes and by their extensions.
_MARKS: dict[bytes, Literal["parquet", "arrow"]] = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_EXTENSIONS: dict[str, Literal["parquet", "arrow"]] = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".arrows", ".ipc", ".feather"), "arrow"),
}


def table(of: Any) -> Any:
    """Returns an object that provides Arrow columns: the table itself, or the columnar file at a path. Returns
    ``None`` for everything else, including Holdall's own columns, which are records already."""
    if isinstance(of, (str, os.PathLike)):
        return _File(os.fspath(of)) if _form(of) else None
    return of if hasattr(of, "__arrow_c_stream__") and not isinstance(of, (Records, Selection)) else None


def says_its_types(of: Any) -> bool:
    """Returns whether it is a table whose types can be read before its rows; not so for a stream, which can be
    consumed only once."""
    found = table(of)
    return found is not None and not hasattr(found, "read_next_batch")


def is_in_memory(of: Any) -> bool:
    """Returns whether it is a table of a library that has all its columns in memory."""
    return type(of).__module__.split(".")[0] in ("pyarrow", "pandas", "polars") and says_its_types(of)


def _form(path: str | os.PathLike[str]) -> Literal["parquet", "arrow"] | None:
    """Returns the format of the columnar file at a path; ``None`` for other files, or if the file does not exist."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        start = file.read(8)
    found = (form for mark, form in _MARKS.items() if start.startswith(mark))
    return next(found, _EXTENSIONS.get(os.path.splitext(os.fsdecode(path))[1]))


class _File:
    """A columnar file, read anew for each stream."""

    def __init__(self, path: Any) -> None:
        self._path = path

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        pa = pyarrow()
        try:
            reader = self._reader(pa)
        except pa.ArrowInvalid as e:
            raise MalformedError(
                f"{os.fsdecode(self._path)}: {e}", code="input/columns", kind="malformed", source=os.fsdecode(self._path)
            ) from e
        return reader.__arrow_c_stream__(requested_schema)

    def _reader(self, pa: Any) -> Any:
        if _form(self._path) == "parquet":
            file = importlib.import_module("pyarrow.parquet").ParquetFile(self._path)
            return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        mapped = pa.memory_map(os.fsdecode(self._path))
        if mapped.read(6) != b"ARROW1":
            mapped.seek(0)
            return pa.ipc.open_stream(mapped)
        file = pa.ipc.open_file(mapped)
        return pa.RecordBatchReader.from_batches(file.schema, (file.get_batch(at) for at in range(file.num_record_batches)))


def batches_of(of: Any, kind: Any = None) -> Callable[[], tuple[Any, Any] | None]:
    """Returns a function that returns the next batch of a table at each call, as Arrow's C structs in capsules, and
    ``None`` at the end. ``kind`` is the schema of a record, if it is known.

    Raises:
        UnsupportedError: pyarrow is not installed, or a column has a type that records do not support.
    """
    reader = _reader(of)
    for field in reader.schema:
        _kind_of(field)
    every = iter(reader)
    properties = kind.get("properties") if isinstance(kind, dict) else None
    nodes = properties if isinstance(properties, dict) else {}

    def step() -> tuple[Any, Any] | None:
        batch = next(every, None)
        return None if batch is None else _stored_batch(batch, nodes).__arrow_c_array__()

    return step


def _stored_batch(batch: Any, nodes: dict[str, Any]) -> Any:
    """Returns a batch with columns of types that records have."""
    pa = pyarrow()
    given = batch.columns
    columns = [stored(column, nodes.get(name)) for name, column in zip(batch.schema.names, given)]
    if all(new is old for new, old in zip(columns, given)):
        return batch
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _kind_of(field: Any) -> dict[str, Any]:
    """Returns the schema of the stored values of a column.

    Raises:
        UnsupportedError: records have no such values.
    """
    try:
        kind = stored_type(field.type)
    except (pyarrow().ArrowInvalid, NotImplementedError):
        raise _refused(field.name, str(field.type)) from None
    return _kind(kind, field.name, field.metadata)


def schema_of(of: Any) -> dict[str, Any]:
    """Returns the schema of a row of a table, from the types of its columns; members without nulls are required.

    Raises:
        UnsupportedError: pyarrow is not installed, or a column has a type that records do not support.
    """
    reader = _reader(of)
    nodes = {field.name: _kind_of(field) for field in reader.schema}
    seen = _Seen()
    orders: dict[str, list[str]] = {}
    for batch in reader:
        for name, column in zip(batch.schema.names, batch.columns):
            seen.column(name, stored(column))
            if "enum" not in nodes[name]:
                add_categories(orders.setdefault(name, []), column)
    for name, node in nodes.items():
        seen.finish(name, node)
    for field in reader.schema:
        annotate(nodes[field.name], field.type)
        if orders.get(field.name):
            nodes[field.name]["arrow.categories"] = orders[field.name]
    names = list(nodes)
    required = [name for name in names if name not in seen.optional]
    return {"type": "object", "TypeDef:Struct": names, "required": required, "properties": nodes}


class _Seen:
    """Facts that come from the rows and not from the types: which members may be absent, and the names of enums."""

    def __init__(self) -> None:
        self.optional: set[str] = set()
        self.names: dict[str, list[str]] = {}

    def column(self, path: str, column: Any) -> None:
        pa = pyarrow()
        if column.null_count:
            self.optional.add(path)
        kind = column.type
        if isinstance(kind, pa.BaseExtensionType):
            return
        if pa.types.is_dictionary(kind):
            known = self.names.setdefault(path, [])
            known.extend(name for name in column.dictionary.to_pylist() if name is not None and name not in known)
        elif pa.types.is_struct(kind):
            # A null struct does not count as a struct with absent members.
            there = column.drop_null() if column.null_count else column
            for at, field in enumerate(kind):
                self.column(f"{path}\0{field.name}", there.field(at))
        elif _is_list(kind):
            self.column(f"{path}\0", column.flatten())

    def finish(self, path: str, node: dict[str, Any]) -> None:
        if "enum" in node:
            names = self.names.get(path, [])
            if names:
                node["enum"] = names
            else:
                node.clear()
                node.update(_scalar("string", "String"))
        for name, below in node.get("properties", {}).items():
            self.finish(f"{path}\0{name}", below)
        if "properties" in node:
            node["required"] = [name for name in node["properties"] if f"{path}\0{name}" not in self.optional]
        if "items" in node:
            self.finish(f"{path}\0", node["items"])
            if f"{path}\0" in self.optional:
                members = {"TypeDef:Struct": [VALUE], "required": [], "properties": {VALUE: node["items"]}}
                node["items"] = {"type": "object", "align": "natural", **members}
                node["arrow.nulls"] = True


def _kind(kind: Any, name: str, metadata: Any = None) -> dict[str, Any]:
    """Returns the schema of a column's values."""
    pa = pyarrow()
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name != "arrow.fixed_shape_tensor" or _word(kind.value_type) not in _DTYPES:
            raise _refused(name, str(kind))
        return {"TypeDef:Tensor": {"dtype": _DTYPES[_word(kind.value_type)], "shape": list(kind.shape)}}
    own = (metadata or {}).get(b"holdall.dtype", b"").decode()
    if types.is_fixed_size_binary(kind) and own in _OWN:
        return _scalar("number", _OWN[own])
    if _word(kind) in _KINDS:
        return _scalar(*_KINDS[_word(kind)])
    if types.is_timestamp(kind) or types.is_date(kind):
        return {"type": "string", "format": "date-time", "TypeDef:Timestamp": True}
    if _word(kind) in ("binary", "large_binary", "binary_view") or types.is_fixed_size_binary(kind):
        return {"type": "string", "contentEncoding": "base64", "TypeDef:Bytes": True}
    if types.is_dictionary(kind) and _word(kind.value_type) in ("string", "large_string", "string_view"):
        return {"enum": [], "TypeDef:Enum": True}
    if _is_list(kind):
        node = {"type": "array", "items": _kind(kind.value_type, name, kind.value_field.metadata), "TypeDef:Array": True}
        if types.is_fixed_size_list(kind):
            node["minItems"] = node["maxItems"] = kind.list_size
        return node
    if types.is_struct(kind):
        below = {field.name: _kind(field.type, f"{name}.{field.name}", field.metadata) for field in kind}
        members = {"TypeDef:Struct": list(below), "required": list(below), "properties": below}
        return {"type": "object", "align": "natural", **members}
    raise _refused(name, str(kind))


def _scalar(json_type: str, kind: str) -> dict[str, Any]:
    return {"type": json_type, f"TypeDef:{kind}": True}


def _is_list(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _word(kind: Any) -> str:
    """Returns the name of a type without its parameters, as Arrow writes it."""
    return str(kind)


def _reader(of: Any) -> Any:
    """Returns a reader of the batches of a table, after checking that column names are unique.

    Raises:
        UnsupportedError: two columns, or two members of a struct, have the same name.
    """
    reader = pyarrow().RecordBatchReader.from_stream(of)
    _check_names(reader.schema, "")
    return reader


def _check_names(fields: Any, path: str) -> None:
    """Raises if two fields have the same name, since a record could keep only one of them."""
    types = pyarrow().types
    seen: set[str] = set()
    for field in fields:
        name = f"{path}.{field.name}" if path else field.name
        if field.name in seen:
            raise UnsupportedError(
                f"there are two columns `{name}`; each column needs a name of its own",
                code="records/arrow",
                kind="unsupported",
                hint="rename one of the columns, or leave it out",
            )
        seen.add(field.name)
        kind = field.type
        while _is_list(kind):
            kind = kind.value_type
        if types.is_struct(kind):
            _check_names(kind, name)


def _refused(name: str, kind: str) -> UnsupportedError:
    return UnsupportedError(
        f"column `{name}` is {kind}, for which records have no kind",
        code="python/arrow",
        kind="unsupported",
        hint="cast the column to another type, or leave it out",
    )
