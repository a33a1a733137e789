"""What all figures share: colours that colour-blind readers can tell apart (Okabe and Ito), and how they are saved."""

import io

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


def pyplot():
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("plots need matplotlib; install it with: pip install 'jaxband[experiments]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def png(figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    pyplot().close(figure)
    return buffer.getvalue()
