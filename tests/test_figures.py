"""Figures 1 and 2 and the appendix: what is drawn is what was played, and the measures of the claims are right."""

import itertools
import json

import numpy as np
import pytest

import jaxband as jb
from jaxband import cli
from jaxband.experiments import figure1, paper, posteriors

pytestmark = pytest.mark.as_users

PNG = b"\x89PNG\r\n\x1a\n"
REPLICATIONS = 64


def quiet(what):
    pass


@pytest.fixture(scope="module")
def figure2(tmp_path_factory):
    """`reproduce figure2` once."""
    out = tmp_path_factory.mktemp("figure2")
    assert cli.main(["reproduce", "figure2", "--replications", str(REPLICATIONS), "--out", str(out)]) == 0
    return out, json.loads((out / "results.json").read_text())


@pytest.fixture(scope="module")
def cells(figure2):
    """What Figure 2 was made of: kept, not computed again."""
    return [posteriors._run_cell(case, "as-written", REPLICATIONS, 0) for case in posteriors.CASES["figure2"]]


def test_figure1_lists_all_plans_and_planners_find_the_best(tmp_path):
    assert cli.main(["reproduce", "figure1", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "results.json").read_text())
    curves = np.array(document["curves"])
    assert curves.shape == (3, paper.Z_MAX + 1)
    totals = {}
    for arms in itertools.product(range(3), repeat=figure1.DEPTH):
        z, totals[arms] = list(figure1.RESTS), 0.0
        for arm in arms:
            totals[arms] += curves[arm, z[arm]]
            z = [0 if j == arm else min(rest + 1, paper.Z_MAX) for j, rest in enumerate(z)]
    listed = {tuple(arm - 1 for arm in leaf["arms"]): leaf["total"] for leaf in document["leaves"]}
    assert listed == pytest.approx(totals)
    assert document["plan"] == [arm + 1 for arm in max(totals, key=totals.get)]
    assert document["greedy"][0] - 1 == max(range(3), key=lambda arm: curves[arm, figure1.RESTS[arm]])
    assert (tmp_path / "figure1.png").read_bytes().startswith(PNG)


def test_another_seed_draws_other_curves():
    first, again, other = (figure1.run(seed=seed, announce=quiet).document["curves"] for seed in (0, 0, 1))
    assert first == again != other


def test_figure2_writes_its_picture_and_the_papers_claims_hold(figure2):
    """200 replications give +11.8 % ± 0.7 % of plays on the peaks; 64 of them ± 1.3 %, so that 2 errors are safe."""
    out, document = figure2
    assert sorted(path.name for path in out.iterdir()) == ["figure2.png", "results.json"]
    assert (out / "figure2.png").read_bytes().startswith(PNG)
    assert [cell["name"] for cell in document["cells"]] == ["1RGP-UCB (l=2)", "3RGP-UCB (l=2)"]
    assert [claim["holds"] for claim in document["claims"]] == [True, True, True]


def test_posteriors_are_calibrated(cells):
    """Curves are drawn from the prior, so that 95.45 % of their points lie within two deviations, however arms were
    chosen. Within four standard errors: a false alarm in 16,000 for each of the two."""
    for cell in cells:
        covered = cell.measured["within_2_sd"]
        error = covered.std(ddof=1) / np.sqrt(REPLICATIONS)
        assert error < 0.005
        assert abs(covered.mean() - 0.9545) < 4 * error


def test_measures_are_those_of_the_plays(cells):
    """The first replication, play by play."""
    for cell in cells:
        run, expected = cell.shown, {name: values[0] for name, values in cell.measured.items()}
        rests = run.z[np.arange(paper.HORIZON), run.arms]
        f = run.curves[run.arms, rests]
        best, worst = run.curves.max(axis=1), run.curves.min(axis=1)
        below = ((best[run.arms] - f) / (best - worst)[run.arms]).astype(np.float64)
        everywhere = (best[:, None] - run.curves) / (best - worst)[:, None]
        mean, variance = run.state.posterior.mean, run.state.posterior.variance
        errors = mean[run.arms, rests] - f
        of_arms = [np.mean(below[run.arms == arm] <= 0.5) for arm in range(paper.NUM_ARMS)]
        measured = {
            "total_reward": run.rewards.sum(),
            "on_peaks": np.mean(below <= 0.1),
            "on_peaks_at_random": np.mean((everywhere <= 0.1).mean(axis=1)[run.arms]),
            "upper_half": np.mean(below <= 0.5),
            "upper_half_at_random": np.mean((everywhere <= 0.5).mean(axis=1)[run.arms]),
            "upper_half_of_arms": np.mean(of_arms),
            "error_where_played": np.sqrt(np.mean(errors**2)),
            "error_everywhere": np.sqrt(np.mean((mean - run.curves) ** 2)),
            "within_2_sd": np.mean(np.abs(mean - run.curves) <= 2 * np.sqrt(variance)),
        }
        assert measured == pytest.approx(expected, rel=1e-4)


def test_panels_show_the_plays_the_posterior_was_made_of(cells):
    prior = jb.posterior.prior(jb.kernels.SquaredExponential(2.0), paper.NUM_ARMS, paper.Z_MAX)
    for cell in cells:
        panels = posteriors._panels(cell.shown)
        arms = np.repeat(np.arange(paper.NUM_ARMS), [len(panel.z) for panel in panels])
        z, rewards = (np.concatenate([getattr(panel, name) for panel in panels]) for name in ("z", "rewards"))
        assert len(arms) == paper.HORIZON
        again = jb.posterior.condition(prior, arms, z, rewards, paper.NOISE)
        np.testing.assert_allclose([panel.mean for panel in panels], again.mean, atol=1e-3)
        np.testing.assert_allclose([panel.deviation for panel in panels], np.sqrt(again.variance), atol=1e-3)


def test_depths_meet_the_same_curves(cells):
    greedy, ahead = (cell.shown for cell in cells)
    np.testing.assert_array_equal(greedy.curves, ahead.curves)
    assert not np.array_equal(greedy.arms, ahead.arms)


def test_the_appendix_draws_every_case_and_says_which_claims_hold(tmp_path, capsys, monkeypatch, cells):
    """The report alone: numbers in place of runs, such that 3RGP-UCB with l = 5 is no better than 2RGP-UCB."""
    asked = []

    def pretend(case, protocol, replications, seed):
        asked.append((case, protocol))
        measured = {name: np.full(replications, case.depth + case.lengthscale) for name in cells[0].measured}
        if case == ("RGP-UCB", 5.0, 3):
            measured["on_peaks"] = measured["on_peaks"] - 1.0
        measured["error_everywhere"] = measured["error_everywhere"] + (case.policy == "RGP-TS")
        return posteriors.Cell(measured, cells[0].shown)

    drawn = []
    monkeypatch.setattr(posteriors, "_run_cell", pretend)
    monkeypatch.setattr(posteriors.plots, "posteriors", lambda groups, title, columns: drawn.append(groups) or PNG)
    options = ["--replications", "3", "--protocol", "published", "--out", str(tmp_path)]
    assert cli.main(["reproduce", "appendix", *options]) == 0
    document = json.loads((tmp_path / "results.json").read_text())
    assert len(set(asked)) == len(document["cells"]) == 18
    assert {protocol for _, protocol in asked} == {"published"}
    assert len(list(tmp_path.glob("*.png"))) == 6
    assert [list(groups) for groups in drawn] == [["d = 1", "d = 2", "d = 3"]] * 6
    assert {len(panels) for groups in drawn for panels in groups.values()} == {paper.NUM_ARMS}
    assert [claim["holds"] for claim in document["claims"]] == [True, False, True, True, True]
    printed = capsys.readouterr().out
    assert printed.count("holds: ") == 4
    assert "not shown: more samples on the peaks with d = 3 than with d = 2" in printed.replace("\n", " ")


@pytest.mark.parametrize("case", posteriors.CASES["appendix"], ids=lambda case: case.name)
@pytest.mark.parametrize("protocol", posteriors.PROTOCOLS)
def test_every_case_has_a_policy(case, protocol):
    policy = posteriors._policy(case, protocol)
    if protocol == "published":
        assert policy.rounds == 10, "of warm-up"
        policy = policy.policy
    assert (policy.depth, policy.replan_every, policy.num_arms) == (case.depth, case.depth, paper.NUM_ARMS)
    noisy = protocol == "published" and (case.policy == "RGP-UCB" or case.depth == 1)
    assert bool(policy.predictive_variance) == noisy
