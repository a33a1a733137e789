"""The command line, from arguments to files: what is printed, what is written, and what happens on bad input."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from jaxband import cli
from jaxband.experiments import figure3, paper, parametric_curves
from jaxband.experiments.output import Report
from jaxband.experiments.registry import EXPERIMENTS, Experiment
from jaxband.problem import Problem
from jaxband.simulation import summaries
from jaxband.simulation.monte_carlo import monte_carlo

pytestmark = pytest.mark.as_users

PNG = b"\x89PNG\r\n\x1a\n"


def run_table1(out):
    assert cli.main(["reproduce", "table1", "--replications", "64", "--protocol", "published", "--out", str(out)]) == 0
    return out, json.loads((out / "results.json").read_text())


@pytest.fixture(scope="module")
def table1(tmp_path_factory):
    """`reproduce table1` once, with few replications and without RogueUCB-Tuned, which takes most of the time."""
    columns = [column for column in parametric_curves._columns("table1") if column[0] != "RogueUCB-Tuned"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parametric_curves, "_columns", lambda experiment: columns)
        return run_table1(tmp_path_factory.mktemp("table1"))


@pytest.fixture(scope="module")
def whole_table1(tmp_path_factory):
    return run_table1(tmp_path_factory.mktemp("whole_table1"))


@pytest.mark.parametrize("table", ["table1", pytest.param("whole_table1", marks=pytest.mark.slow)])
def test_table1_reproduces_the_printed_totals(table, request):
    """Six cells of 64 replications, standard error at most 1.0 and mostly 0.6: within 3 of the printed value.

    Our 500-replication means are within 0.8 of it, so that a false alarm is a deviation of at least 3.5 standard
    errors for the GP cells and 2.4 for UCB-Z's logistic cell: below 2 % for another seed; this seed is fixed.
    """
    _, document = request.getfixturevalue(table)
    done = [cell for cell in document["cells"] if cell["policy"] != "RogueUCB-Tuned"]
    assert len(done) == 6
    for cell in done:
        assert abs(cell["mean"] - cell["paper"]) < 3.0, cell
        assert cell["low"] < cell["mean"] < cell["high"]
        assert cell["difference"] == pytest.approx(cell["mean"] - cell["paper"])


def test_a_rogue_that_sees_its_data_beats_the_printed_one_on_gamma_curves():
    """The first 8 replications of its cell: 144.3 with a standard error of 0.8, so that 138 is 8 of those below."""
    policy = parametric_curves._policy("RogueUCB-Tuned", "gamma", None, "published")
    problem = Problem(paper.curves("gamma"), noise=paper.NOISE)
    result = monte_carlo(policy, problem, horizon=paper.HORIZON, replications=8, batch_size=8)
    printed = paper.TOTAL_REWARD["gamma", "RogueUCB-Tuned", None].mean
    assert result.total_reward.mean() > 138 > printed == 132.7


@pytest.mark.slow
def test_rogues_cells_of_the_whole_table(whole_table1):
    _, document = whole_table1
    rogue = {cell["setting"]: cell["mean"] for cell in document["cells"] if cell["policy"] == "RogueUCB-Tuned"}
    assert 425 < rogue["logistic"] < 475
    assert rogue["gamma"] > 138 > 132.7  # printed


def test_plots_are_written_whole(table1):
    out, _ = table1
    assert sorted(path.name for path in out.iterdir()) == [
        "instantaneous_regret.png",
        "results.json",
        "total_reward.png",
    ]
    assert all(path.read_bytes().startswith(PNG) for path in out.glob("*.png"))


@pytest.fixture
def short_runs(compiled_quickly, monkeypatch):
    monkeypatch.setattr(paper, "HORIZON", 20)


def test_json_is_one_document_and_nothing_else(short_runs, tmp_path, capsys):
    options = ["--replications", "2", "--protocol", "published", "--out", str(tmp_path), "--json", "--no-plots"]
    assert cli.main(["reproduce", "lengthscales", *options]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed) == json.loads((tmp_path / "results.json").read_text())
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--replications", "0"], "replications must be"),
        (["--seed", "4294967296"], "seed must be"),
        (["--seed", "-1"], "seed must be"),
    ],
)
def test_bad_options_write_nothing(tmp_path, capsys, options, message):
    out = tmp_path / "out"
    assert cli.main(["reproduce", "table1", *options, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_unknown_protocol_is_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["reproduce", "table1", "--protocol", "printed"])
    assert stop.value.code == 2
    assert "as-written" in capsys.readouterr().err


def test_an_output_directory_that_cannot_be_made_is_reported(short_runs, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    options = ["--replications", "2", "--protocol", "published", "--no-plots", "--out", str(tmp_path / "file" / "out")]
    assert cli.main(["reproduce", "lengthscales", *options]) == 2
    assert "file" in capsys.readouterr().err


def test_every_cell_of_the_papers_tables_is_listed():
    assert len(paper.TOTAL_REWARD) == 16
    assert all(cell.low < cell.mean < cell.high for cell in paper.TOTAL_REWARD.values())


def test_figure3_reports_rewards_depths_and_claims(tmp_path, capsys, monkeypatch):
    """The report alone: every run is replaced by numbers that fulfil all claims but the second."""
    rng = np.random.default_rng(0)

    def pretend(policy, problem, *, horizon, replications, watch, **options):
        budget = getattr(policy.planner, "budget", 10**9)
        depth = 2.0 if (problem.num_arms, budget) == (30, 5000) else policy.depth
        watched = {name: np.full(replications, depth if name == "tree_depth" else 0.5) for name in watch}
        reward = 1000.0 - 100.0 / budget + rng.normal(size=replications)
        return SimpleNamespace(
            total_reward=reward, watched=watched, summary=lambda: {"total_reward": summaries.summarize(reward)}
        )

    monkeypatch.setattr(figure3, "monte_carlo", pretend)
    assert cli.main(["reproduce", "figure3", "--full", "--replications", "9", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "results.json").read_text())
    assert [(s["num_arms"], s["depth"]) for s in document["settings"]] == [(10, 4), (30, 4), (10, 8)]
    assert [len(s["budgets"]) for s in document["settings"]] == [12, 19, 14]
    assert [claim["holds"] for claim in document["claims"]] == [True, False, True, True]
    printed = capsys.readouterr().out
    assert printed.count("holds:") == 3
    assert printed.count("FAILS: K=30") == 1
    assert (tmp_path / "figure3.png").read_bytes().startswith(PNG)


@pytest.fixture
def pretended(monkeypatch):
    """Every experiment replaced by one that only notes what it is asked for."""
    asked = {}

    def pretend(name):
        def run(announce, **options):
            announce("something")
            asked[name] = options
            return Report({"experiment": name}, "Title", ("policy",), [("p",)], (), {f"{name}.png": lambda: PNG})

        return run

    for name, experiment in EXPERIMENTS.items():
        monkeypatch.setitem(EXPERIMENTS, name, experiment._replace(run=pretend(name)))
    return asked


def test_all_runs_every_experiment_into_a_directory_of_its_own(tmp_path, capsys, pretended):
    assert cli.main(["reproduce", "all", "--seed", "3", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    names = ["table1", "lengthscales", "figure1", "figure2", "figure3", "figure4", "appendix"]
    assert list(document["experiments"]) == list(pretended) == names
    for name in names:
        assert json.loads((tmp_path / name / "results.json").read_text()) == document["experiments"][name]
        assert (tmp_path / name / f"{name}.png").read_bytes() == PNG
    assert document["seconds"] == pytest.approx(sum(done["seconds"] for done in document["experiments"].values()))
    assert pretended["figure1"] == {"seed": 3}
    assert pretended["figure3"] == {"seed": 3, "replications": 100, "full": False}
    assert pretended["table1"] == {"seed": 3, "replications": 500, "protocol": None}


def test_options_of_all_reach_the_experiments_that_have_them(tmp_path, capsys, pretended):
    options = ["--replications", "7", "--protocol", "published", "--full", "--no-plots"]
    assert cli.main(["reproduce", "all", *options, "--out", str(tmp_path)]) == 0
    assert not list(tmp_path.rglob("*.png"))
    assert pretended["figure3"] == {"seed": 0, "replications": 7, "full": True}
    assert pretended["appendix"] == {"seed": 0, "replications": 7, "protocol": "published"}
    assert capsys.readouterr().out.count("Title") == len(EXPERIMENTS)


def test_an_experiment_alone_has_the_same_defaults(tmp_path, pretended):
    for name, experiment in EXPERIMENTS.items():
        assert isinstance(experiment, Experiment)
        assert cli.main(["reproduce", name, "--out", str(tmp_path / name)]) == 0
    alone = dict(pretended)
    assert cli.main(["reproduce", "all", "--out", str(tmp_path)]) == 0
    assert pretended == alone


def test_cells_that_experiments_share_are_run_once(monkeypatch):
    """Figure 4 shows the cells of both tables: 12 with a kernel and 4 without, in two protocols."""
    played = []

    def pretend(policy, problem, **options):
        played.append(policy)
        band = summaries.Band(*np.zeros((4, 1)))
        bands = {metric: band for metric in parametric_curves.PICTURES}
        summary = {metric: summaries.summarize(np.zeros(2)) for metric in parametric_curves.PICTURES}
        return SimpleNamespace(checkpoints=np.ones(1), bands=bands, summary=lambda: summary)

    monkeypatch.setattr(parametric_curves, "monte_carlo", pretend)
    parametric_curves._run_cell.cache_clear()
    for name, cells in (("table1", 16), ("lengthscales", 32), ("figure4", 32)):
        parametric_curves.run(name, None, 2, 12345, announce=lambda what: None)
        assert len(played) == cells
    parametric_curves._run_cell.cache_clear()


@pytest.mark.slow
def test_figure3_shows_what_the_paper_says(tmp_path):
    assert cli.main(["reproduce", "figure3", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "results.json").read_text())
    assert all(claim["holds"] for claim in document["claims"])
    for setting in document["settings"]:
        assert all(cell["nodes"] <= cell["budget"] for cell in setting["budgets"])
        depths = [cell["depth"] for cell in setting["budgets"]]
        assert depths == sorted(depths)
