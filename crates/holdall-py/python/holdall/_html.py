"""A file as a table, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._file import File

#: Rows that are shown.
MOST = 100


def size(nbytes: int) -> str:
    """Bytes for people: ``1.5 GB``."""
    amount = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def table(file: "File") -> str:
    """Its tensors with their sizes, and a bar for each."""
    if file.closed:
        return f"<p><b>{escape(file.name)}</b>, closed</p>"
    count = len(file)
    shown = [file[name] for _, name in zip(range(MOST), file)]
    widest = max((t.stored_nbytes for t in shown), default=0) or 1
    rows = []
    for t in shown:
        width = round(100 * t.stored_nbytes / widest)
        bar = f'<div style="background:#4a90d9;height:.7em;width:{width}px"></div>'
        shape = " × ".join(map(str, t.shape)) or "scalar"
        layout = "" if t.layout == "dense" else escape(t.layout)
        rows.append(
            f"<tr><td style='text-align:left'>{escape(t.name)}</td><td>{escape(t.dtype)}</td><td>{shape}</td>"
            f"<td>{layout}</td><td>{size(t.stored_nbytes)}</td><td>{bar}</td></tr>"
        )
    more = f"<p>and {count - len(shown)} more</p>" if count > len(shown) else ""
    version = f" {escape(file.version)}" if file.version else ""
    return (
        f"<p><b>{escape(file.name)}</b>: {escape(file.format)}{version}, {count} tensors</p>"
        "<table><thead><tr><th>name</th><th>type</th><th>shape</th><th>layout</th><th>size</th><th></th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table>{more}"
    )
