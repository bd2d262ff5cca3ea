"""Canvas of charts: matplotlib axes that are saved as inline SVG.

Colours are variables of ``page.css``, so that charts follow the page in dark mode. Texts are set by the
browser: matplotlib places numbered placeholders, which are replaced by the escaped texts.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

WIDTH_PX = 340
FONT_PX = 12
COLOUR_COUNT = 8  # series colours in page.css
LEFT, RIGHT, TOP, BOTTOM = 54.0, 18.0, 10.0, 38.0
"""Margins of the axes, pixels."""

TEXT, MUTED, GRID = "#0000f0", "#0000f1", "#0000f2"
"""Colours that stand for variables of the page until a chart is saved."""
COLOURS = tuple(f"#f0000{index}" for index in range(COLOUR_COUNT))
_VARIABLES = {TEXT: "text", MUTED: "muted", GRID: "grid"} | {
    colour: f"c{index}" for index, colour in enumerate(COLOURS)
}
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sim2cam",
    "font.size": FONT_PX,  # a point is a pixel, as SVG has 72 dots per inch
    "axes.labelsize": FONT_PX,
    "xtick.labelsize": FONT_PX,
    "ytick.labelsize": FONT_PX,
    "text.color": TEXT,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "grid.color": GRID,
    "grid.linewidth": 1.0,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 9.0,
}


@dataclass(frozen=True)
class LegendEntry:
    """Entry of a legend: colour index, label and value."""

    colour: int
    label: str
    value: str = ""


@dataclass(frozen=True)
class Chart:
    """Chart: inline SVG, and a legend if it has several series."""

    title: str
    svg: str
    legend: tuple[LegendEntry, ...] = ()

    def __html__(self) -> str:
        """Return the SVG, which templates insert without escaping."""
        return self.svg


class Canvas:
    """Figure with one pair of axes, whose texts are placeholders until it is saved."""

    def __init__(
        self,
        height: float,
        *,
        width: float = WIDTH_PX,
        left: float = LEFT,
        right: float = RIGHT,
        bottom: float = BOTTOM,
    ) -> None:
        self._size = width, height + TOP + bottom
        self._margins, self._axes_size = (left, bottom), (width - left - right, height)
        self._figure = Figure(figsize=(width / 72, self._size[1] / 72))
        self.axes: Axes = self._figure.add_axes(
            (left / width, bottom / self._size[1], (width - left - right) / width, height / self._size[1])
        )  # fmt: skip
        self._texts: list[str] = []
        for axis in (self.axes.xaxis, self.axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))

    def add(self, text: str) -> str:
        """Return the placeholder of a text."""
        self._texts.append(text)
        return f"@{len(self._texts) - 1}@"

    def set_labels(self, x_label: str, y_label: str) -> None:
        """Set the labels of the axes; empty for none."""
        self.axes.set_xlabel(self.add(x_label) if x_label else "")
        self.axes.set_ylabel(self.add(y_label) if y_label else "")
        left, bottom = (margin - FONT_PX for margin in self._margins)
        width, height = self._axes_size
        self.axes.xaxis.set_label_coords(0.5, -bottom / height)
        self.axes.yaxis.set_label_coords(-left / width, 0.5)

    def save(self, title: str, description: str, legend: Sequence[LegendEntry] = ()) -> Chart:
        """Return the chart with a title and a description for screen readers."""
        self._figure.patch.set_visible(False)
        self.axes.patch.set_visible(False)
        file = io.StringIO()
        FigureCanvasSVG(self._figure).print_svg(file, metadata={"Date": None})
        content = file.getvalue().partition("</metadata>")[2].rpartition("</svg>")[0]
        content = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", content, flags=re.DOTALL)
        content = re.sub(r'<g id="[^"]*">', "<g>", content)
        content = re.sub(r" font-family: [^;\"]*;?| transform=\"rotate\(-0 [^\"]*\)\"", "", content)
        content = re.sub(r"\s*\n\s*", " ", content)
        content = re.sub("|".join(_VARIABLES), lambda m: f"var(--{_VARIABLES[m[0]]})", content)
        prefix = hashlib.sha256(
            (title + content + description).encode(errors="replace")
        ).hexdigest()[:12]
        content = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>c{prefix}-", content)
        content = re.sub("@([0-9]+)@", lambda m: str(escape(self._texts[int(m[1])])), content)
        width, height = self._size
        return Chart(
            title,
            (
                f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" style="--width: {width:g}px" role="img" '
                f'aria-labelledby="c{prefix}-t c{prefix}-d"><title id="c{prefix}-t">{escape(title)}</title>'
                f'<desc id="c{prefix}-d">{escape(description)}</desc>{content}</svg>'
            ),
            tuple(legend),
        )  # fmt: skip
