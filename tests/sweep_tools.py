"""What the tests of sweeps share: small specs, an engine without JAX, and disks that fail or stop at any operation."""

import hashlib
import os

import numpy as np

from jaxband import sweep
from jaxband.sweep import tables
from jaxband.sweep.storage import trajectories
from jaxband.sweep.storage.filesystem import TEMPORARY, FileSystem
from jaxband.sweep.storage.units import UnitResult

CURVES = [[0.0, 0.6, 1.0], [0.3, 0.4, 0.5]]
OPERATIONS = [name for name in vars(FileSystem) if not name.startswith("_")]


USERS = {  # modules of a user's own, beside a spec: a policy, what it imports, a problem and a metric
    "mine.py": """
import jax.numpy as jnp

import jaxband as jb
from helper import rested


@jb.pytree_dataclass(static=("num_arms",))
class Patient(jb.Policy):
    num_arms: int
    threshold: float

    def init(self, key):
        return jnp.zeros((), jnp.int32)

    def choose(self, key, state, round):
        return rested(round.z, self.threshold, state), state

    def update(self, state, round, arm, reward):
        return arm


def patient(num_arms, threshold: float = 1.0, first: int | None = 0):
    if threshold < 0:
        raise ValueError(f"threshold must be >= 0, got {threshold}")
    return Patient(num_arms, threshold)
""",
    "helper.py": """
import jax.numpy as jnp


def rested(z, threshold, otherwise):
    longest = jnp.argmax(z)
    return jnp.where(z[longest].astype(float) >= threshold, longest, otherwise)
""",
    "world.py": """
import jax
import jax.numpy as jnp
from jax.tree_util import Partial

import jaxband as jb


def draw(height, shape, key):
    return height * shape * jax.random.uniform(key, (len(shape), 1))


def rising(num_arms, z_max, noise, height: float):
    if height > 9:
        raise ValueError(f"height must be <= 9, got {height}")
    shape = jnp.broadcast_to(jnp.linspace(0.0, 1.0, z_max + 1), (num_arms, z_max + 1))
    return jb.Problem(Partial(draw, height, shape), noise=noise)
""",
    "extra.py": """
def plays_of_first(curves, rounds):
    return rounds.arms == 0
""",
}
USERS_SPEC = """\
name = "own"
horizon = 4
replications = 9
replications_per_unit = 2
num_arms = 3
z_max = 3
metrics = ["total_reward", "bound_gap", "extra:plays_of_first"]

[policies.patient]
factory = "mine:patient"

[problems.rising]
factory = "world:rising"

[grid]
policy = ["patient", "round_robin"]
threshold = [1, 2]
height = 0.5
"""


def write_user_code(directory, spec=USERS_SPEC, **changed):
    """A spec with modules of a user's own, written into a directory; `changed` are modules' other contents."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in (USERS | {f"{module}.py": text for module, text in changed.items()}).items():
        (directory / name).write_text(text)
    (directory / "spec.toml").write_text(spec)
    return directory / "spec.toml"


def small_spec(**changes):
    """Two cells of 7 replications in units of 3: six files."""
    options = {
        "name": "small",
        "replications": 7,
        "horizon": 5,
        "replications_per_unit": 3,
        "problems": {"p": {"family": "table", "rows": CURVES}},
        "grid": {"policy": ["random", "round_robin"]},
    }
    return sweep.Spec(**(options | changes))


def pretend(units):
    """An engine whose results are a function of cell, metric and replication, and of nothing else."""
    for unit in units:
        yield unit, measured(unit)


def measured(unit):
    metrics = unit.cell.metrics
    return UnitResult({m: pretended(unit, m) for m in metrics}, {m: pretended_trajectories(unit, m) for m in metrics})


def pretended_trajectories(unit, metric):
    """In equal steps to the total."""
    steps = trajectories.checkpoints(unit.cell) / unit.cell.settings["horizon"]
    totals = pretended(unit, metric)[: trajectories.kept(unit.cell, unit.start, unit.stop)]
    return (totals[:, None] * steps).astype(np.float32)


def pretended(unit, metric):
    seeds = [f"{unit.cell.identity} {metric} {r}".encode() for r in range(unit.start, unit.stop)]
    return np.array([int.from_bytes(hashlib.sha256(seed).digest()[:6]) / 2**20 for seed in seeds])


def collected(directory):
    """What `jaxband collect` prints, and all results besides."""
    found = sweep.load(directory)
    assert not found.rejected and not found.missing
    arrays = [{m: x.tobytes() for m, x in arrays.items()} for arrays in (*found.totals, *found.trajectories)]
    return tables.to_csv(found.rows()), arrays


def unit_files(directory):
    return sorted(os.listdir(directory / "units"))


def temporaries(directory):
    return [name for _, _, names in os.walk(directory) for name in names if name.startswith(TEMPORARY)]


class Crash(BaseException):
    """The power goes out."""


class Fast(FileSystem):
    """Waits for no disk: what the kernel has been told is safe from anything a test can do."""

    def sync(self, handle):
        pass

    def sync_directory(self, path):
        pass


class Counting(Fast):
    """Stops, or fails, at operation number `at`; counts and names the operations."""

    def __init__(self, at=None, when="before", error=None):
        self.at, self.when, self.error, self.log, self.dead, self.handles = at, when, error, [], False, set()

    def power_out(self):
        """What the kernel does when a process ends: close its files, which lets go of the lock."""
        for handle in list(self.handles):
            os.close(handle)


def _instrumented(name):
    real = getattr(Fast, name)

    def operation(self, *arguments):
        if self.dead:
            raise Crash
        number = len(self.log)
        self.log.append(name)
        if number != self.at:
            return _track(self, name, arguments, real(self, *arguments))
        if self.error is not None:
            raise self.error
        if self.when == "middle" and name in ("write", "append"):
            arguments = (arguments[0], arguments[1][: len(arguments[1]) // 2])
        if self.when != "before":
            _track(self, name, arguments, real(self, *arguments))
        self.dead = True
        raise Crash

    return operation


def _track(disk, name, arguments, result):
    if name in ("create", "lock") and result is not None:
        disk.handles.add(result)
    if name == "close":
        disk.handles.discard(arguments[0])
    return result


for _name in OPERATIONS:
    setattr(Counting, _name, _instrumented(_name))
