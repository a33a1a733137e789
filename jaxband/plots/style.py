"""What all figures share: colours that colour-blind readers can tell apart (Okabe and Ito), and how they are saved."""

import io
import math
import textwrap
from collections.abc import Sequence

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LINES = 7  # colours that are seen well on white: all but yellow
DASHES = ("-", "--", ":", "-.")
FORMATS = ("png", "svg")
COLUMNS = 3  # of panels


def pyplot():
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("plots need matplotlib; install it with: pip install 'jaxband[experiments]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def png(figure) -> bytes:
    return save(figure, "png")


def save(figure, format: str) -> bytes:
    """The figure as a PNG or SVG file, the same bytes for the same figure; it is closed."""
    buffer, plt = io.BytesIO(), pyplot()
    with plt.rc_context({"svg.hashsalt": "jaxband"}):  # else its ids are drawn at random
        figure.savefig(buffer, format=format, dpi=110, metadata={"Date": None} if format == "svg" else None)
    plt.close(figure)
    return buffer.getvalue()


def fewer_colours(png: bytes, count: int = 64) -> bytes:
    """The same picture with a palette of so many colours: a third of the bytes where there is much shading."""
    from PIL import Image  # matplotlib brings it

    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(count, dither=Image.Dither.NONE).save(
        buffer, "png", optimize=True
    )
    return buffer.getvalue()


def plain(text: str, width: int | None = None) -> str:
    """Text that is shown as it is, dollar signs too; in lines of at most so many characters."""
    return (textwrap.fill(text, width) if width else text).replace("$", r"\$")


def looks(labels: Sequence[str]) -> dict[str, dict]:
    """A colour and a dash for every label; a label that comes up again looks the same again."""
    return {
        label: {"color": COLOURS[i % LINES], "linestyle": DASHES[i // LINES % len(DASHES)]}
        for i, label in enumerate(dict.fromkeys(labels))
    }


def panels(count: int, width: float, height: float, **options):
    """A figure and so many axes in rows of three."""
    columns = min(count, COLUMNS)
    rows = math.ceil(count / columns)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained", **options
    )
    for unused in axes.flat[count:]:
        unused.set_visible(False)
    return figure, list(axes.flat[:count])
