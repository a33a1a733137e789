"""The estimate of a dry run: what it knows by itself, and that costs grow with what makes a sweep expensive."""

import pytest
from sweep_tools import small_spec

import jaxband as jb
from jaxband import sweep
from jaxband.policies import costs
from jaxband.sweep import estimate
from jaxband.sweep.engines import compile_groups
from jaxband.sweep.storage import units

BASE = {"policy": "rgp_ucb", "lengthscale": 2.0, "num_arms": 10, "z_max": 30}


def cost(lookahead=None, **settings):
    """Seconds of one replication; with the lookahead regret over blocks of so many rounds, if given."""
    options = {"replications": 1, "horizon": 10, "problems": {"p": {"family": "gp"}}, "lookahead": lookahead}
    (cell,) = sweep.Spec("t", **options, grid=BASE | settings).cells()
    return compile_groups.seconds_of(units.Unit(cell, 0, 1))


@pytest.mark.parametrize(
    "settings",
    [
        {"num_arms": 30},
        {"z_max": 60},
        {"depth": 3},
        {"depth": 3, "replan_every": 1},
        {"depth": 3, "planner": "subset"},
        {"horizon": 20},
        {"lookahead": 3},
    ],
    ids=str,
)
def test_more_costs_more(settings):
    assert cost(**settings) > cost()


@pytest.mark.parametrize(
    ("settings", "microseconds"),
    [
        ({}, 0.61),
        ({"policy": "random"}, 0.28),
        ({"policy": "ucb_z"}, 0.93),
        ({"depth": 3}, 5.6),
        ({"policy": "rgp_ts", "depth": 4}, 4.8),
        ({"depth": 3, "planner": "subset"}, 23.9),
        ({"policy": "rgp_ts", "depth": 3, "planner": "subset"}, 3.35),
    ],
    ids=str,
)
def test_the_table_is_within_a_factor_of_three_of_what_was_measured(settings, microseconds):
    """By benchmarks/rounds_per_second.py, per round and core."""
    assert 1 / 3 < cost(**settings) / 10 / (microseconds * 1e-6) < 3


@pytest.mark.parametrize(
    ("settings", "microseconds"),
    [
        ({"policy": "round_robin"}, 0.089),
        ({"policy": "oracle", "depth": 3, "lookahead": 3}, 1.21),
        ({"policy": "rgp_ts"}, 0.64),
        ({"policy": "rgp_ts", "num_arms": 30}, 1.15),
        ({"policy": "rgp_ts", "num_arms": 30, "depth": 3, "planner": "subset", "lookahead": 3}, 6.1),
        ({"policy": "oracle", "depth": 4, "planner": "optimistic", "budget": 200}, 3.34),
        ({"policy": "rgp_ts", "depth": 4, "planner": "optimistic", "budget": 50}, 2.37),
        ({"policy": "rgp_pointwise", "num_arms": 30}, 52.9),
        ({"policy": "recommended"}, 47.7),
        ({"policy": "recommended", "num_arms": 30}, 125),
        ({"policy": "oracle", "planner": "beam", "depth": 14, "replan_every": 1}, 24.5),
        ({"policy": "rgp_ts", "refit_every": 10}, 1820),
        ({"policy": "rgp_ts", "refit_every": 50, "num_arms": 30, "z_max": 15}, 341),
        ({"policy": "rogue_ucb_tuned", "family": "logistic"}, 73.6),
        ({"policy": "rogue_ucb_tuned", "family": "logistic", "num_arms": 30}, 98.3),
        ({"policy": "rogue_ucb_tuned", "family": "logistic", "z_max": 60}, 105),
    ],
    ids=str,
)
def test_the_table_is_within_a_factor_of_two_of_sweeps(settings, microseconds):
    """By benchmarks/sweep_costs.py, per round and core, at lengthscale 4, 500 rounds."""
    assert 1 / 2 < cost(**({"lengthscale": 4.0, "horizon": 500} | settings)) / 500 / (microseconds * 1e-6) < 2


def test_what_is_not_measured_costs_nothing():
    problems = {"p": {"family": "gp"}}
    options = {"replications": 1, "horizon": 10, "problems": problems, "grid": BASE}
    asked = {}, {"lookahead": 6, "metrics": ["total_reward"]}, {"lookahead": 6}
    found = [compile_groups.cost(sweep.Spec("t", **options, **more).cells()[0]) for more in asked]
    assert found[0] == found[1]
    assert found[2].round > found[0].round and found[2].compile > found[0].compile


def test_a_policy_that_says_nothing_of_its_cost_is_taken_to_be_cheap():
    options = {"replications": 1, "horizon": 10, "problems": {"p": {"family": "gp", "lengthscale": 2.0}}}
    own = sweep.Spec("t", **options, policies={"mine": mine}, grid={"policy": "mine", "num_arms": 3, "z_max": 4})
    assert compile_groups.cost(own.cells()[0]) == costs.UNKNOWN
    assert "1 cells, 1 units to run, 1 compilations" in estimate.describe(own)


def mine(num_arms):
    return jb.policies.round_robin(num_arms)


def test_none_is_not_taken_for_a_number():
    """Blocks as long as the plan cost less than new plans in every round."""
    table = {"policy": "rgp_pointwise", "depth": 3}
    assert cost(**table, replan_every="none") == cost(**table, replan_every=3) < cost(**table)


def test_shapes_are_counted_not_cells(tmp_path):
    spec = small_spec(grid={"policy": ["random", "round_robin"], "noise": [0.1, 0.2, 0.3]})
    assert "6 cells, 18 units to run, 2 compilations" in estimate.describe(spec)


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (600, "10 minutes"), (9000, "2.5 hours")])
def test_times_are_readable(seconds, text):
    assert estimate._time(seconds) == text
