"""The README's examples run as printed, and print what it says they print."""

import contextlib
import io
import re
from pathlib import Path

import jax
import pytest

pytestmark = pytest.mark.as_users

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def as_a_user():
    """JAX's default promotion rules: readers of the README do not set ours."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_there_are_examples():
    assert len(EXAMPLES) == 2
    assert len(EXAMPLES[0].splitlines()) <= 22


def test_the_example_prints_what_the_readme_says(as_a_user):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(EXAMPLES[0], {})
    said = re.search(r"<!-- example output -->\n```text\n(.*?)```", README, re.DOTALL).group(1)
    numbers = re.compile(r"\d+\.\d")
    assert numbers.sub("#", printed.getvalue()) == numbers.sub("#", said)
    for ours, theirs in zip(numbers.findall(printed.getvalue()), numbers.findall(said), strict=True):
        assert float(ours) == pytest.approx(float(theirs), abs=0.11)  # last digit, on another machine


def test_the_practitioners_example_runs(as_a_user):
    names = {}
    exec(EXAMPLES[1], names)
    assert int(names["state"].posterior.counts.sum()) == 1
    assert names["z"].tolist().count(0) == 1
