"""Pictures of values as inline SVG: histograms and heat maps. They contain numbers only, no text from files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

#: The size of a histogram in pixels, and the number of its bars.
WIDTH, HEIGHT, BARS = 256, 72, 32
#: The maximum number of rows and columns of a heat map.
ROWS, COLUMNS = 32, 48
#: Colors from the smallest to the largest value: from blue over white to red if values have both signs.
_TWO_SIDED = ("#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f2f2f2", "#fddbc7", "#f4a582", "#d6604d", "#b2182b")
_ONE_SIDED = ("#f2f2f2", "#dbe7f4", "#bcd4ec", "#9bbfe3", "#78a8d8", "#568fca", "#3a75b5", "#245c9a", "#12437a")
#: The color of values that are not finite.
_ODD = "#e6ab02"


def histogram(counts: Sequence[int]) -> str:
    """Returns bars for counts, scaled to the largest."""
    most = max(counts, default=0)
    if not most:
        return ""
    each = WIDTH / len(counts)
    bars = []
    for at, count in enumerate(counts):
        if count:
            # The smallest count is still visible.
            height = max(1.0, (HEIGHT - 2) * count / most)
            bars.append(f"M{at * each:.1f} {HEIGHT - 1 - height:.1f}h{each * 0.92:.1f}v{height:.1f}h-{each * 0.92:.1f}z")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}"><path fill="#4a90d9" d="{"".join(bars)}"/>'
        f'<path stroke="currentColor" stroke-width=".5" d="M0 {HEIGHT - 0.5}h{WIDTH}"/></svg>'
    )


def places(count: int, most: int) -> list[int]:
    """Returns at most ``most`` positions below ``count``, at equal distances."""
    if count <= most:
        return list(range(count))
    return [at * count // most for at in range(most)]


def heat_map(values: np.ndarray[Any, Any]) -> str:
    """Returns a square for each value of a small matrix."""
    import numpy as np

    rows, columns = values.shape
    finite = values[np.isfinite(values)]
    if not finite.size:
        return ""
    low, high = float(finite.min()), float(finite.max())
    is_two_sided = low < 0 < high
    colors = _TWO_SIDED if is_two_sided else _ONE_SIDED
    if is_two_sided:
        high = max(-low, high)
        low = -high
    elif high <= 0:
        colors = colors[::-1]
    with np.errstate(all="ignore"):
        # Halved first, so that the difference of two large numbers is finite.
        span = high / 2 - low / 2
        scaled = (values / 2 - low / 2) / span if span > 0 else np.full(values.shape, 0.5)
        levels = np.where(np.isfinite(values), np.clip(scaled, 0, 1) * (len(colors) - 1) + 0.5, len(colors)).astype(int)
    paths: dict[int, list[str]] = {}
    for y in range(rows):
        x = 0
        while x < columns:
            level, start = int(levels[y, x]), x
            while x < columns and levels[y, x] == level:
                x += 1
            paths.setdefault(level, []).append(f"M{start} {y}h{x - start}v1h-{x - start}z")
    size = max(2, min(8, WIDTH // max(columns, 1)))
    drawn = "".join(
        f'<path fill="{(*colors, _ODD)[level]}" d="{"".join(path)}"/>' for level, path in sorted(paths.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{columns * size}" height="{rows * size}" '
        f'viewBox="0 0 {columns} {rows}" shape-rendering="crispEdges">{drawn}</svg>'
    )
