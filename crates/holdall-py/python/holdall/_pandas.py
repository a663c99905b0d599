"""Records as pandas has them: a column for each member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from ._kinds import written
from .errors import Unsupported

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ._records import Records, Selection


def frame(all: "Records", of: "Union[Records, Selection]") -> "pd.DataFrame":
    """The members of ``of``, which are of the dataset ``all``."""
    try:
        import pandas as pd
    except ImportError:
        raise Unsupported(
            "pandas is not installed", code="python/extra", kind="unsupported", hint="pip install pandas; or column(path)"
        ) from None
    row = all._types.rows[all._types.root]
    if row.kind != "struct":
        return pd.DataFrame({all.tensor.name: _objects(of.values(""))})
    columns = {name: _column(pd, all, of, written(name), at) for name, at, _, _ in row.more}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(of)))


def _column(pd: Any, all: "Records", of: "Union[Records, Selection]", path: str, at: int) -> Any:
    import numpy as np

    row = all._types.rows[at]
    if row.kind == "string":
        return pd.array(_texts(of, path), dtype="string")
    if row.kind not in ("scalar", "enum"):
        return _objects(of.values(path))
    found = of.column(path)
    absent = np.ma.getmaskarray(found) if isinstance(found, np.ma.MaskedArray) else None
    # What is below a mask means nothing; the frame is its reader's.
    values = np.array(found.data if absent is not None else found)
    if row.kind == "enum":
        codes = values.astype(np.int64)
        if absent is not None:
            codes[absent] = -1
        return pd.Categorical.from_codes(codes, categories=list(row.more[1]))
    if absent is None:
        return values if _is_known(values) else _objects(of.values(path))
    if values.dtype.kind == "M":
        values[absent] = np.datetime64("NaT")
        return values
    kinds = {"i": "IntegerArray", "u": "IntegerArray", "f": "FloatingArray", "b": "BooleanArray"}
    if values.dtype.kind not in kinds or values.dtype == np.float16 or not _is_known(values):
        return _objects(of.values(path))
    values[absent] = values.dtype.type(0)
    return getattr(pd.arrays, kinds[values.dtype.kind])(values, absent)


def _is_known(values: "np.ndarray[Any, Any]") -> bool:
    """Whether pandas has columns of these elements: not of those that ml_dtypes adds."""
    return values.dtype.kind == "M" or (values.dtype.kind in "iufbc" and values.dtype.isbuiltin == 1)


def _texts(of: "Union[Records, Selection]", path: str) -> Any:
    """Texts as Arrow has them, where pyarrow is there to take them: without an object for each."""
    try:
        import pyarrow as pa
    except ImportError:
        return of.texts(path)
    return pa.table(of.arrow(path)).column(0)


def _objects(values: list[Any]) -> Any:
    import numpy as np

    # One by one: NumPy would take lists and arrays apart.
    out = np.empty(len(values), object)
    for at, value in enumerate(values):
        out[at] = value
    return out
