"""HTML for notebooks: a file as a table, a package as a card."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .errors import HoldallError

if TYPE_CHECKING:
    from ._carton_types import Spec
    from ._file import File
    from ._package import Package
    from ._records import Records

#: Maximum number of rows.
MOST = 100
#: Maximum length of a page inside a card, in characters.
LARGEST = 4 << 20
#: Maximum number of records, and of characters of each value.
ROWS, WIDTH = 10, 60


def size(nbytes: int) -> str:
    """Formats a number of bytes: ``1.5 GB``."""
    amount = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def table(file: File) -> str:
    """Returns a table of the file's tensors with their sizes, and a bar for each."""
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


def records(of: Records) -> str:
    """Returns a table of the first records."""
    if of.tensor.file.closed:
        return f"<p>{escape(repr(of))}, closed</p>"
    shown = list(of[:ROWS])
    rows = [row if isinstance(row, dict) else {"": row} for row in shown]
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{_cell(row.get(name))}</td>" for name in names) + "</tr>"
        for row in rows
    )
    more = f"<p>and {len(of) - len(shown)} more</p>" if len(of) > len(shown) else ""
    return f"<p>{escape(repr(of))}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else repr(value[:WIDTH] if isinstance(value, (bytes, list)) else value)
    text = " ".join(text[: 2 * WIDTH].split())
    return escape(text if len(text) <= WIDTH else text[: WIDTH - 1] + "…")


def card(package: Package) -> str:
    """Returns a table of a package's description and of its files, with a bar for each."""
    if package.closed:
        return f"<p><b>{escape(package.source)}</b>, closed</p>"
    name = package.name if package.name is not None else package.source
    about = f": {escape(package.short_description)}" if package.short_description else ""
    runner = f"{package.runner.name} {package.runner.framework_version}"
    facts = {
        "opened as": package.source,
        "model hash": package.hash,
        "runner": runner,
        "license": package.license,
        "platforms": " · ".join(package.platforms) or "any",
        "self-tests": str(len(package.self_tests)) if package.self_tests else None,
    }
    lines = "".join(_row(escape(key), escape(text)) for key, text in facts.items() if text)
    lines += _specs("input", package.inputs) + _specs("output", package.outputs)
    files = list(package.files.values())
    widest = max((f.nbytes or 0 for f in files), default=0) or 1
    rows = []
    for f in files[:MOST]:
        width = round(100 * (f.nbytes or 0) / widest)
        bar = f'<div style="background:#4a90d9;height:.7em;width:{width}px"></div>'
        where = {"links": "only linked to"}.get(f.place, "")
        rows.append(_row(escape(f.path), "?" if f.nbytes is None else size(f.nbytes), bar, where))
    more = f"<p>and {len(files) - MOST} more files</p>" if len(files) > MOST else ""
    return (
        f"<p><b>{escape(name)}</b>{about}</p><table><tbody>{lines}</tbody></table>"
        "<table><thead><tr><th>file</th><th>size</th><th></th><th></th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{more}{_page(package)}"
    )


def _page(package: Package) -> str:
    """Returns the page with the description, examples and pictures, if the package has any, in a frame that runs
    no scripts."""
    if not package.description and not package.examples:
        return ""
    try:
        page = package.html()
    except HoldallError as e:
        return f"<p>{escape(str(e))}</p>"
    if len(page) > LARGEST:
        return "<p>Its description and examples are large: <code>package.html()</code> has them.</p>"
    frame = f'<iframe sandbox="" srcdoc="{escape(page)}" style="width:100%;height:30em;border:0"></iframe>'
    return f"<details open><summary>Description and examples</summary>{frame}</details>"


def _row(first: str, *cells: str) -> str:
    left = "style='text-align:left'"
    return f"<tr><td {left}>{first}</td>" + "".join(f"<td {left}>{cell}</td>" for cell in cells) + "</tr>"


def _specs(what: str, specs: tuple[Spec, ...]) -> str:
    return "".join(_row(what, escape(str(spec))) for spec in specs)
