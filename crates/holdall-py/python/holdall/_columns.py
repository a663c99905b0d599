"""Some members of records, as a table; and a summary of members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeGuard, overload

from ._arrow import Arrow, polars
from ._blob import Chosen, chosen, position

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from ._records import Records, Selection

__all__ = ["Columns", "ColumnSummary", "Description"]

#: The number of records that are decoded at a time.
BATCH = 256
#: The number of records that ``head`` returns by default.
HEAD = 5
#: The largest number of members that ``describe`` summarises at once unless they are named.
MAX_COLUMNS = 256


class Columns(Sequence[Any]):
    """Some members of records: ``r[["id", "at.lat"]]``, or ``r.select("id", "at.lat")``. ``c[i]`` is a dict of these
    members by path, and ``c[a:b]``, ``c[[1, 5]]`` and ``c[mask]`` choose records. Only these members are read."""

    __slots__ = ("_of", "_paths")

    def __init__(self, of: Records | Selection, paths: Sequence[str]) -> None:
        all = whole(of)
        for path in paths:
            all._find(path)
        self._of = of
        self._paths = tuple(dict.fromkeys(paths))

    @property
    def records(self) -> Records | Selection:
        """The records that the members belong to, with all their members."""
        return self._of

    @property
    def columns(self) -> dict[str, str]:
        """The type of each member, by path."""
        all = whole(self._of)
        types = {}
        for path in self._paths:
            at, _, always = all._find(path)
            types[path] = all._types.describe(at) + ("" if always else " or absent")
        return types

    def column(self, path: str) -> Any:
        """Returns one member of all records: see :meth:`Records.column`."""
        return self._of.column(path)

    def head(self, count: int = HEAD) -> Columns:
        """Returns the first records."""
        return self[: max(count, 0)]

    def where(self, *conditions: str) -> Columns:
        """Returns the records for which all conditions hold, which may be about other members: see
        :meth:`Records.where`."""
        return Columns(self._of.where(*conditions), self._paths)

    def sort(self, *members: str) -> Columns:
        """Returns the records sorted by members: see :meth:`Records.sort`."""
        return Columns(self._of.sort(*members), self._paths)

    def describe(self) -> Description:
        """Summarises the members: see :meth:`Records.describe`."""
        return describe(self._of, self._paths)

    def to_pandas(self) -> pd.DataFrame:
        """Returns the members as a pandas ``DataFrame``, with the types of :meth:`Records.to_pandas`."""
        from ._pandas import frame

        made = frame(whole(self._of), self._of, self._paths)
        places = getattr(self._of, "positions", None)
        return made if places is None else made.set_index(places)

    def to_polars(self) -> pl.DataFrame:
        """Returns the members as a Polars ``DataFrame``."""
        frame: pl.DataFrame = polars(self._of, self._paths)
        return frame

    def arrow(self, *, batch: int | None = None) -> Arrow:
        """Returns the members as Arrow columns: see :meth:`Records.arrow`."""
        return Arrow(self._of, self._paths, batch)

    def __arrow_c_schema__(self) -> Any:
        return self.arrow().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._of)

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | Chosen | list[str]) -> Columns: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: int | slice | str | list[str] | Chosen) -> Any:
        if is_paths(key):
            return Columns(self._of, key)
        if isinstance(key, str):
            return member(self._of, key)
        if isinstance(key, slice):
            return Columns(self._of[key], self._paths)
        if chosen(key, len(self), "records") is not None:
            some: Selection = self._of[key]  # type: ignore[assignment]
            return Columns(some, self._paths)
        at = position(range(len(self)), key, "records", None)
        one: Records | Selection = self._of[at : at + 1]
        return next(iter(Columns(one, self._paths)))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self._of), BATCH):
            part = self._of[start : start + BATCH]
            found = [part.values(path) for path in self._paths]
            for row in zip(*found):
                yield dict(zip(self._paths, row))

    def __reduce__(self) -> Any:
        return Columns, (self._of, self._paths)

    def __repr__(self) -> str:
        of = ", ".join(f"{path} {what}" for path, what in self.columns.items())
        return f"<holdall.Columns of {len(self)} record{'' if len(self) == 1 else 's'}: {of}>"

    def _repr_html_(self) -> str:
        from ._html import columns

        return columns(self)


@dataclass(frozen=True)
class ColumnSummary:
    """A summary of one member of records."""

    #: The member's path and its type.
    path: str
    type: str
    #: The number of records that have the member, and that lack it.
    count: int
    absent: int
    #: The smallest and the largest value, in the order of :meth:`Records.sort` and without NaN; ``None`` if the member has
    #: no order, or no record has it. Times are texts.
    min: Any
    max: Any
    #: The mean and the standard deviation (of the population) of numbers and Booleans.
    mean: float | None
    std: float | None


class Description(Mapping[str, ColumnSummary]):
    """Summaries of members of records, by path. It is printed as a table."""

    __slots__ = ("_rows", "_records")

    def __init__(self, records: int, rows: Sequence[ColumnSummary]) -> None:
        self._records = records
        self._rows = {row.path: row for row in rows}

    @property
    def records(self) -> int:
        """The number of records."""
        return self._records

    def __getitem__(self, path: str) -> ColumnSummary:
        return self._rows[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        titles = [field.name for field in fields(ColumnSummary)]
        rows = [titles, *([_shown(value) for value in asdict(row).values()] for row in self._rows.values())]
        widths = [max(len(row[at]) for row in rows) for at in range(len(titles))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([f"{self._records} records", *lines])

    def _repr_html_(self) -> str:
        from ._html import description

        return description(self)


def whole(of: Records | Selection) -> Records:
    """Returns the dataset that the records belong to."""
    all: Any = getattr(of, "_records", of)
    found: Records = all
    return found


def is_paths(key: Any) -> TypeGuard[list[str]]:
    """Returns whether a key is a list of members."""
    return isinstance(key, list) and bool(key) and all(isinstance(one, str) for one in key)


def member(of: Records | Selection, path: str) -> Any:
    """Returns a member of all records: an array if it has a form for one, otherwise a list."""
    all = whole(of)
    at, _, _ = all._find(path)
    if all._types.rows[at].kind == "string" or all._types.form(at) is not None:
        return of.column(path)
    return of.values(path)


def describe(of: Records | Selection, paths: Sequence[str] = ()) -> Description:
    """Summarises members, in one pass over the records."""
    all = whole(of)
    if paths:
        wanted = [(path, all._find(path)[0]) for path in dict.fromkeys(paths)]
    else:
        wanted = [(path, at) for (path, at, _), _ in zip(all._types.columns(), range(MAX_COLUMNS)) if path]
    asked = [(path, at, _functions(all, path, all._types.rows[at])) for path, at in wanted]
    aggregates = [f"{function}({path})" for path, _, functions in asked for function in functions]
    groups = of.groups(aggregates=aggregates)
    found = iter(groups[0][2:] if groups else [0 if text.startswith("count(") else None for text in aggregates])
    rows = []
    for path, at, functions in asked:
        values = {function: next(found) for function in functions}
        count = values.pop("count")
        others = {name: values.get(name) for name in ("min", "max", "mean", "std")}
        rows.append(ColumnSummary(path, all._types.describe(at), count, len(of) - count, **others))
    return Description(len(of), rows)


def _functions(all: Records, path: str, row: Any) -> tuple[str, ...]:
    """Returns the aggregates that a member has."""
    if row.kind in ("string", "enum"):
        return ("count", "min", "max")
    if row.kind != "scalar" or row.more.startswith("complex"):
        return ("count",)
    if row.more.startswith("datetime64") or all._native.has_meaning(path):
        return ("count", "min", "max")
    return ("count", "min", "max", "mean", "std")


def _shown(value: Any) -> str:
    """Returns a cell of the printed table."""
    if value is None:
        return ""
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= 24 else text[:23] + "…"
