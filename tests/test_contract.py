"""One contract: everything in the registry keeps it, a loop by hand is the compiled loop, what breaks it is refused.

The batteries are those of `jaxband.testing`; policies, planners, kernels and families come from the registry, so that a
new one is tested by being registered.
"""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxband as jb
from jaxband import kernels, registry, testing
from jaxband._runtime.compile_timer import compile_timer
from jaxband.planners import exhaustive, subset
from jaxband.sweep.spec import build

K, Z_MAX, NOISE = 3, 6, 0.3
KERNEL = kernels.SquaredExponential(2.0)
SHAPE = {"num_arms": K, "z_max": Z_MAX, "policy_noise": NOISE, "horizon": 200}


def from_registry(name):
    entry = registry.entry("policy", name)
    return build.policy(entry, SHAPE | entry.defaults | entry.example)


@jb.pytree_dataclass(static=("num_arms",))
class EpsilonGreedy(jb.Policy):
    """A policy as a user would write it: averages per arm, blind to rests."""

    num_arms: int
    epsilon: float = 0.1

    def init(self, key):
        return jnp.zeros(self.num_arms), jnp.zeros(self.num_arms)

    def choose(self, key, state, round):
        counts, sums = state
        key_explore, key_arm = jax.random.split(key)
        greedy = jnp.argmax(sums / jnp.maximum(counts, 1.0))
        explore = jax.random.uniform(key_explore) < self.epsilon
        return jnp.where(explore, jax.random.randint(key_arm, (), 0, self.num_arms), greedy), state

    def update(self, state, round, arm, reward):
        counts, sums = state
        return counts.at[arm].add(1.0), sums.at[arm].add(reward)


def counting_policy():
    """A policy of three functions, whose state is a Python number."""
    return jb.policies.from_functions(
        init=lambda key: 0,
        choose=lambda key, state, round: ((state + jnp.argmax(round.z)) % K, state),
        update=lambda state, round, arm, reward: state + 1,
        num_arms=K,
    )


WRAPPED = {
    "3RGP-UCB, two plays per plan, warm-up": lambda: jb.policies.rgp_ucb(
        KERNEL, K, Z_MAX, NOISE, planner=subset(3), replan_every=2, warm_up=4
    ),
    "2RGP-TS, warm-up": lambda: jb.policies.rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(2), warm_up=5),
    "2RGP-TS, learning": lambda: jb.policies.rgp_ts(
        KERNEL, K, Z_MAX, NOISE, planner=exhaustive(2), refit_every=5, warm_up=3
    ),
    "pointwise, learning": lambda: jb.policies.rgp_pointwise(KERNEL, K, Z_MAX, NOISE, planner=subset(2), refit_every=4),
    "random, warm-up": lambda: jb.policies.with_warm_up(jb.policies.random(K), 7),
    "oracle, two of three plays": lambda: jb.policies.oracle(K, Z_MAX, planner=exhaustive(3), replan_every=2),
    "own": lambda: EpsilonGreedy(K),
    "own, of functions": counting_policy,
}
ALL = {name: (lambda name=name: from_registry(name)) for name in registry.names("policy")} | WRAPPED
DEAR = ("rogue_ucb_tuned",)  # thousands of operations, compiled one by one where nothing is jitted


@pytest.mark.parametrize("name", [name for name in ALL if name not in DEAR])
def test_every_policy_keeps_the_contract(name, compiled_quickly):
    testing.check_policy(ALL[name](), rounds=10)


@pytest.mark.parametrize("name", [name for name in registry.names("policy") if name not in DEAR])
def test_every_policy_of_the_library_obeys_masks(name, compiled_quickly):
    testing.check_policy(from_registry(name), rounds=10, masks=True)


@pytest.mark.slow
@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("name", DEAR)
def test_dear_policies_keep_the_contract(name, masks):
    testing.check_policy(from_registry(name), rounds=10, masks=masks)


@pytest.mark.parametrize("name", registry.names("planner"))
def test_every_planner_keeps_the_contract(name):
    entry = registry.entry("planner", name)
    testing.check_planner(entry.make({}, entry.example))


@pytest.mark.parametrize("planner", [exhaustive(2, repeats=False), subset(2, repeats=False)], ids=str)
def test_planners_of_single_play_keep_the_contract(planner):
    testing.check_planner(planner)


@pytest.mark.parametrize("name", registry.names("kernel"))
def test_every_kernel_is_a_pytree_of_positive_semi_definite_matrices(name):
    entry = registry.entry("kernel", name)
    kernel = entry.make({}, entry.example)
    leaves, structure = jax.tree.flatten(kernel)
    assert type(jax.tree.unflatten(structure, leaves)) is type(kernel) and hash(structure) == hash(structure)
    matrix = np.asarray(kernels.gram(kernel, Z_MAX))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    assert np.linalg.eigvalsh(matrix.astype(np.float64)).min() > -1e-5


@pytest.mark.parametrize("name", registry.names("family"))
def test_every_family_gives_finite_curves_within_its_bounds(name):
    family = registry.entry("family", name).make({"z_max": Z_MAX}, {})
    low, high = np.asarray(family.bounds, float).T
    for weight in (0.1, 0.5, 0.9):
        assert np.isfinite(family.table(jnp.asarray(low + weight * (high - low)), Z_MAX + 1)).all()


ROUNDS, SEEDS = 200, 20


@pytest.mark.as_users
@pytest.mark.parametrize("name", [name for name in ALL if name not in DEAR])
def test_a_loop_by_hand_is_simulate(name):
    """Arm for arm over 200 rounds on 20 seeds, states within 1e-5 of their size; `choose` and `update` are jitted."""
    check_by_hand(ALL[name]())


@pytest.mark.slow
@pytest.mark.parametrize("name", DEAR)
def test_a_loop_by_hand_is_simulate_for_dear_policies(name):
    check_by_hand(from_registry(name))


def check_by_hand(policy):
    curves = np.random.default_rng(1).uniform(0.1, 1.0, (K, Z_MAX + 1))
    problem = jb.Problem(curves, noise=NOISE)
    keys = jax.random.split(jax.random.key(5), SEEDS)
    runs = jax.jit(jax.vmap(lambda key: jb.simulate(policy, problem, key, ROUNDS)))(keys)
    parts = jax.vmap(lambda key: jax.random.split(key, 5))(keys)
    state = jax.jit(jax.vmap(lambda k: policy.inform(policy.init(k[1]), problem.draw(k[0]))))(parts)

    @jax.jit
    @jax.vmap
    def choose(keys, state, z, t):
        randomness = jax.tree.map(lambda x: x[0], policy.draw(keys[3], t[None]))
        return policy.choose(randomness, state, jb.Round(t, z))

    @jax.jit
    @jax.vmap
    def update(state, z, t, arm, reward):
        return policy.update(state, jb.Round(t, z), arm, reward), jb.next_z(z, arm, Z_MAX)

    z = jnp.zeros((SEEDS, K), jnp.int32)
    for t in range(ROUNDS):
        now = jnp.full(SEEDS, t, jnp.int32)
        arm, state = choose(parts, state, z, now)
        np.testing.assert_array_equal(arm, runs.arms[:, t], err_msg=f"round {t}")
        state, z = update(state, z, now, arm, runs.rewards[:, t])
    assert_same_states(state, runs.state)


def assert_same_states(by_hand, compiled):
    for ours, theirs in zip(jax.tree.leaves(by_hand), jax.tree.leaves(compiled), strict=True):
        scale = max(1.0, float(np.abs(np.nan_to_num(np.asarray(theirs))).max(initial=0.0)))
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-5 * scale)


@pytest.mark.as_users
@pytest.mark.parametrize("name", [name for name in ALL if name not in DEAR])
def test_a_loop_without_jit_is_simulate(name):
    """As a user would write it: `choose` and `update` called with numbers."""
    check_without_jit(ALL[name](), seeds=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_loop_without_jit_is_simulate_on_many_seeds(name):
    check_without_jit(ALL[name](), seeds=SEEDS)


def check_without_jit(policy, seeds):
    problem = jb.Problem(np.random.default_rng(2).uniform(0.1, 1.0, (K, Z_MAX + 1)), noise=NOISE)
    for key in jax.random.split(jax.random.key(3), seeds):
        run = jb.simulate(policy, problem, key, ROUNDS)
        testing.play_by_hand(policy, problem, key, 2, run.rewards)
        with compile_timer() as compile_seconds:
            arms, state = testing.play_by_hand(policy, problem, key, ROUNDS, run.rewards)
        assert compile_seconds() == 0.0, "all was compiled in the first rounds"
        np.testing.assert_array_equal(arms, run.arms)
        assert_same_states(state, run.state)


def test_draws_ahead_are_those_of_each_round_to_the_last_bit():
    policy, key = jb.policies.rgp_ts(KERNEL, K, Z_MAX, NOISE), jax.random.key(0)
    ahead = policy.draw(key, jnp.arange(64, dtype=jnp.int32))
    for t in (0, 1, 31, 63):
        np.testing.assert_array_equal(ahead[t], policy.draw(key, jnp.array([t], jnp.int32))[0])


def test_numbers_of_a_policy_can_be_mapped_over():
    """Noise and, with a fixed rank, the lengthscale: `vmap` over them equals one policy after the other."""
    problem = jb.Problem(np.random.default_rng(0).normal(size=(K, Z_MAX + 1)), noise=NOISE)
    lengthscales, noises = jnp.array([1.0, 2.5]), jnp.array([0.2, 0.5])

    def play(lengthscale, noise):
        kernel = kernels.SquaredExponential(lengthscale)
        policy = jb.policies.rgp_ucb(kernel, K, Z_MAX, noise, rank=Z_MAX + 1)
        return jb.simulate(policy, problem, jax.random.key(0), 25)

    runs = jax.jit(jax.vmap(play))(lengthscales, noises)
    for i in range(2):
        policy = jb.policies.rgp_ucb(kernels.SquaredExponential(float(lengthscales[i])), K, Z_MAX, float(noises[i]))
        np.testing.assert_array_equal(runs.arms[i], jb.simulate(policy, problem, jax.random.key(0), 25).arms)
    with pytest.raises(TypeError, match="give rank="):
        jax.jit(lambda l: jb.policies.rgp_ucb(kernels.SquaredExponential(l), K, Z_MAX, NOISE).prior.mean)(1.0)
    with pytest.raises(ValueError, match="rank must be >= 7"):
        jb.posterior.prior(kernels.SquaredExponential(0.5), K, Z_MAX, rank=3)


# What breaks the contract: each is refused with the policy's name and a remedy, in simulate and in monte_carlo.


def functions(choose=None, init=None, update=None, **options):
    return jb.policies.from_functions(
        init or (lambda key: jnp.zeros(2)),
        choose or (lambda key, state, round: (0, state)),
        update or (lambda state, round, arm, reward: state),
        num_arms=K,
        name="broken",
        **options,
    )


class PlainClass:
    num_arms = K

    def init(self, key):
        return ()


class NoPytree(jb.Policy):
    num_arms = K


@jb.pytree_dataclass(static=("num_arms",))
class NothingDefined(jb.Policy):
    num_arms: int


@jb.pytree_dataclass(static=("num_arms", "table"))
class UnhashableField(EpsilonGreedy):
    num_arms: int
    table: list = dataclasses.field(default_factory=lambda: [1, 2])


@jb.pytree_dataclass(static=("num_arms",))
class TextAsLeaf(EpsilonGreedy):
    num_arms: int
    mode: str = "fast"


@jb.pytree_dataclass()
class TracedNumberOfArms(EpsilonGreedy):
    num_arms: int


def fails(*_):
    raise KeyError("no such thing")


BROKEN = {
    "a list as arm": (lambda: functions(lambda k, s, r: ([0], s)), r"broken.*shape \[1\].*take one entry"),
    "an array as arm": (lambda: functions(lambda k, s, r: (r.z, s)), r"broken.*must return a scalar.*got shape \[3\]"),
    "a float as arm": (lambda: functions(lambda k, s, r: (r.z[0] / 2, s)), "broken.*integer arm, got dtype float32"),
    "a truth value as arm": (lambda: functions(lambda k, s, r: (r.z[0] > 1, s)), "broken.*integer arm, got dtype bool"),
    "a text as arm": (lambda: functions(lambda k, s, r: ("a", s)), "broken.*must return an arm, a number, got 'a'"),
    "arm too large": (lambda: functions(lambda k, s, r: (K, s)), r"broken chose arm 3 in .*round 0; .*0\.\.2"),
    "arm negative": (lambda: functions(lambda k, s, r: (-1, s)), "broken chose arm -1 in .*round 0"),
    "arm invalid": (lambda: functions(lambda k, s, r: (jb.INVALID, s)), "broken chose arm -2"),
    "arm out of range later": (
        lambda: functions(lambda k, s, r: (jnp.where(r.t == 5, 100, 0), s)),
        "broken chose arm 100 in .*round 5",
    ),
    "no state returned": (lambda: functions(lambda k, s, r: 0), r"broken.choose must return \(arm, state\), got int"),
    "state of another structure": (
        lambda: functions(update=lambda s, r, a, y: (s, s)),
        "broken.update must return a state of the same structure",
    ),
    "state of another shape": (
        lambda: functions(update=lambda s, r, a, y: s[:1]),
        r"broken.update must leave .* as it is, float32\[2\], got float32\[1\]",
    ),
    "state of another dtype": (
        lambda: functions(lambda k, s, r: (0, s.astype(jnp.int32))),
        r"broken.choose must leave .* float32\[2\], got int32\[2\]",
    ),
    "state of texts": (lambda: functions(init=lambda k: {"a": "b"}), "broken.init must return a state of arrays"),
    "an exception": (lambda: functions(fails), r"broken.choose raised KeyError \(test_contract.py, line \d+\)"),
    "an exception in init": (lambda: functions(init=fails), "broken.init raised KeyError"),
    "an exception in update": (lambda: functions(update=fails), "broken.update raised KeyError"),
    "Python's if": (
        lambda: functions(lambda k, s, r: (0 if r.z[0] > 1 else 1, s)),
        "broken.choose raised TracerBoolConversionError .*use jnp, jnp.where and lax.cond",
    ),
    "NumPy": (
        lambda: functions(lambda k, s, r: (np.asarray(r.z)[0], s)),
        "broken.choose raised .*policies are compiled",
    ),
    "a plain class": (PlainClass, "policy must be a jaxband.Policy, got .*subclass jb.Policy, or use .*from_functions"),
    "no pytree": (NoPytree, r"NoPytree is no pytree; put @jb.pytree_dataclass\(static="),
    "nothing defined": (lambda: NothingDefined(K), r"NothingDefined does not define init\(key\)"),
    "a static field that cannot be hashed": (
        lambda: UnhashableField(K),
        "UnhashableField.*static fields must be hashable",
    ),
    "a text as leaf": (lambda: TextAsLeaf(K), r"TextAsLeaf.mode must be a number or an array, got 'fast'; name it in"),
    "number of arms not static": (
        lambda: jax.tree.map(jnp.asarray, TracedNumberOfArms(K)),
        "TracedNumberOfArms.num_arms must be a Python int",
    ),
    "other arms than the problem": (lambda: jb.policies.random(K + 1), "policy has num_arms 4 but the problem has 3"),
    "plays against one": (lambda: functions(plays=2), "policy has plays 2 but the problem has None"),
}
PROBLEM = jb.Problem(np.random.default_rng(0).normal(size=(K, Z_MAX + 1)), noise=NOISE)


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_the_contract_is_refused_with_a_remedy(name):
    make, message = BROKEN[name]
    calls = [
        lambda: jb.simulate(make(), PROBLEM, jax.random.key(0), 8),
        lambda: jb.monte_carlo(make(), PROBLEM, horizon=8, replications=3),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError)) as refusal:
            call()
        assert re.search(message, str(refusal.value)), str(refusal.value)
        assert refusal.value.__suppress_context__ or refusal.value.__context__ is None, "a traceback comes first"


PAIRS = jb.Problem(np.random.default_rng(0).normal(size=(K, Z_MAX + 1)), noise=NOISE, plays=2)


@pytest.mark.parametrize(
    ("arms", "problem", "message"),
    [
        ([1, 1], PAIRS, r"chose arm \[1, 1\]"),
        ([2, 0], PAIRS, "in rising order"),
        ([0, -1], PAIRS, r"chose arm \[0, -1\]"),
        ([0, 3], PAIRS, r"2 different arms in 0\.\.2"),
        ([-1, 0], dataclasses.replace(PAIRS, idle=True), r"chose arm \[-1, 0\]"),
    ],
)
def test_several_plays_must_be_different_arms_in_order(arms, problem, message):
    policy = functions(lambda k, s, r: (jnp.array(arms), s), plays=2, idle=problem.idle)
    with pytest.raises(jb.PolicyError, match=message):
        jb.simulate(policy, problem, jax.random.key(0), 4)


def test_several_plays_are_paid_and_reset_their_arms():
    """m rewards per round; the noise of the first place is that of one play; idle plays pay nothing."""
    arms = jnp.array([[0, 1], [1, 2], [2, -1]])
    policy = functions(lambda k, s, r: (arms[r.t % 3], s), plays=2, idle=True)
    run = jb.simulate(policy, dataclasses.replace(PAIRS, idle=True), jax.random.key(0), 6)
    z = np.zeros(K, int)
    for t in range(6):
        np.testing.assert_array_equal(run.z[t], z)
        played = arms[t % 3][arms[t % 3] >= 0]
        z = np.where(np.isin(np.arange(K), played), 0, np.minimum(z + 1, Z_MAX))
    assert (run.rewards[2::3, 1] == 0.0).all() and (run.rewards[:2] != 0.0).all()
    single = jb.simulate(functions(lambda k, s, r: (arms[r.t % 3, 0], s)), PROBLEM, jax.random.key(0), 1)
    np.testing.assert_allclose(single.rewards[0], run.rewards[0, 0], rtol=1e-6)


def test_unavailable_arms_are_refused_and_missing_ones_are_idle():
    masked = jb.Problem(
        PROBLEM.curves, noise=NOISE, available=lambda key, t, z: jnp.arange(K) == t
    )  # arm t; later none
    stubborn = functions(lambda k, s, r: (0, s))
    with pytest.raises(jb.PolicyError, match=r"chose arm 0 in round 1; .*round.available allows"):
        jb.simulate(stubborn, masked, jax.random.key(0), 5)
    run = jb.simulate(jb.policies.random(K), masked, jax.random.key(0), 5)
    assert run.arms.tolist() == [0, 1, 2, -1, -1] and (run.rewards[3:] == 0.0).all()
    lazy = functions(lambda k, s, r: (-1, s))
    with pytest.raises(jb.PolicyError, match="chose arm -1 in round 0"):
        jb.simulate(lazy, masked, jax.random.key(0), 5)


def test_inside_jit_rewards_are_nan_from_the_fault_on():
    policy = functions(lambda k, s, r: (jnp.where(r.t == 3, 7, 1), s), update=lambda s, r, a, y: s + y)
    run = jax.jit(lambda key: jb.simulate(policy, PROBLEM, key, 6))(jax.random.key(0))
    assert np.isnan(run.rewards).tolist() == [False, False, False, True, True, True]
    assert np.isnan(run.state).all()


def test_the_first_fault_of_the_first_replication_is_named():
    """Replication 70 is in the second batch; faults beyond the horizon are none."""

    def choose(key, state, round):
        return jnp.where((state[0] > 0) & (round.t == 4), 9, 0), state

    curves = lambda key: jax.random.uniform(key, (K, Z_MAX + 1))  # noqa: E731
    problem = jb.Problem(curves, noise=NOISE)
    keys = jax.vmap(lambda r: jax.random.fold_in(jax.random.key(0), r))(jnp.arange(100))
    chosen = np.asarray(jax.vmap(lambda k: jax.random.uniform(jax.random.split(k, 5)[1]))(keys))
    limit = np.sort(chosen)[-3]
    first = int(np.flatnonzero(chosen > limit)[0])
    policy = functions(choose, init=lambda key: jnp.stack([jnp.where(jax.random.uniform(key) > limit, 1.0, 0.0), 0.0]))
    with pytest.raises(jb.PolicyError, match=f"broken chose arm 9 in replication {first}, round 4"):
        jb.monte_carlo(policy, problem, horizon=10, replications=100)
    jb.monte_carlo(policy, problem, horizon=4, replications=100)


def test_the_battery_finds_what_is_wrong():
    """A policy that is no function of its arguments, one that ignores masks, a planner that certifies too much."""
    calls = []

    def fickle(key, state, round):
        calls.append(1)
        return len(calls) % K, state

    with pytest.raises(testing.ContractError, match="choose must be a function of its arguments only"):
        testing.check_policy(functions(fickle))
    with pytest.raises(testing.ContractError, match=r"obey round\.available"):
        testing.check_policy(functions(lambda k, s, r: (0, s)), masks=True)
    with pytest.raises(testing.ContractError, match=r"broken\.choose must return"):
        testing.check_policy(functions(lambda k, s, r: 0))

    @dataclasses.dataclass(frozen=True)
    class First(jb.Planner):
        depth: int = 1

        def plan(self, curves, z, *, terminal_values=None, available=None, plays=None, idle=False):
            return jb.Plan(jnp.zeros(1, jnp.int32), jnp.asarray(curves)[0, z[0]], jnp.asarray(True))

    with pytest.raises(testing.ContractError, match="certify only what is proved"):
        testing.check_planner(First())
    with pytest.raises(testing.ContractError, match=r"subclass jb\.Planner"):
        testing.check_planner("subset")


def test_no_probing_of_policies_planners_or_kernels():
    """Signatures are read in registry.py alone; nobody asks whether a policy has a method."""
    import pathlib

    root = pathlib.Path(jb.__file__).parent
    allowed = {"registry.py"}
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in root.rglob("*.py")
        if path.name not in allowed
        for line in path.read_text().splitlines()
        if re.search(r'hasattr|inspect\.|getattr\([a-z_.]+, "', line)
    ]
    about = [line for line in found if re.search("polic|planner|kernel", line.partition(": ")[2])]
    assert not about, about
