"""How the figures look: an arm's colour, line and marker, sizes for print, and files that are the same every time.

Text in the SVGs is drawn as outlines. As text it would be set in whatever font the reader's machine has, and matplotlib
has placed it for its own; as outlines it looks the same in every browser, without any font, and in print.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import matplotlib.style
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator

from analysis.results.summary import LAST_STEPS
from sagc.system.files import write_atomically

WIDE, NARROW = 7.0, 3.5  # inches: the text width and a column of a two-column page
DPI = 150
GREY, FAINT = "#555555", "#BBBBBB"
MOST_POINTS = 250  # of a line; more would not be seen at these sizes
STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine has it
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize", "figure.labelsize"), 8),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 8),
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.5),
    "lines.linewidth": 1.2,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.4,
    "legend.borderpad": 0,
    "legend.labelspacing": 0.35,
    "text.parse_math": False,  # a name may hold any character
    "svg.fonttype": "path",
    "path.simplify_threshold": 0.25,
}


# Arms ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArmStyle:
    """What an arm is drawn with, in every figure."""

    color: str
    line: str | tuple
    marker: str


SOLID, DASHED, DOTTED = "solid", (0, (4, 1.5)), (0, (1, 1.2))
DASH_DOTTED, LONG_DASHED = (0, (5, 1.2, 1, 1.2)), (0, (8, 1.5))
# Colours of Okabe and Ito, which people with any colour blindness tell apart.
ARMS = {
    "4": ArmStyle("#56B4E9", DOTTED, "v"),
    "8": ArmStyle("#0072B2", DASHED, "s"),
    "16": ArmStyle("#000000", DASH_DOTTED, "^"),
    "sagc": ArmStyle("#D55E00", SOLID, "o"),
    "sagc-robust": ArmStyle("#009E73", LONG_DASHED, "D"),
}
OTHERS = (
    ArmStyle("#CC79A7", DASHED, "P"),
    ArmStyle("#E69F00", DASHED, "X"),
    ArmStyle("#999999", DASHED, "p"),
    ArmStyle("#CC79A7", DOTTED, "<"),
    ArmStyle("#E69F00", DOTTED, ">"),
    ArmStyle("#999999", DOTTED, "h"),
    ArmStyle("#CC79A7", DASH_DOTTED, "*"),
)


def arm_style(group: str) -> ArmStyle:
    """The style of an arm by its group; that of another static size depends on nothing but the size, and that of a
    controller with a name of its own on nothing but the name."""
    if group in ARMS:
        return ARMS[group]
    # Half the size: 2, 6, 12, 24, 32 and 64 then all get a style of their own.
    number = int(group) // 2 if group.isdigit() else zlib.crc32(group.encode())
    return OTHERS[number % len(OTHERS)]


def arm_label(group: str) -> str:
    """What an arm is called in a figure."""
    return f"static {group}" if group.isdigit() else group


def arm_handles(groups: Iterable[str], line: bool = True) -> list[Artist]:
    """What stands for the arms in a legend: their lines with markers, or patches of their colours."""
    handles = []
    for group in groups:
        style, label = arm_style(group), arm_label(group)
        if line:
            handles.append(Line2D([], [], color=style.color, linestyle=style.line, marker=style.marker, label=label))
        else:
            handles.append(Patch(color=style.color, linewidth=0, label=label))
    return handles


# Figures, axes and lines ---------------------------------------------------------------------------------------------

LEGEND_LINE = 0.19  # inches


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, legend: Sequence[Artist] = (), abreast: int = 6
) -> tuple[Figure, GridSpec]:
    """An empty figure with matplotlib's constrained layout, and the grid that its panels go into.

    Parameters
    ----------
    width, height : float
        Of the figure, and of one row of panels with its labels, in inches.
    rows, columns : int
        Of the grid.
    legend : sequence of artists
        Stands above the panels, with at most `abreast` entries to a line.
    """
    lines = math.ceil(len(legend) / abreast)
    figure = Figure(figsize=(width, rows * height + lines * LEGEND_LINE), layout="constrained")
    if lines:
        figure.legend(handles=legend, loc="outside upper center", ncols=math.ceil(len(legend) / lines))
    return figure, figure.add_gridspec(rows, columns)


def step_axis(axes: Axes, last: int, labelled: bool = True) -> None:
    """Put whole steps, up to the last one, on the x axis, and name it if its ticks are labelled."""
    axes.set_xlim(0, last * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    axes.tick_params(axis="x", labelbottom=labelled)
    axes.set_xlabel("step" if labelled else "")


def share_axis(axes: Axes) -> None:
    """Zero to one on the y axis."""
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))


def draw_line(axes: Axes, values: pd.Series, **style) -> None:
    """Draw values over their index, thinned; a single one as a point."""
    values = thin(values)
    axes.plot(values.index, values.to_numpy(), marker="." if len(values) == 1 else None, **style)


def running_mean(values: pd.DataFrame | pd.Series) -> pd.DataFrame | pd.Series:
    """Mean over the last ten steps (the first steps: over those there are); NaN where none of them has a value."""
    return values.astype(float).rolling(LAST_STEPS, min_periods=1).mean()


def thin(rows: pd.DataFrame | pd.Series) -> pd.DataFrame | pd.Series:
    """Every so many rows, so that at most MOST_POINTS are left; the last one always is."""
    every = math.ceil(len(rows) / MOST_POINTS) or 1
    return rows[(len(rows) - 1) % every :: every]


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit that times up to this long are shown in, and how many seconds it has."""
    if seconds < 120:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 7200 else ("hours", 3600.0)


# Files ---------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Within it, figures are made and saved in the style of this module, whatever the user's matplotlibrc says."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def save_figure(figure: Figure, data: pd.DataFrame, folder: Path, name: str, title: str) -> tuple[Path, Path, Path]:
    """Write NAME.svg, NAME.png and NAME.csv, each whole or not, and return their paths.

    The same figure gives the same bytes. Ids in the SVG are unique to its name, so that several can stand in one page.
    """
    svg, png, csv = (folder / f"{name}{ending}" for ending in (".svg", ".png", ".csv"))
    write_atomically(csv, data.to_csv(index=False))
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")  # once laid out, it keeps its layout for both files
    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    write_atomically(svg, _for_a_page(drawn.getvalue(), name, title))
    temporary = png.with_name(f".{png.name}.{os.getpid()}.tmp")
    try:
        figure.savefig(temporary, format="png", dpi=DPI, metadata={"Software": None})
        os.replace(temporary, png)
    finally:
        temporary.unlink(missing_ok=True)
    return svg, png, csv


SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
REFERENCE = re.compile(r"url\(#([^)]+)\)")
FRACTION = re.compile(r"-?\d+\.\d+")


def _for_a_page(svg: str, name: str, title: str) -> str:
    """The SVG for a page with others: with a title, no style for the whole page, ids of its own, and shorter.

    matplotlib numbers its groups and names its glyphs alike in every figure. Ids that nothing refers to are dropped.
    """
    ElementTree.register_namespace("", SVG[1:-1])
    ElementTree.register_namespace("xlink", LINK[1:].partition("}")[0])
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))  # they say what the text is
    root = ElementTree.fromstring(svg, parser=parser)
    for parent in root.findall(f".//{SVG}style/.."):
        parent.remove(parent.find(f"{SVG}style"))
    if (metadata := root.find(f"{SVG}metadata")) is not None:
        root.remove(metadata)
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")  # what the removed style said
    root.set("role", "img")
    label = ElementTree.Element(f"{SVG}title")
    label.text = title
    root.insert(0, label)
    own = "f" + hashlib.sha256(name.encode()).hexdigest()[:8] + "-"
    used = {found for each in root.iter() for value in each.attrib.values() for found in _references(value)}
    for element in root.iter():
        if element.attrib.get("id") not in used:
            element.attrib.pop("id", None)
        for key, value in element.attrib.items():
            element.set(key, _shorter(key, value, own))
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _references(value: str) -> list[str]:
    return [value[1:]] if value.startswith("#") else REFERENCE.findall(value)


def _shorter(key: str, value: str, own: str) -> str:
    """An attribute with ids prefixed, and coordinates in hundredths of a point."""
    if key == "id":
        return own + value
    if key == LINK:
        return f"#{own}{value[1:]}"
    if key in ("d", "x", "y"):
        return " ".join(FRACTION.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), value).split())
    return REFERENCE.sub(rf"url(#{own}\1)", value)
