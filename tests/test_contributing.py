"""CONTRIBUTING's worked example, followed literally: a policy is one file and one line, and then it is everywhere."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import jaxband

ROOT = pathlib.Path(jaxband.__file__).parents[1]
SPEC = """\
name = "worked"
horizon = 30
replications = 8
num_arms = 3
z_max = 5
metrics = ["total_reward"]
[problems.p]
family = "logistic"
theta = [[1.0, 0.5, 2.0], [0.6, 0.5, 1.0], [0.5, 1.0, 3.0]]
[grid]
policy = ["least_played", "random"]
patience = [1.0, 5.0]
"""
BATTERY = """\
import jaxband as jb
jb.testing.check_policy(jb.policies.least_played(3), rounds=6)
jb.testing.check_policy(jb.policies.least_played(3), rounds=6, masks=True)
"""


def block(text, label):
    """The code block beneath a marked line of CONTRIBUTING.md."""
    return re.search(rf"<!-- worked example: {re.escape(label)} -->\n```python\n(.*?)```", text, re.DOTALL)[1]


def run(directory, *command):
    environment = os.environ | {"PYTHONPATH": str(directory), "JAXBAND_CACHE": "off", "JAX_NUM_CPU_DEVICES": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=directory, env=environment, capture_output=True, text=True, check=True
    )


def test_the_worked_example_is_in_sweeps_reports_and_the_battery(tmp_path):
    shutil.copytree(ROOT / "jaxband", tmp_path / "jaxband", ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (tmp_path / "jaxband/policies/_least_played.py").write_text(block(text, "jaxband/policies/_least_played.py"))
    init = tmp_path / "jaxband/policies/__init__.py"
    line = block(text, "the line in jaxband/policies/__init__.py")
    init.write_text(
        init.read_text().replace("from jaxband.policies._oracle", line + "from jaxband.policies._oracle", 1)
    )
    assert line in init.read_text()
    (tmp_path / "spec.toml").write_text(SPEC)
    run(tmp_path, "-m", "jaxband.cli", "sweep", "spec.toml", "--out", "out")
    table = run(tmp_path, "-m", "jaxband.cli", "collect", "out").stdout
    assert [row.split(",")[1] for row in table.splitlines()[1:]] == ["least_played", "least_played", "random"]
    run(tmp_path, "-m", "jaxband.cli", "report", "out")
    page = (tmp_path / "out/report.html").read_text()
    assert "least played" in page and "patience" in page
    run(tmp_path, "-c", BATTERY)
