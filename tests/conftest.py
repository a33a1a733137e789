"""What all tests share."""

import jax
import pytest

# programs that tests start in processes of their own; one needs Ray
collect_ignore = ["sweep_kills.py", "sweep_on_ray.py"]


@pytest.fixture
def compiled_quickly(_programs_forgotten):
    """For tests that check values and run briefly: LLVM hardly optimises, which takes a fraction of the time.

    Not for tests of the compiled program itself, of bitwise equality, or of long runs.
    """
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def _programs_forgotten():
    """No other file may find what was compiled quickly."""
    yield
    jax.clear_caches()
