"""HTML for notebooks: a tensor as a card with statistics and pictures of its values. Of large tensors, only a part is
read, and the card says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ._html import muted, safe, size, text, values
from ._pictures import BARS, COLUMNS, ROWS, heat_map, histogram, places
from .errors import HoldallError

if TYPE_CHECKING:
    import numpy as np

    from ._tensor import Tensor

#: The maximum number of bytes of a tensor that is read as a whole.
WHOLE = 1 << 20
#: The number of runs of values that are read of a larger mapped tensor, and the length of each.
RUNS, RUN = 64, 4096
#: The number of bytes that are read from the start of a larger tensor that is not mapped.
START = 1 << 18
#: The maximum number of elements, and of stored bytes, of a tensor that is not dense and is decoded.
DECODED, STORED = 1 << 18, 8 << 20
#: The number of texts or times that are listed.
LISTED = 8


class Sample(NamedTuple):
    """Values of a tensor."""

    #: The values that statistics are made of, in one dimension.
    flat: np.ndarray[Any, Any]
    #: A matrix for a heat map, if the tensor has one.
    matrix: np.ndarray[Any, Any] | None
    #: A description of the part of the tensor that the values are from; ``None`` if they are all values.
    note: str | None


@safe
def tensor(of: Tensor) -> str:
    """Returns a card for a tensor."""
    if of.file.closed:
        return f"<p><b>{text(of.name)}</b>, closed</p>"
    shape = " × ".join(map(str, of.shape)) or "scalar"
    stored = f", {size(of.stored_nbytes)}" if of.stored_nbytes else ""
    head = f"<p><b>{text(of.name)}</b>: {text(of.dtype)}, {shape}, {text(of.layout)}{stored}, in {text(of.file.name)}</p>"
    fault = of.fault
    if fault is not None:
        return f"{head}<p>It cannot be read: {text(str(fault))}</p>"
    if of.layout in ("records", "blob"):
        shown: Any = of.records() if of.layout == "records" else of.blob()
        return head + str(shown._repr_html_())
    if not of.size:
        return head
    try:
        sample = _sample(of)
    except HoldallError as e:
        return head + muted(f"Its values are not shown: {e._message}")
    if isinstance(sample, str):
        return head + muted(sample)
    return head + _pictured(of, sample)


def _sample(of: Tensor) -> Sample | str:
    """Returns all values of a small tensor, or some of a large one; or the reason why they are not read."""
    from ._tensor import is_dense

    if not is_dense(of.layout):
        if of.size > DECODED or of.stored_nbytes > STORED:
            return f"A tensor of layout {of.layout}: stats() reads its {of.size} values."
        return _whole(of.to_dense())
    nbytes = of.nbytes
    if nbytes <= WHOLE:
        return _whole(of.numpy())
    native, at = of._native(), of._at
    if of._info[5] is not None:
        return f"The first values: {values(of[:LISTED].reshape(-1)[:LISTED].tolist())}" if of.shape[0] else ""
    if native.is_view(at, "data"):
        a = of.numpy()
        flat = a.reshape(-1)
        if flat.size <= RUNS * RUN:
            return _whole(a)
        starts = places(flat.size - RUN, RUNS)
        import numpy as np

        note = f"{RUNS * RUN} of {flat.size} values, in {RUNS} runs at equal distances"
        return Sample(np.concatenate([flat[start : start + RUN] for start in starts]), _matrix(a), note)
    if of.components["data"].encoding != "raw":
        return f"Compressed: stats() reads its {of.size} values."
    width = nbytes / of.size
    count = math.floor(START / width)
    from ._arrays import array

    flat = array(native.read_range(at, "data", 0, math.ceil(count * width)), 0, (count,), str(of.dtype))
    columns = of.shape[-1] if len(of.shape) > 1 else count
    rows = count // columns
    note = f"the first {count} of {of.size} values"
    return Sample(flat, _matrix(flat[: rows * columns].reshape(rows, columns)) if rows > 1 else None, note)


def _whole(a: np.ndarray[Any, Any]) -> Sample:
    return Sample(a.reshape(-1), _matrix(a), None)


def _matrix(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Returns the rows and columns of the last two dimensions, at the first position of the others; at most as many as a
    heat map shows."""
    if a.ndim < 2 or a.size == 0 or a.shape[-1] < 2:
        return None
    last = a[(0,) * (a.ndim - 2)]
    found: np.ndarray[Any, Any] = last[places(last.shape[0], ROWS)][:, places(last.shape[1], COLUMNS)]
    return found


def _numbers(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Returns values as floats, of which complex ones are magnitudes; ``None`` if they are not numbers."""
    import numpy as np

    if a.dtype.kind in "SUTOMm" or a.dtype.type is np.void:
        return None
    with np.errstate(all="ignore"):
        if a.dtype.kind == "c":
            a = np.abs(a)
        # Types of ml_dtypes convert to float32 only.
        return a.astype(np.float64 if a.dtype.kind in "biuf" else np.float32).astype(np.float64)


def _pictured(of: Tensor, sample: Sample) -> str:
    import numpy as np

    numbers = _numbers(sample.flat)
    if numbers is None:
        return muted(f"The first values: {values(sample.flat[:LISTED].tolist())}")
    finite = numbers[np.isfinite(numbers)]
    facts: dict[str, str] = {}
    drawn = []
    if finite.size:
        low, high = finite.min(), finite.max()
        exact = sample.flat if sample.flat.dtype.kind in "iu" else finite
        facts = {"min": _number(exact.min().item()), "max": _number(exact.max().item())}
        with np.errstate(all="ignore"):
            facts |= {"mean": _number(finite.mean().item()), "std": _number(finite.std().item())}
        # The difference of the largest and the smallest number may be too large for a float.
        if low < high and np.isfinite(high / 4 - low / 4) and high / 4 - low / 4 < np.finfo(float).max / 4:
            counts = np.histogram(finite, bins=BARS, range=(low, high))[0]
            drawn.append(_figure(histogram(counts.tolist()), f"{facts['min']} … {facts['max']}"))
    for what, count in (
        ("zeros", np.count_nonzero(numbers == 0)),
        ("NaN", np.count_nonzero(np.isnan(numbers))),
        ("inf", np.count_nonzero(np.isposinf(numbers))),
        ("-inf", np.count_nonzero(np.isneginf(numbers))),
    ):
        if count:
            facts[what] = str(count)
    matrix = None if sample.matrix is None else _numbers(sample.matrix)
    if matrix is not None:
        rows, columns = matrix.shape
        shape = of.shape[-2:]
        first = ", ".join("0" * (len(of.shape) - 2))
        where = f"[{first}, :, :]" if first else ""
        part = "" if (rows, columns) == shape and not first else f"{rows} × {columns} values of {where or ' × '.join(map(str, shape))}"
        drawn.append(_figure(heat_map(matrix), part))
    titles = "".join(f"<th>{title}</th>" for title in facts)
    cells = "".join(f"<td>{value}</td>" for value in facts.values())
    table = f"<table><thead><tr>{titles}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"
    what = "Magnitudes" if sample.flat.dtype.kind == "c" else ""
    note = muted("; ".join(part for part in (what, f"Sampled: {sample.note}" if sample.note else "") if part))
    return f"{table}<div style='display:flex;gap:1.5em;align-items:flex-end'>{''.join(drawn)}</div>{note}"


def _figure(svg: str, caption: str) -> str:
    return f"<div>{svg}<div style='font-size:smaller;opacity:.7'>{caption}</div></div>" if svg else ""


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
