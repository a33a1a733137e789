"""Figures: PNG and SVG files that are whole, the same bytes every time, and show what they were given."""

import io
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from jaxband import plots
from jaxband.plots import style
from jaxband.simulation.summaries import Band

PNG = b"\x89PNG\r\n\x1a\n"


def band(top):
    rise = np.linspace(0.1, top, 4)
    return Band(rise, 0.1 * rise, 0.5 * rise, 1.5 * rise)


CHECKPOINTS = np.array([5, 10, 15, 20])
LINES = [
    plots.Lines(
        title, [(label, CHECKPOINTS, band(top)) for label, top in (("ours $1", 2.0), ("theirs $2", 1.0))], "same"
    )
    for title in ("<smooth>", "rough, noise 0.5")
]
PANEL = plots.Panel(
    mean=np.array([0.0, 0.5, 1.0]), deviation=np.array([0.1, 0.2, 0.3]), truth=np.array([0.1, 0.4, 1.2]),
    z=np.array([0, 2, 2]), rewards=np.array([0.05, 1.3, 0.9]),
)  # fmt: skip
LEAVES = [plots.Node((0, 3), 0, 0.25), plots.Node((2, 0), 1, 0.5)]
TREE = plots.Node(
    (1, 1), children=[plots.Node((0, 2), 0, 0.4, LEAVES), plots.Node((2, 0), 1, 0.1, LEAVES)]
)  # leaves pay 0.65, 0.9, 0.35, 0.6
GRID = np.array([[1.0, 2.0, np.nan], [3.0, 4.0, 5.0]])
DRAWN = {
    "bands": lambda f: plots.bands(LINES, "reward", "Over time & $more$", format=f),
    "heat": lambda f: plots.heat(
        [plots.Heat("a", GRID, "s"), plots.Heat("b", GRID + 1, "s")], "x", "y", list("abc"), list("de"),
        value="mean", title="Heat", format=f,
    ),
    "differences": lambda f: plots.differences(
        [("p", [plots.Difference("a − b", 1.0, 0.5, 1.5, True), plots.Difference("a − c", 0.1, -0.5, 0.7, False)])],
        "difference", "Differences", format=f,
    ),
    "posteriors": lambda f: plots.posteriors({"d = 1": [PANEL] * 3, "d = 2": [PANEL]}, "Posteriors", 2, format=f),
    "lookahead": lambda f: plots.lookahead(np.array([[0.1, 0.4, 0.3, 0.2], [0.5, 0.1, 0.5, 0.9]]), TREE, format=f),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_png_and_svg(name):
    assert DRAWN[name]("png").startswith(PNG)
    svg = DRAWN[name]("svg")
    assert ElementTree.fromstring(svg).tag.endswith("}svg")
    assert svg == DRAWN[name]("svg"), "ids and dates must not change"
    assert b"<dc:date>" not in svg


@pytest.fixture
def drawn(monkeypatch):
    """The figures themselves, instead of files."""
    figures = []
    for module in (plots.bands, plots.heat, plots.differences, plots.posteriors, plots.lookahead):
        monkeypatch.setitem(module.__globals__, "save", lambda figure, format: figures.append(figure) or b"")
    yield figures
    for figure in figures:
        plots.pyplot().close(figure)


def test_bands_show_means_and_percentiles_from_zero_on(drawn):
    DRAWN["bands"]("png")
    axes = drawn[0].axes
    assert [axis.get_title() for axis in axes] == ["<smooth>", "rough, noise 0.5"]
    means = [line for line in axes[0].lines if not line.get_label().startswith("_")]
    for line, (label, checkpoints, expected) in zip(means, LINES[0].lines, strict=True):
        assert line.get_label() == label.replace("$", r"\$")
        np.testing.assert_array_equal(line.get_xdata(), [0, *checkpoints])
        np.testing.assert_array_equal(line.get_ydata(), [0, *expected.mean])
    edges = {tuple(line.get_ydata()) for line in axes[0].lines if line.get_label().startswith("_")}
    assert edges == {(0, *x) for _, _, b in LINES[0].lines for x in (b.p05, b.p95)}
    assert len(drawn[0].legends) == 1 and not axes[0].get_legend(), "same labels, one legend"
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_panels_of_one_scale_have_the_same_colours_and_numbers_are_written_in(drawn):
    DRAWN["heat"]("png")
    first, second = (axis.images[0] for axis in drawn[0].axes if axis.images)
    assert first.get_clim() == second.get_clim() == (1.0, 6.0)
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["1", "2", "3", "4", "5"], "none for nan"


def test_differences_that_are_not_significant_are_hollow(drawn):
    DRAWN["differences"]("png")
    points = [line for line in drawn[0].axes[0].lines if line.get_marker() == "o"]
    assert [line.get_markerfacecolor() for line in points] == [plots.COLOURS[0], "white"]


def test_posteriors_show_mean_truth_and_every_reward(drawn):
    DRAWN["posteriors"]("svg")
    axes = [axis for axis in drawn[0].axes if axis.get_visible()]
    assert [axis.get_title() for axis in axes] == [f"arm {arm}: 3 plays" for arm in (1, 2, 3, 1)]
    assert [axis.get_ylabel() for axis in axes] == ["d = 1", "", "d = 1", "d = 2"], "rows of two"
    for axis in axes:
        mean, truth, rewards = axis.lines
        np.testing.assert_array_equal(mean.get_ydata(), PANEL.mean)
        np.testing.assert_array_equal(truth.get_ydata(), PANEL.truth)
        np.testing.assert_array_equal(rewards.get_xydata(), np.stack([PANEL.z, PANEL.rewards], axis=1))
        widest = axis.collections[0].get_paths()[0].vertices[:, 1]
        assert widest.max() == pytest.approx(1.0 + 2.5 * 0.3)
    low, high = axes[0].get_ylim()
    assert low < 0.0 - 0.2 and high > 1.0 + 0.6, "two deviations fit in"


def test_fewer_colours_keep_the_picture():
    figure, axis = plots.pyplot().subplots(figsize=(2, 2))
    axis.imshow(np.linspace(0, 1, 900).reshape(30, 30), cmap="viridis")
    whole = style.save(figure, "png")
    fewer = style.fewer_colours(whole)
    first, second = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int) for png in (whole, fewer))
    assert first.shape == second.shape
    assert np.abs(first - second).mean() < 5
    assert len(np.unique(second.reshape(-1, 3), axis=0)) <= 64 < len(np.unique(first.reshape(-1, 3), axis=0))
    assert len(fewer) < len(whole)


def test_the_tree_has_all_leaves_with_their_totals_and_marks_the_best(drawn):
    DRAWN["lookahead"]("png")
    curves, tree = drawn[0].axes
    assert [line.get_xydata().tolist() for line in curves.lines[1::2]] == [[[1.0, 0.4]], [[1.0, 0.1]]], "rests now"
    texts = [text.get_text() for text in tree.texts]
    assert texts.count("arm 1: +0.25") == texts.count("arm 2: +0.50") == 2
    totals = [text for text in tree.texts if text.get_text() in ("+0.65", "+0.90", "+0.35", "+0.60")]
    assert [text.get_text() for text in totals if text.get_fontweight() == "bold"] == ["+0.90"]
    assert len(totals) == 4
    bold = [line for line in tree.lines if line.get_linewidth() > 2]
    assert len(bold) == 2 and len(tree.lines) == 6, "the way to the best leaf"


def test_few_lines_have_colours_of_their_own_and_many_also_dashes():
    looks = style.looks([f"{i}" for i in range(12)] + ["3"])
    assert len(looks) == len({tuple(look.values()) for look in looks.values()}) == 12
    assert len({look["color"] for look in list(looks.values())[:7]}) == 7
    assert "#F0E442" not in {look["color"] for look in looks.values()}, "yellow is not seen on white"
