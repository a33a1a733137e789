"""Reading a sweep: named dimensions, and differences between policies against scipy."""

import sys

import numpy as np
import pytest
import scipy.stats
from sweep_tools import Fast, pretend, pretended, small_spec

from jaxband import sweep
from jaxband.sweep import estimate, paired, tables
from jaxband.sweep.storage.units import Unit

GRID = {"policy": ["rgp_ts", "random"], "lengthscale": [1.0, 2.0], "noise": [0.1, 0.2]}


@pytest.fixture
def results(tmp_path):
    sweep.run(small_spec(grid=GRID), tmp_path, engine=pretend, progress=False, disk=Fast())
    return sweep.load(tmp_path)


def values(cell, metric="total_reward"):
    return pretended(Unit(cell, 0, 7), metric)


def test_xarray_has_the_settings_that_vary_as_dimensions(results):
    pytest.importorskip("xarray", reason="pip install 'jaxband[results]'")
    data = results.to_xarray()
    assert dict(data.sizes) == {"policy": 2, "noise": 2, "lengthscale": 2, "replication": 7}
    assert set(data.data_vars) == set(results.manifest.metrics)
    for cell in results.cells:
        s = cell.settings
        lengthscales = [s["lengthscale"]] if "lengthscale" in s else [1.0, 2.0]  # random is the same all along
        for l in lengthscales:
            there = data.total_reward.sel(policy=s["policy"], noise=s["noise"], lengthscale=l)
            np.testing.assert_array_equal(there, values(cell))


def test_xarray_has_nan_for_what_was_not_run(tmp_path):
    pytest.importorskip("xarray", reason="pip install 'jaxband[results]'")
    few = lambda units: list(pretend(units))[:1]  # noqa: E731
    sweep.run(small_spec(), tmp_path, engine=few, progress=False, disk=Fast())
    data = sweep.load(tmp_path).to_xarray()
    assert np.isfinite(data.total_reward).sum() == 3


def test_xarray_refuses_an_array_that_would_be_mostly_empty(results, monkeypatch):
    pytest.importorskip("xarray", reason="pip install 'jaxband[results]'")
    monkeypatch.setattr("jaxband.sweep.results.MOST_VALUES", 10)
    with pytest.raises(ValueError, match=r"mostly empty; use rows\(\)"):
        results.to_xarray()


@pytest.mark.parametrize(("module", "call"), [("xarray", "to_xarray"), ("pyarrow", "parquet")])
def test_without_a_library_the_remedy_is_named(results, tmp_path, monkeypatch, module, call):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'jaxband\[results\]'"):
        results.to_xarray() if call == "to_xarray" else tables.write_parquet(results.rows(), tmp_path / "x")


def test_paired_differences_are_scipys(results):
    rows = results.paired("total_reward")
    by_label = dict(zip(paired.labels(results.cells), results.cells, strict=False))
    assert set(by_label) == {"random", "rgp_ts lengthscale=1.0", "rgp_ts lengthscale=2.0"}
    assert len(rows) == 2 * 3, "three policies, two noises"
    for row in rows:
        first, second = (
            next(
                values(c)
                for c, l in zip(results.cells, paired.labels(results.cells), strict=True)
                if l == row[side] and c.settings["noise"] == row["noise"]
            )
            for side in ("first", "second")
        )
        test = scipy.stats.ttest_rel(first, second)
        interval = test.confidence_interval(0.95)
        np.testing.assert_allclose([row["low"], row["high"], row["p"]], [*interval, test.pvalue], rtol=1e-9)
        assert row["difference"] == pytest.approx((first - second).mean())
        assert row["p"] <= row["p_holm"] <= 1.0


def test_only_cells_that_met_the_same_problem_are_compared(tmp_path):
    """A Gaussian process whose lengthscale is the cell's is another problem for every lengthscale."""
    spec = small_spec(grid=GRID, problems={"p": {"family": "gp"}}, num_arms=2, z_max=2)
    sweep.run(spec, tmp_path, engine=pretend, progress=False, disk=Fast())
    rows = sweep.load(tmp_path).paired()
    assert len(rows) == 4
    for row in rows:
        assert {row["first"], row["second"]} == {"random", f"rgp_ts lengthscale={row['lengthscale']}"}
    assert sorted((row["noise"], row["lengthscale"]) for row in rows) == [
        (0.1, 1.0),
        (0.1, 2.0),
        (0.2, 1.0),
        (0.2, 2.0),
    ]
    text = estimate.describe(spec)
    assert text.count("\n") == 10 and len(set(line.partition(" ")[2] for line in text.splitlines()[1:9])) == 8


def test_holm_by_hand():
    assert paired.holm([]) == []
    assert paired.holm([0.2]) == [0.2]
    np.testing.assert_allclose(paired.holm([0.04, 0.01, 0.03, 0.9]), [0.09, 0.04, 0.09, 0.9])
    assert paired.holm([0.5, 0.6, 0.7]) == [1.0, 1.0, 1.0]


def test_no_difference_at_all():
    same, other = np.arange(5.0), np.arange(1.0, 6.0)
    (row,) = paired.compare([same, same], [(0, 1)])
    assert (row.difference, row.low, row.high, row.p, row.p_holm) == (0.0, 0.0, 0.0, 1.0, 1.0)
    (row,) = paired.compare([other, same], [(0, 1)])
    assert (row.difference, row.low, row.high, row.p) == (1.0, 1.0, 1.0, 0.0)


def test_holm_keeps_the_rate_of_false_alarms():
    """300 sweeps of 6 comparisons without any difference: at most 5 % raise an alarm (fixed seed; 3 σ is 8.8 %)."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(300):
        a = rng.normal(size=(4, 20))
        pairs = [(i, j) for i in range(4) for j in range(i)]
        alarms += min(row.p_holm for row in paired.compare(list(a), pairs)) < 0.05
    assert alarms < 27
