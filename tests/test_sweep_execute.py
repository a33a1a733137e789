"""Units give the totals of `monte_carlo`, to the last bit, however cut and on any devices; numbers never recompile."""

import jax
import numpy as np
import pytest

import jaxband as jb
from jaxband import posterior, registry
from jaxband.simulation import dispatch
from jaxband.simulation.layout import default_batch_size
from jaxband.simulation.metrics import BOUND, STANDARD
from jaxband.simulation.upper_bounds import upper_bounds
from jaxband.sweep.engines import execute
from jaxband.sweep.engines.compile_groups import shared_ranks, sorted_for_compilation
from jaxband.sweep.spec import problems
from jaxband.sweep.storage import trajectories, units

pytestmark = pytest.mark.as_users

THETA = [[1.0, 0.5, 2.0], [0.6, 0.5, 1.0], [0.5, 1.0, 3.0]]
LOGISTIC = jb.recovery.FAMILIES["logistic"](4).bounds
FAMILIES = {
    "drawn": {"family": "gp", "lengthscale": 3.0},
    "logistic": {"family": "logistic", "theta": THETA},
    "gamma": {"family": "gamma", "theta": THETA},
    "table": {"family": "table", "rows": np.random.default_rng(0).normal(size=(3, 5)).tolist()},
}


def spec(problems, grid, **options):
    sizes = {"horizon": 9, "num_arms": 3, "z_max": 4, "replications": 150}
    return jb.sweep.Spec(name="t", problems=problems, grid=grid, **(sizes | options))


def totals(cells, size, devices, replications=150):
    return [joined.totals for joined in measured(cells, size, devices, replications)]


def measured(cells, size, devices, replications=150):
    """Totals and trajectories of every cell, joined over its units."""
    left = [unit for cell in cells for unit in units.missing(cell, [], replications, size)]
    parts = {}
    for unit, found in execute.results(sorted_for_compilation(left), devices, shared_ranks(left)):
        parts.setdefault(unit.cell, []).append((unit.start, found))
    assert sum(map(len, parts.values())) == len(left)
    order = {cell: sorted(found, key=lambda part: part[0]) for cell, found in parts.items()}
    return [
        units.UnitResult(
            *({m: np.concatenate([found[k][m] for _, found in order[c]]) for m in c.metrics} for k in (0, 1))
        )
        for c in cells
    ]


def assert_equal(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        for metric in e:
            np.testing.assert_array_equal(a[metric], e[metric], metric)


def test_units_are_monte_carlo_however_cut():
    grid = {"policy": "rgp_ts", "lengthscale": [2.9, 3.0]}
    cells = spec({"p": FAMILIES["drawn"]}, grid, lookahead=2).cells()
    expected = []
    for cell in cells:
        options = {"horizon": 9, "replications": 150, "lookahead": 2, "upper_bound": True, "progress": False}
        pair = cell.policy(), problems.build(cell.problem, cell.settings)
        result = jb.monte_carlo(*pair, **options, devices=jax.devices()[:1])
        expected.append({metric: getattr(result, metric) for metric in cell.metrics})
    assert len(expected[0]) == 6
    assert len(set(expected[0]["total_reward"])) == 150
    for size in (None, 64, 41):
        assert_equal(totals(cells, size, jax.devices()[:3]), expected)


@pytest.mark.parametrize(("horizon", "lookahead", "rounds"), [(150, None, 6), (150, 2, 8)])
def test_trajectories_are_sums_of_rounds_that_were_simulated_one_by_one(horizon, lookahead, rounds):
    """Of every metric, for the first 7 replications, after every so many rounds and at the end; however cut."""
    options = {"horizon": horizon, "lookahead": lookahead, "replications": 70, "trajectories": 7}
    (cell,) = spec({"p": FAMILIES["drawn"]}, {"policy": "random"}, **options).cells()
    checkpoints = trajectories.checkpoints(cell)
    assert checkpoints.tolist() == [*range(rounds, horizon, rounds), horizon] and len(checkpoints) <= 32
    (whole,) = measured([cell], 70, jax.devices()[:1], replications=70)
    policy, problem = cell.policy(), problems.build(cell.problem, cell.settings)
    simulate = jax.jit(lambda key: jb.simulate(policy, problem, key, horizon=horizon))
    for replication in range(7):
        run = jax.tree.map(np.asarray, simulate(jax.random.fold_in(jax.random.key(0), replication)))
        rewards = run.curves[np.arange(3), run.z]  # [T, K]: of every arm, had it been played
        played = rewards[np.arange(horizon), run.arms]
        per_round = {
            "total_reward": run.rewards,
            "expected_reward": played,
            "instantaneous_regret": rewards.max(axis=1) - played,
        }
        for metric, values in per_round.items():
            expected, size = (np.cumsum(x, dtype=np.float64)[checkpoints - 1] for x in (values, np.abs(values)))
            away = np.abs(whole.trajectories[metric][replication] - expected)
            assert np.all(away <= 4e-7 * size), "a few roundings of float32, of what was added up"
        bound = jb.optimum.dual_bound(run.curves)
        limit = checkpoints * float(bound.average) + float(jb.optimum.head_start(bound, problem.z_init))
        earned = np.cumsum(played, dtype=np.float64)[checkpoints - 1]
        gap, share = (whole.trajectories[name][replication] for name in ("bound_gap", "bound_fraction"))
        np.testing.assert_allclose(gap, limit - earned, atol=1e-3)
        np.testing.assert_allclose(share, earned / limit, rtol=1e-3)
        assert np.all(gap > -1e-3)
    for metric, kept in whole.trajectories.items():
        assert kept.shape == (7, len(checkpoints)) and kept.dtype == np.float32
        np.testing.assert_array_equal(kept[:, -1], whole.totals[metric][:7].astype(np.float32))
    for size in (3, 64):
        (cut,) = measured([cell], size, jax.devices()[:1], replications=70)
        assert_equal([cut.trajectories], [whole.trajectories])


def test_what_is_not_asked_for_is_not_computed(monkeypatch):
    """Without the lookahead regret the best sequences are not looked for, and all other totals keep every bit.

    Nor are bounds computed where no metric needs them.
    """
    options = {"horizon": 200, "lookahead": 3}
    (asked,) = spec({"p": FAMILIES["table"]}, {"policy": "random"}, **options).cells()
    metrics = ["total_reward", "expected_reward", "instantaneous_regret"]
    (not_asked,) = spec({"p": FAMILIES["table"]}, {"policy": "random"}, **options, metrics=metrics).cells()
    layouts = [execute.prepare(cell).layout for cell in (asked, not_asked)]
    assert [[m.name for m in layout.metrics] for layout in layouts] == [[*metrics, "lookahead_regret"], metrics]
    (some,), (every,) = (measured([cell], None, jax.devices()[:1], 70) for cell in (not_asked, asked))
    assert list(some.totals) == metrics
    for one, other in zip(some, every, strict=True):
        assert_equal([{m: other[m] for m in metrics}], [one])
    monkeypatch.setattr(execute, "upper_bounds", lambda *_: pytest.fail("nobody asked for bounds"))
    measured([not_asked], 50, jax.devices()[:1], 70)


def test_bounds_are_those_of_monte_carlo_and_computed_once_per_environment(monkeypatch):
    """Two policies in two environments, in units of 40: four times, and not eight."""
    computed = []

    def counting(problem, seed, start, stop):
        computed.append((float(problem.noise), start, stop))
        return upper_bounds(problem, seed, start, stop)

    monkeypatch.setattr(execute, "upper_bounds", counting)
    execute._bounds.cache_clear()
    grid = {"policy": ["random", "round_robin"], "noise": [0.25, 0.5]}
    cells = spec({"p": FAMILIES["drawn"]}, grid, replications=80, seed=5).cells()
    found = measured(cells, 40, jax.devices()[:1], 80)
    assert sorted(computed) == [(0.25, 0, 40), (0.25, 40, 80), (0.5, 0, 40), (0.5, 40, 80)]
    for cell, joined in zip(cells, found, strict=True):
        pair = cell.policy(), problems.build(cell.problem, cell.settings)
        options = {"horizon": 9, "replications": 80, "seed": 5, "upper_bound": True, "progress": False}
        result = jb.monte_carlo(*pair, **options)
        assert list(joined.totals) == [*STANDARD, *BOUND]
        assert_equal([joined.totals], [{metric: getattr(result, metric) for metric in cell.metrics}])
        np.testing.assert_array_equal(joined.totals["bound_gap"], result.upper_bound - result.expected_reward)
        np.testing.assert_array_equal(joined.totals["bound_fraction"], result.expected_reward / result.upper_bound)


def test_long_units_take_several_calls(monkeypatch):
    """Two batches at a time; units of different lengths beside each other."""
    cells = spec({"t": FAMILIES["table"]}, {"policy": "random", "noise": [0.1, 0.2]}, replications=700).cells()
    at_once = totals(cells, 700, jax.devices()[:3], replications=700)
    monkeypatch.setattr("jaxband.simulation.layout.ROUNDS_PER_DISPATCH", 2 * 64 * 9)
    execute.prepare.cache_clear()
    assert execute.prepare(cells[0]).layout.batches_per_dispatch == 2
    assert_equal(totals(cells, 400, jax.devices()[:3], replications=700), at_once)
    execute.prepare.cache_clear()


@pytest.mark.parametrize("num_arms", [3, 64])
def test_cells_are_laid_out_as_monte_carlo_would_and_nothing_else_is_computed(num_arms):
    cell = spec({"p": FAMILIES["drawn"]}, {"policy": ["round_robin"]}, num_arms=num_arms).cells()[0]
    layout = execute.prepare(cell).layout
    assert layout.batch_size == default_batch_size(jax.devices()[0], num_arms)
    assert {metric.name for metric in layout.metrics} == {*STANDARD} and layout.watch == ()


def test_1000_cells_that_differ_in_numbers_compile_once():
    numbers = {"noise": np.linspace(0.1, 1.0, 10).tolist(), "seed": list(range(10)), "z_init": [0, 1, 2, 3, 4]}
    families = {"a": FAMILIES["logistic"], "b": FAMILIES["gamma"]}
    cells = spec(families, {"policy": "random", **numbers}, horizon=3).cells()
    assert len(cells) == 1000
    before = dispatch._run_works._cache_size()
    results = totals(cells, None, jax.devices(), replications=2)
    assert dispatch._run_works._cache_size() == before + 1
    assert len({tuple(r["total_reward"]) for r in results}) == 1000


def test_a_sweep_compiles_once_per_policy():
    """4 lengthscales, 2 noises, 3 problems and 3 policies: 3 compilations of the simulation."""
    grid = {"policy": ["rgp_ucb", "rgp_ts", "random"], "lengthscale": [1.0, 2.0, 4.0, 8.0], "noise": [0.1, 0.2]}
    families = {"a": {"family": "gp"}, "b": FAMILIES["logistic"], "c": FAMILIES["gamma"]}
    cells = spec(families, grid, z_max=20, horizon=3).cells()
    before = dispatch._run_works._cache_size()
    totals(cells, None, jax.devices(), replications=2)
    assert dispatch._run_works._cache_size() == before + 3


PADDED = [name for name, entry in registry.entries("policy").items() if "rank" in entry.asks_for]


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in PADDED]
    + [("rgp_ts", {"planner": "subset", "depth": 3}), ("rgp_ucb", {"planner": "subset", "depth": 3})]
    + [
        ("rgp_ts", {"planner": "exhaustive", "depth": 2, "replan_every": 1, "num_arms": 2}),
        ("rgp_ucb", {"refit_every": 3}),
    ],
)
def test_padding_a_root_changes_no_bit(name, options):
    (cell,) = spec(
        {"p": {"family": "gp"}}, {"policy": name, "lengthscale": 8.0} | options, z_max=20, horizon=40
    ).cells()
    unit, own = units.Unit(cell, 0, 64), shared_ranks([units.Unit(cell, 0, 64)])[cell.identity]
    results = [
        next(execute.results([unit], jax.devices()[:1], {cell.identity: rank}))[1] for rank in (own, own + 4, 21 + 3)
    ]
    assert own < 20 and results[0].totals["total_reward"].std() > 0
    for padded in results[1:]:
        assert_equal([padded.totals, padded.trajectories], [results[0].totals, results[0].trajectories])


def test_roots_are_padded_only_where_it_costs_less_than_compiling():
    grid = {"policy": "rgp_ucb", "lengthscale": [2.0, 8.0]}
    few, many = (
        [units.Unit(c, 0, n) for c in spec({"p": {"family": "gp"}}, grid, z_max=20).cells()] for n in (64, 2**40)
    )
    own = [posterior.rank(jb.kernels.SquaredExponential(l), 20) for l in (2.0, 8.0)]
    assert sorted(shared_ranks(few).values()) == [max(own)] * 2
    assert sorted(shared_ranks(many).values()) == sorted(own) and own[0] > own[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_problems_are_what_they_say(family):
    (cell,) = spec({"p": FAMILIES[family]}, {"policy": "random"}, noise=0.25).cells()
    problem = problems.build(cell.problem, cell.settings)
    expected = {
        "drawn": lambda: jb.recovery.gp(jax.random.key(3), jb.kernels.SquaredExponential(3.0), 3, 4),
        "logistic": lambda: jb.recovery.logistic(THETA, 4),
        "gamma": lambda: jb.recovery.gamma(THETA, 4),
        "table": lambda: np.asarray(FAMILIES["table"]["rows"], np.float32),
    }[family]()
    np.testing.assert_allclose(problem.draw(jax.random.key(3)), expected, rtol=1e-6)
    assert float(problem.noise) == 0.25


@pytest.mark.parametrize(
    ("grid", "check"),
    [
        (
            {"policy": "rgp_ucb", "lengthscale": 2, "alpha_scale": 0.5, "warm_up": 3},
            lambda p: float(p.policy.alpha_scale) == 0.5 and int(p.rounds) == 3,
        ),
        ({"policy": "rgp_ucb", "lengthscale": 2, "alpha": "published"}, lambda p: float(p.alpha.first_round) == 0),
        ({"policy": "rgp_ts", "kernel": "matern", "nu": 1.5, "lengthscale": 2}, lambda p: p.depth == 1),
        (
            {"policy": "rgp_ts", "kernel": "periodic", "period": 4, "lengthscale": 2},
            lambda p: p.prior.root.shape[0] == 3,
        ),
        ({"policy": "rgp_ts", "kernel": "linear", "offset": -1}, lambda p: p.prior.variance[0, 0] > 0),
        ({"policy": "rgp_ts", "kernel": "constant", "policy_noise": 2}, lambda p: float(p.noise) == 2.0),
        (
            {"policy": "oracle", "planner": "subset", "depth": 3, "replan_every": 1},
            lambda p: (p.planner.depth, p.replan_every) == (3, 1),
        ),
        ({"policy": "oracle", "planner": "subset", "depth": 3}, lambda p: (p.planner.depth, p.replan_every) == (3, 3)),
        ({"policy": "oracle", "planner": "optimistic", "depth": 3, "budget": 9}, lambda p: p.planner.budget == 9),
        ({"policy": "round_robin"}, lambda p: p.num_arms == 3),
        ({"policy": "ucb_z"}, lambda p: float(p.horizon) == 9.0),
        (
            {"policy": "rogue_ucb_tuned"},
            lambda p: p.policy.family.bounds == LOGISTIC and float(p.policy.noise) == np.float32(0.1) and p.rounds == 3,
        ),
        (
            {"policy": "rogue_ucb_tuned", "family": "exponential", "warm_up": 0},
            lambda p: p.family.bounds != LOGISTIC,
        ),
        (
            {"policy": "rgp_pointwise", "lengthscale": 2},
            lambda p: (p.planner.depth, p.replan_every, p.terminal_values, p.horizon) == (3, 1, True, None),
        ),
        (
            {
                "policy": "rgp_pointwise",
                "lengthscale": 2,
                "beta": 1.5,
                "fade": True,
                "depth": 2,
                "terminal_values": False,
            },
            lambda p: (p.planner.depth, p.terminal_values, float(p.beta), float(p.horizon)) == (2, False, 1.5, 9.0),
        ),
        (
            {"policy": "rgp_pointwise", "lengthscale": 2, "beta": "none", "replan_every": "none"},
            lambda p: (p.replan_every, p.beta, float(p.horizon)) == (3, None, 9.0),
        ),
        ({"policy": "rgp_ucb", "lengthscale": 2, "refit_every": 5}, lambda p: p.refit_every == 5),
        ({"policy": "rgp_ts", "lengthscale": 2, "refit_every": "none"}, lambda p: not hasattr(p, "refit_every")),
        ({"policy": "recommended", "lengthscale": 2, "refit_every": 5}, lambda p: p.refit_every == 5),
    ],
)
def test_policies_are_what_they_say(grid, check):
    (cell,) = spec({"p": FAMILIES["logistic"]}, grid).cells()
    assert check(cell.policy())


def test_double_precision_is_refused():
    (cell,) = spec({"p": FAMILIES["logistic"]}, {"policy": "round_robin"}, seed=11).cells()
    with jax.enable_x64(True), pytest.raises(ValueError, match="jax_enable_x64 must be off"):
        execute.prepare(cell)
