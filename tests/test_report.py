"""`jaxband plot` and `jaxband report`: what they show is what was run, in pages that stand by themselves."""

import base64
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from sweep_tools import Fast, pretend, pretended, pretended_trajectories, small_spec

from jaxband import cli, sweep
from jaxband.report import figures, labels, page
from jaxband.sweep.storage.units import Unit

NASTY = "<script>alert('1')</script> & \"wide\""
GRID = {"policy": ["rgp_ts", "random"], "lengthscale": [1.0, 2.0], "noise": [0.1, 0.2]}
VOID = {"meta", "img", "br"}


def run(directory, engine=pretend, **changes):
    spec = small_spec(**({"grid": GRID} | changes))
    sweep.run(spec, directory, engine=engine, progress=False, disk=Fast())
    return sweep.load(directory)


@pytest.fixture
def results(tmp_path):
    return run(tmp_path / "sweep")


class Page(HTMLParser):
    """Tags must be closed in order; text and addresses are kept."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.links, self.text, self.tables, self.images = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "action", "srcset")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


def named(results, things):
    """By environment and policy, as people see them."""
    shown = zip(labels.environments(results.cells), labels.policies(results.cells), strict=True)
    return dict(zip(shown, things, strict=True))


def number(text):
    return float(text.removeprefix("★ ").replace(",", "").replace("−", "-"))


def test_cells_are_named_by_what_tells_them_apart(results):
    assert set(labels.policies(results.cells)) == {"random", "1RGP-TS, lengthscale 1", "1RGP-TS, lengthscale 2"}
    assert set(labels.environments(results.cells)) == {"noise 0.1", "noise 0.2"}
    pairs = list(zip(labels.policies(results.cells), labels.environments(results.cells), strict=True))
    assert len(set(pairs)) == len(pairs)


def test_what_a_problem_borrows_names_the_environment_and_not_the_policy(tmp_path):
    found = run(tmp_path, problems={"p": {"family": "gp"}}, num_arms=2, z_max=2)
    assert set(labels.policies(found.cells)) == {"random", "1RGP-TS"}
    assert set(labels.environments(found.cells)) == {f"noise {s}, lengthscale {l}" for s in (0.1, 0.2) for l in (1, 2)}


def test_every_setting_has_a_word_for_every_value():
    assert labels.axis("lengthscale") == "lengthscale (rounds)"
    assert labels.axis("predictive_variance") == "predictive variance", "words are made of the name if none are given"
    assert [labels.said("repeats", x) for x in (True, False)] == ["repeats", "no repeats"]
    shown = {
        ("noise", 0.5): "noise 0.5",
        ("policy", "round_robin"): "round robin",
        ("policy", "of_a_user"): "of_a_user",
        ("refit_every", 10): "refits every 10 plans",
        ("beta", "none"): "β: none",
        ("kernel", "matern"): "kernel Matérn",
    }
    assert {pair: labels.said(*pair) for pair in shown} == shown


def test_curves_over_time_are_numpys_percentiles(results, monkeypatch):
    shown = []
    monkeypatch.setattr(figures.plots, "bands", lambda page, *labels, **_: shown.extend(page))
    (picture,) = figures.over_time(results, "total_reward")
    picture.draw(format="png")
    assert [panel.title for panel in shown] == ["noise 0.1", "noise 0.2"]
    by_name = named(results, results.cells)
    count = 0
    for panel in shown:
        for label, checkpoints, band in panel.lines:
            paths = pretended_trajectories(Unit(by_name[panel.title, label], 0, 7), "total_reward").astype(np.float64)
            assert checkpoints.tolist() == [1, 2, 3, 4, 5]
            np.testing.assert_allclose(band.mean, paths.mean(axis=0), rtol=1e-12)
            np.testing.assert_array_equal([band.p05, band.p95], np.percentile(paths, [5, 95], axis=0))
            count += 1
    assert count == 6


def test_many_policies_are_split_into_panels_of_seven_lines_at_most(tmp_path):
    grid = {"policy": ["rgp_ts", "rgp_ucb", "random"], "lengthscale": [1.0, 2.0, 3.0, 4.0], "warm_up": [0, 1, 2]}
    found = run(tmp_path, grid=grid)
    panels = figures._panels(found, list(range(len(found.cells))))
    assert sorted(i for _, places in panels for i in places) == list(range(25))
    assert max(len(places) for _, places in panels) <= 7
    assert len({title for title, _ in panels}) == len(panels)


def test_heat_maps_have_the_means_in_their_places(results, monkeypatch):
    shown = []
    monkeypatch.setattr(figures.plots, "heat", lambda maps, *labels, **_: shown.append((maps, labels)))
    assert figures.heat_axes(results) == ("noise", "lengthscale")
    (picture,) = figures.heat_maps(results, "total_reward")
    picture.draw(format="png")
    ((maps, labels),) = shown
    assert labels == ("noise", "lengthscale (rounds)", ["0.1", "0.2"], ["1", "2"])
    grids = {heat.title: heat.values for heat in maps}
    assert set(grids) == {"RGP-TS", "random"}
    for cell in results.cells:
        s, mean = cell.settings, pretended(Unit(cell, 0, 7), "total_reward").mean()
        rows = [[1.0, 2.0].index(s["lengthscale"])] if s["policy"] == "rgp_ts" else [0, 1]
        title = "RGP-TS" if s["policy"] == "rgp_ts" else "random"
        assert all(grids[title][row, [0.1, 0.2].index(s["noise"])] == mean for row in rows)


@pytest.mark.parametrize(
    ("grid", "axes"),
    [
        ({"policy": "rgp_ts", "lengthscale": [1, 2], "warm_up": [0, 1, 2]}, ("warm_up", "lengthscale")),
        ({"policy": ["rgp_ts", "random"], "lengthscale": [1, 2]}, ("lengthscale", "policy")),
        ({"policy": "rgp_ts", "lengthscale": [1, 2], "seed": [0, 1, 2]}, None),
        ({"policy": ["rgp_ts", "random"], "lengthscale": 1}, None),
    ],
)
def test_heat_axes_are_the_settings_with_most_values(tmp_path, grid, axes):
    assert figures.heat_axes(run(tmp_path, grid=grid)) == axes


def test_with_many_policies_each_is_compared_with_the_best(tmp_path):
    found = run(tmp_path, grid={"policy": "rgp_ts", "lengthscale": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]})
    for metric, best in (("total_reward", np.argmax), ("instantaneous_regret", np.argmin)):
        pairs, how = figures.comparisons(found, metric)
        assert "best mean" in how and len(pairs) == 6
        assert {c.second for c in pairs} == {int(best([arrays[metric].mean() for arrays in found.totals]))}
    pairs, _ = figures.comparisons(
        run(tmp_path / "few", grid={"policy": ["rgp_ts", "random"], "lengthscale": 1.0}), metric
    )
    assert [(c.first, c.second) for c in pairs] == [(0, 1)]


def test_plot_writes_png_and_svg(tmp_path, capsys):
    run(tmp_path / "sweep", name=NASTY, lookahead=2)
    assert cli.main(["plot", str(tmp_path / "sweep"), "--out", str(tmp_path / "p"), "--format", "png,svg"]) == 0
    written = sorted(path.name for path in (tmp_path / "p").iterdir())
    kinds = ("differences", "heat", "time")
    metrics = ("expected_reward", "bound_gap")
    assert written == sorted(f"{k}-{m}.{f}" for k in kinds for m in metrics for f in ("png", "svg"))
    assert sorted(capsys.readouterr().out.split()) == [str(tmp_path / "p" / name) for name in written]
    for path in (tmp_path / "p").glob("*.svg"):
        ElementTree.fromstring(path.read_bytes())
    assert cli.main(["plot", str(tmp_path / "sweep"), "--metric", "lookahead_regret", "--heat", "noise", "policy"]) == 0
    assert len(list((tmp_path / "sweep" / "plots").iterdir())) == 3
    again = small_spec(name=NASTY, grid=GRID, lookahead=2)
    sweep.run(again, tmp_path / "sweep", engine=pretend, disk=Fast())  # pictures are not in the way


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "pdf"], "--format must be png, svg or both"),
        (["--metric", "reward"], "unknown metric 'reward'"),
        (["--heat", "noise", "depth"], "unknown setting that varies 'depth'; there are policy, noise, lengthscale"),
        (["--heat", "noise", "noise"], "two different settings"),
        (["--against", "randm"], "did you mean 'random'"),
    ],
)
def test_arguments_that_make_no_sense_are_2(tmp_path, capsys, options, message):
    run(tmp_path)
    assert cli.main(["plot", str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "plots").exists()


def test_what_cannot_be_drawn_is_said(tmp_path, capsys):
    run(tmp_path / "a", trajectories=0, grid={"policy": ["random", "round_robin"]})
    assert cli.main(["plot", str(tmp_path / "a")]) == 0
    error = capsys.readouterr().err
    assert "trajectories = 0" in error and "no heat map: fewer than two settings vary" in error
    run(tmp_path / "b", trajectories=0, grid={"policy": "random"})
    assert cli.main(["plot", str(tmp_path / "b")]) == 2
    assert "nothing to draw" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path / "b")]) == 0
    run(tmp_path / "c", engine=lambda units: [])
    assert cli.main(["plot", str(tmp_path / "c")]) == 2
    assert "no results yet; run the sweep first" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path / "c")]) == 3
    for command in ("plot", "report"):
        assert cli.main([command, str(tmp_path / "nowhere")]) == 2
        assert "holds no sweep" in capsys.readouterr().err


def test_an_incomplete_sweep_is_plotted_and_reported_as_far_as_it_is(tmp_path, capsys):
    run(tmp_path, engine=lambda units: list(pretend(units))[:-4], metrics=["total_reward"])
    for command in ("plot", "report"):
        assert cli.main([command, str(tmp_path)]) == 3
        assert "replications are missing; run the sweep again" in capsys.readouterr().err
    text = "".join(Page((tmp_path / "report.html").read_text()).text)
    assert re.search(r"Incomplete: \d+ replications \(\d+\.\d%\) are missing; 1 cell", text)


def test_without_matplotlib_the_remedy_is_named(tmp_path, capsys, monkeypatch):
    run(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for command in ("plot", "report"):
        with pytest.raises(SystemExit, match=r"pip install 'jaxband\[experiments\]'"):
            cli.main([command, str(tmp_path)])


def test_the_report_stands_by_itself_and_nothing_in_it_is_code(tmp_path):
    problems = {"<b>p</b>": {"family": "table", "rows": [[0.0, 1.0], [0.3, 0.4]]}}
    run(tmp_path, name=NASTY, problems=problems)
    with open(tmp_path / "log.jsonl", "a") as log:
        log.write(json.dumps({"time": 0.0, "event": "stopped", "reason": "<img src=http://evil>"}) + "\n{half")
    (tmp_path / "units" / "<i>.txt").write_text("no unit")
    assert cli.main(["report", str(tmp_path), "--out", str(tmp_path / "x" / "r.html")]) == 0
    source = (tmp_path / "x" / "r.html").read_text()
    read = Page(source)
    assert source.startswith("<!DOCTYPE html>")
    assert not {"script", "b", "i", "link", "iframe", "object"} & set(read.tags)
    assert read.links and all(link.startswith("data:image/svg+xml;base64,") for link in read.links)
    assert "http" not in re.sub(r"base64,[^\"]*", "", source).replace("http://evil", "") and "url(" not in source
    text = "".join(read.text)
    for said in (NASTY, "<b>p</b>", "<img src=http://evil>", "<i>.txt"):
        assert said in text
    for link in read.links:
        ElementTree.fromstring(base64.b64decode(link.partition("base64,")[2]))
    assert source == page.page(sweep.load(tmp_path), tmp_path), "the same sweep, the same page"


def test_tables_hold_the_summaries_and_mark_the_best(tmp_path):
    """One policy is far better than the other in every replication."""

    def engine(units):
        for unit, measured in pretend(units):
            if unit.cell.settings["policy"] == "rgp_ts" and unit.cell.settings["lengthscale"] == 2.0:
                measured.totals["total_reward"] += 1e9
            yield unit, measured

    found = run(tmp_path, engine=engine)
    assert page.leaders(found, "total_reward") == {
        i for i, cell in enumerate(found.cells) if cell.settings.get("lengthscale") == 2.0
    }
    cli.main(["report", str(tmp_path)])
    read = Page((tmp_path / "report.html").read_text())
    head, *rows = read.tables[0]
    assert head[2:] == ["mean", "standard error", "5 %", "median", "95 %", "replications"]
    assert len(rows) == 6 and [row[2].startswith("★") for row in rows].count(True) == 2
    labels = named(found, found.totals)
    for row in rows:
        values = labels[row[0], row[1]]["total_reward"]
        expected = [values.mean(), values.std(ddof=1) / 7**0.5, *np.percentile(values, [5, 50, 95])]
        np.testing.assert_allclose([number(x) for x in row[2:7]], expected, rtol=0.06, atol=1e6)
        np.testing.assert_allclose(number(row[2]), expected[0], rtol=1e-2)
    head, *rows = next(table for table in read.tables if "p, Holm" in table[0])
    assert len(rows) == len(found.paired("expected_reward")) == 6
    for row, expected in zip(rows, found.paired("expected_reward"), strict=True):
        np.testing.assert_allclose(number(row[3]), expected["difference"], rtol=1e-2, atol=1e6)


def test_the_report_leads_with_reward_and_bound_gap_and_says_what_a_metric_cannot_tell(tmp_path):
    """Regret against the best arm of a round is folded away, with a remark: it rewards those who let nothing rest."""
    found = run(tmp_path, lookahead=2)
    assert figures.chosen(found, ()) == ["expected_reward", "bound_gap"]
    names = [picture.name for picture in figures.pictures(found)]
    assert names == [f"{k}-{m}" for m in ("expected_reward", "bound_gap") for k in ("time", "heat", "differences")]
    source = page.page(found, tmp_path)
    read = Page(source)
    text = "".join(read.text)
    captions = [re.escape(f"{name} at the horizon; {how} is better") for name, how in LEADING + FOLDED]
    assert re.search(".*".join(captions), text, re.DOTALL), "in this order"
    folded = "".join(re.findall(r"<details>.*?</details>", source, re.DOTALL))
    assert all(f"{name} at the horizon" in folded for name, _ in FOLDED)
    assert not any(f"{name} at the horizon" in folded for name, _ in LEADING)
    for metric in found.manifest.metrics:
        assert labels.remark(metric) in text
    assert "compare policies by reward or bound gap" in labels.remark("instantaneous_regret")
    for metric in ("expected reward", "bound gap"):
        assert f"Cumulative {metric} over time" in text
    assert "Cumulative instantaneous regret" not in text


LEADING = [("Total reward", "higher"), ("Bound gap", "lower")]
FOLDED = [
    ("Expected reward", "higher"),
    ("Instantaneous regret", "lower"),
    ("Lookahead regret", "lower"),
    ("Bound fraction", "higher"),
]


@pytest.mark.parametrize(
    ("errors", "digits"), [([24.0, 21.0], 0), ([2.4], 1), ([0.024], 3), ([np.nan], 1), ([0.0], 1), ([1e-12], 6)]
)
def test_numbers_have_the_digits_that_their_errors_allow(errors, digits):
    assert page._digits(errors) == digits


def test_numbers_are_readable():
    assert page._number(-1234.56, 1) == "−1,234.6" and page._number(1.0, 2, "+") == "+1.00"
    assert page._number(np.nan, 1) == "–" and page._probability(1e-9) == "< 0.0001"
