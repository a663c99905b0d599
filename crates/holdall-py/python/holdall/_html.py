"""HTML for notebooks: a file as a table, a package as a card, records and reports as tables. All text is escaped,
nothing in it runs, and an error becomes text."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from ._columns import whole
from ._pictures import histogram
from .errors import HoldallError

if TYPE_CHECKING:
    from ._blob import Blob
    from ._carton_types import Spec
    from ._columns import Columns, Description
    from ._file import File
    from ._package import Package
    from ._records import Records, Selection
    from ._reports import Diff, LayerDiff, Stats, VerifyReport

#: Maximum number of rows.
MAX_ROWS = 100
#: Maximum length of a page inside a card, in characters.
LARGEST = 4 << 20
#: Maximum number of records, and of characters of each value.
ROWS, WIDTH = 10, 60
#: Maximum number of bytes of records or runs that are read.
READ = 8 << 20
#: Maximum number of characters of a name or message.
LONGEST = 300
#: Maximum number of findings that are listed.
LISTED = 20
#: Colors of verdicts.
COLORS = {"sound": "#2e7d32", "incomplete": "#b26a00", "bad": "#c62828"}

T = TypeVar("T")


def safe(shown: Callable[[T], str]) -> Callable[[T], str]:
    """Makes an error a part of the page: a notebook would show its traceback instead of the value."""

    @functools.wraps(shown)
    def without_errors(of: T) -> str:
        try:
            return shown(of)
        except Exception as e:
            return f"<p>{text(type(of).__name__)}, which cannot be shown: {text(f'{type(e).__name__}: {e}')}</p>"

    return without_errors


def text(value: str, most: int = LONGEST) -> str:
    """Returns text for a page: escaped, cut, and with codes for characters that have no picture, such as those that
    change the direction of writing."""
    cut = value if len(value) <= most else value[: most - 1] + "…"
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
    return escape(cut)


def muted(note: str) -> str:
    """Returns a note in small type; its text is escaped."""
    return f"<p style='font-size:smaller;opacity:.7'>{text(note)}</p>" if note else ""


def values(all: Iterable[object]) -> str:
    """Returns a list of values in one line, not escaped."""
    return ", ".join(_one_line(value) for value in all)


def size(nbytes: int) -> str:
    """Formats a number of bytes: ``1.5 GB``."""
    amount = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


@safe
def table(file: File) -> str:
    """Returns a table of the file's tensors with their sizes, and a bar for each."""
    if file.closed:
        return f"<p><b>{text(file.name)}</b>, closed</p>"
    count = len(file)
    shown = [file[name] for _, name in zip(range(MAX_ROWS), file)]
    widest = max((t.stored_nbytes for t in shown), default=0) or 1
    rows = []
    for t in shown:
        width = round(100 * t.stored_nbytes / widest)
        bar = f'<div style="background:#4a90d9;height:.7em;width:{width}px"></div>'
        shape = " × ".join(map(str, t.shape)) or "scalar"
        layout = "" if t.layout == "dense" else text(t.layout)
        rows.append(
            f"<tr><td style='text-align:left'>{text(t.name)}</td><td>{text(t.dtype)}</td><td>{shape}</td>"
            f"<td>{layout}</td><td>{size(t.stored_nbytes)}</td><td>{bar}</td></tr>"
        )
    more = f"<p>and {count - len(shown)} more</p>" if count > len(shown) else ""
    version = f" {text(file.version)}" if file.version else ""
    return (
        f"<p><b>{text(file.name)}</b>: {text(file.format)}{version}, {count} tensors</p>"
        "<table><thead><tr><th>name</th><th>type</th><th>shape</th><th>layout</th><th>size</th><th></th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table>{more}"
    )


@safe
def records(of: Records | Selection) -> str:
    """Returns a table of the first records; those of a selection with their positions."""
    all = whole(of)
    tensor = all.tensor
    head = f"<p>{text(repr(of))}</p>"
    if tensor.file.closed:
        return f"<p>{text(repr(of))}, closed</p>"
    fit = _fitting(tensor.nbytes, all._native.head()[0])
    if not fit:
        return f"{head}{muted('The records are large: select some of their members to see them.')}"
    shown = list(of[:fit])
    positions = _positions(of, len(shown))
    rows = [row if isinstance(row, dict) else {"": row} for row in shown]
    return head + grid(rows, len(of), positions)


@safe
def columns(of: Columns) -> str:
    """Returns a table of some members of the first records."""
    all = whole(of.records)
    head = f"<p>{text(repr(of))}</p>"
    if all.tensor.file.closed:
        return f"<p>{text(repr(of))}, closed</p>"
    # Members of fixed size are small, whatever else the records contain.
    is_small = not any(all._types.rows[all._find(path)[0]].heap for path in of.columns)
    fit = ROWS if is_small else _fitting(all.tensor.nbytes, all._native.head()[0])
    if not fit:
        return f"{head}{muted('The records are large: column(path) and values(path) read a member.')}"
    shown = list(of[:fit])
    return head + grid(shown, len(of), _positions(of.records, len(shown)))


@safe
def description(of: Description) -> str:
    """Returns a table of summaries of members."""
    rows = [dataclasses.asdict(row) for row in of.values()]
    for row in rows:
        row |= {name: _number(row[name]) for name in ("mean", "std") if row[name] is not None}
    return f"<p>{of.records} records</p>{grid(rows, len(rows))}"


def _positions(of: Records | Selection, count: int) -> list[int] | None:
    """Returns the positions of the first records of a selection."""
    places = getattr(of, "positions", None)
    return None if places is None else places[:count].tolist()


def grid(rows: list[dict[str, Any]], count: int, positions: list[int] | None = None) -> str:
    """Returns a table of rows, with the number of those that are not shown."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    left = "style='text-align:left'"
    titles = "".join(f"<th {left}>{text(name, WIDTH)}</th>" for name in ([""] if positions else []) + names)
    body = ""
    for at, row in enumerate(rows):
        cells = f"<th>{positions[at]}</th>" if positions else ""
        cells += "".join(f"<td {left}>{_cell(row.get(name))}</td>" for name in names)
        body += f"<tr>{cells}</tr>"
    more = f"<p>and {count - len(rows)} more</p>" if count > len(rows) else ""
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{more}"


@safe
def blob(of: Blob) -> str:
    """Returns a table of the first runs."""
    head = f"<p>{text(repr(of))}</p>"
    tensor = of.tensor
    if tensor.file.closed:
        return f"<p>{text(repr(of))}, closed</p>"
    is_mapped = tensor._native().is_view(tensor._at, "data")
    fit = ROWS if is_mapped else _fitting(tensor.nbytes, of._native.head()[0])
    if not fit:
        return f"{head}{muted('The runs are large: b[i] reads one.')}"
    rows = []
    for at in range(min(fit, len(of))):
        view = of.view(at)
        part = bytes(view[: 4 * WIDTH])
        content: object = part
        if of.content in ("utf-8", "json"):
            content = part.decode("utf-8", "replace")
        elif of.dtype is not None and len(view) <= READ:
            content = of[at][:WIDTH].tolist()
        rows.append({"bytes": len(view), "content": content})
    return head + grid(rows, len(of))


def _fitting(nbytes: int, count: int) -> int:
    """Returns how many of ``count`` records, which have ``nbytes`` together, are read; 0 if one is too large."""
    return min(ROWS, int(READ / max(nbytes / max(count, 1), 1)))


@safe
def stats(of: Stats) -> str:
    """Returns a table of statistics, and the histogram."""
    facts = {name: getattr(of, name) for name in ("count", "min", "max", "mean", "std", "zeros", "nan", "inf", "neg_inf")}
    shown = {name: value for name, value in facts.items() if value or name in ("count", "min", "max", "mean", "std")}
    titles = "".join(f"<th>{name}</th>" for name in shown)
    cells = "".join(f"<td>{_number(value)}</td>" for value in shown.values())
    bars = of.histogram
    picture = ""
    if bars is not None:
        ends = f"{_number(bars.min)} … {_number(bars.max)}"
        picture = f"{histogram(bars.counts)}<div style='font-size:smaller;opacity:.7'>{ends}</div>"
    what = muted("Magnitudes of complex values") if of.measure == "magnitude" else ""
    return f"<table><thead><tr>{titles}</tr></thead><tbody><tr>{cells}</tr></tbody></table>{picture}{what}"


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, (float, complex)) else text(str(value))


@safe
def diff(of: Diff) -> str:
    """Returns a table of the differences."""
    verdict = "identical" if of.is_identical else "same, within the tolerance" if of.is_same else "different"
    color = COLORS["sound"] if of.is_same else COLORS["bad"]
    rows = [("~", f"attribute {key}", f"{_one_line(a)} → {_one_line(b)}") for key, (a, b) in of.attributes.items()]
    rows += [("-", name, "only in a") for name in of.removed] + [("+", name, "only in b") for name in of.added]
    rows += [("~", tensor.name, str(tensor)[len(tensor.name) + 2 :]) for tensor in of.changed]
    head = f"<p><b style='color:{color}'>{verdict}</b>: {of.identical} of {of.compared} tensors are identical</p>"
    return head + _layers(of.layers) + _listed(rows, MAX_ROWS)


def _layers(layers: list[LayerDiff]) -> str:
    """Returns a table of the layers that changed, the most first, with a bar for the relative change of each."""
    changed = [layer for layer in layers if layer.changed]
    if not any(layer.name is not None for layer in changed):
        return ""

    def change(layer: LayerDiff) -> float:
        return float("inf") if layer.relative is None or layer.non_finite else layer.relative

    most = max((change(layer) for layer in changed if change(layer) < float("inf")), default=0.0) or 1.0
    names = ("layer", "tensors", "changed", "relative", "", "max", "cosine")
    titles = "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"
    rows = []
    for layer in sorted(changed, key=change, reverse=True)[:MAX_ROWS]:
        width = 100 * min(change(layer) / most, 1.0)
        bar = f"<div style='background:#b26a00;height:0.7em;width:{width:.0f}px'></div>"
        name = "(in no layer)" if layer.name is None else layer.name
        numbers = [f"{layer.changed} of {layer.tensors}", f"{100 * layer.share:.3g} %", _number(layer.relative)]
        cells = [text(cell) for cell in (name, *numbers)] + [bar]
        rows.append(_row(*cells, *(text(_number(x)) for x in (layer.max_abs, layer.cosine))))
    more = f"<p>and {len(changed) - MAX_ROWS} more layers</p>" if len(changed) > MAX_ROWS else ""
    return f"<table><thead>{titles}</thead><tbody>{''.join(rows)}</tbody></table>{more}"


@safe
def verified(of: VerifyReport) -> str:
    """Returns the verdict, the counts of the checks, and a table of the findings."""
    color = COLORS.get(of.verdict, "inherit")
    counts = {
        "tensors": of.tensors,
        "components": of.components,
        "read": size(of.read_len),
        **{f"{algorithm} matched": count for algorithm, count in of.digests.items()},
    }
    facts = ", ".join(f"{text(name)}: {text(str(count))}" for name, count in counts.items())
    rows = [(text(e.code), e.tensor or "", e._message) for e in of.findings]
    rows += [("not verified", u.tensor, f"{u.message} ({u.count}×)" if u.count > 1 else u.message) for u in of.unverified]
    rows += [("warning", w.tensor or "", w.message) for w in of.warnings]
    more = of.finding_count - len(of.findings)
    left = f"<p>and {more} more findings</p>" if more > 0 else ""
    return f"<p><b style='color:{color}'>{text(of.verdict)}</b>: {facts}</p>{_listed(rows, LISTED)}{left}"


def _listed(rows: list[tuple[str, str, str]], most: int) -> str:
    if not rows:
        return ""
    body = "".join(_row(*(text(cell) for cell in row)) for row in rows[:most])
    more = f"<p>and {len(rows) - most} more</p>" if len(rows) > most else ""
    return f"<table><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    return "" if value is None else text(_one_line(value), WIDTH)


def _one_line(value: object) -> str:
    """Returns a value in one line, not much longer than a cell."""
    if isinstance(value, (bytes, list)):
        shown = repr(value[:WIDTH])
    elif isinstance(value, str) or hasattr(value, "dtype"):
        # NumPy's times and arrays are shorter as text.
        shown = str(value)
    else:
        shown = repr(value)
    return " ".join(shown[: 2 * WIDTH].split())


@safe
def card(package: Package) -> str:
    """Returns a table of a package's description and of its files, with a bar for each."""
    if package.closed:
        return f"<p><b>{text(package.source)}</b>, closed</p>"
    name = package.name if package.name is not None else package.source
    about = f": {text(package.short_description, 2000)}" if package.short_description else ""
    runner = f"{package.runner.name} {package.runner.framework_version}"
    facts = {
        "opened as": package.source,
        "model hash": package.hash,
        "runner": runner,
        "license": package.license,
        "platforms": " · ".join(package.platforms) or "any",
        "self-tests": str(len(package.self_tests)) if package.self_tests else None,
    }
    lines = "".join(_row(text(key), text(fact)) for key, fact in facts.items() if fact)
    lines += _specs("input", package.inputs) + _specs("output", package.outputs)
    files = list(package.files.values())
    widest = max((f.nbytes or 0 for f in files), default=0) or 1
    rows = []
    for f in files[:MAX_ROWS]:
        width = round(100 * (f.nbytes or 0) / widest)
        bar = f'<div style="background:#4a90d9;height:.7em;width:{width}px"></div>'
        where = {"links": "only linked to"}.get(f.location, "")
        rows.append(_row(text(f.path), "?" if f.nbytes is None else size(f.nbytes), bar, where))
    more = f"<p>and {len(files) - MAX_ROWS} more files</p>" if len(files) > MAX_ROWS else ""
    return (
        f"<p><b>{text(name)}</b>{about}</p><table><tbody>{lines}</tbody></table>"
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
        return f"<p>{text(str(e))}</p>"
    if len(page) > LARGEST:
        return "<p>Its description and examples are large: <code>package.html()</code> has them.</p>"
    frame = f'<iframe sandbox="" srcdoc="{escape(page)}" style="width:100%;height:30em;border:0"></iframe>'
    return f"<details open><summary>Description and examples</summary>{frame}</details>"


def _row(first: str, *cells: str) -> str:
    left = "style='text-align:left'"
    return f"<tr><td {left}>{first}</td>" + "".join(f"<td {left}>{cell}</td>" for cell in cells) + "</tr>"


def _specs(what: str, specs: tuple[Spec, ...]) -> str:
    return "".join(_row(what, text(str(spec))) for spec in specs)
