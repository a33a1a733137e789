"""Does a policy or a planner keep the contract of `base`? The battery that the library's own go through.

    jb.testing.check_policy(policy)
    jb.testing.check_planner(planner)

Both raise a ContractError that says what is wrong and what to change; they return nothing if all is well. They take
seconds: everything is compiled.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jaxband.base import IDLE, Plan, Planner, Policy, PolicyError, Round
from jaxband.problem import Problem, next_z
from jaxband.simulation import guards
from jaxband.simulation.rollout import simulate

TOLERANCE = 1e-5  # of states: other programs round the last bits otherwise
NOISE = 0.3


class ContractError(PolicyError):
    """What a policy or a planner does otherwise than the contract says."""


def check_policy(
    policy: Policy, *, z_max: int | None = None, rounds: int = 20, seed: int = 0, masks: bool = False
) -> None:
    """Run the battery on a policy: types, shapes, determinism, range, jit = eager, vmap = loop, by hand = `simulate`.

    The problem it is tried on has random curves, and with `masks` arms that are not always available.

    >>> from jaxband import policies
    >>> check_policy(policies.random(num_arms=3))
    """
    _as_contract(lambda: guards.check_policy_type(policy))
    _check_round_trip(policy)
    problem = _problem(policy, z_max, seed, masks)
    keys = [jax.random.fold_in(jax.random.key(seed), i) for i in range(3)]
    traces = []
    program = jax.jit(lambda policy, key: (traces.append(1), simulate(policy, problem, key, rounds))[1])
    runs = [_as_contract(lambda key=key: jax.device_get(program(policy, key))) for key in keys]
    for run in runs:
        _check_run(policy, problem, run)
    _check_numbers_do_not_recompile(policy, program, keys[0], traces)
    _same(policy, "with the same key", runs[0], jax.device_get(program(policy, keys[0])), exact=True)
    _check_draws(policy, keys[0], rounds)
    methods = by_hand(policy, problem, jax.jit)
    for key, run in zip(keys, runs, strict=True):
        arms, state = jax.device_get(play_by_hand(policy, problem, key, rounds, run.rewards, methods))
        _same_arms(policy, "in a loop by hand", run.arms, arms)
        _same(policy, "in a loop by hand", run.state, state)
    _check_eager(policy, problem, keys[0], runs[0], rounds=min(rounds, 3))
    side_by_side = jax.device_get(
        jax.jit(jax.vmap(lambda key: simulate(policy, problem, key, rounds)))(jnp.stack(keys))
    )
    for i, run in enumerate(runs):
        _same_arms(policy, "under vmap", run.arms, side_by_side.arms[i])
    _check_refresh(policy, runs[0].state)


def play_by_hand(policy: Policy, problem: Problem, key, rounds: int, rewards, methods=None):
    """The loop that the contract describes, with given rewards: arms [rounds, ...] and the last state.

    `methods` are the policy's, as `by_hand` makes them; by default without `jit`.
    """
    start, choose, update = methods or by_hand(policy, problem)
    keys = jax.random.split(key, 5)  # for curves, the first state, noise, plans, availability
    state, z, arms = start(keys), problem.z_init, []
    for t in range(rounds):
        arm, state, round = choose(keys, state, jnp.asarray(t, jnp.int32), z)
        state = update(state, round, arm, jnp.asarray(rewards[t]))
        z = next_z(z, arm, problem.z_max)
        arms.append(arm)
    return np.stack(arms), state


def by_hand(policy: Policy, problem: Problem, jit=lambda function: function):
    """What a loop by hand calls: the first state, a choice, an update."""

    def start(keys):
        return policy.inform(policy.init(keys[1]), problem.draw(keys[0]))

    def choose(keys, state, t, z):
        round = Round(t, z, problem.who_is_available(keys[4], t, z))
        randomness = jax.tree.map(lambda x: x[0], policy.draw(keys[3], t[None]))
        arm, state = policy.choose(randomness, state, round)
        return jnp.asarray(arm, jnp.int32), state, round

    return jit(start), jit(choose), jit(policy.update)


def _as_contract(call):
    try:
        return call()
    except ContractError:
        raise
    except PolicyError as error:
        raise ContractError(str(error)) from None


def _problem(policy: Policy, z_max: int | None, seed: int, masks: bool) -> Problem:
    z_max = policy.z_max if policy.z_max is not None else 5 if z_max is None else z_max
    curves = np.random.default_rng(seed).uniform(0.1, 1.0, (policy.num_arms, z_max + 1))
    available = np.full(policy.num_arms, 0.6) if masks else None
    return Problem(curves, NOISE, plays=policy.plays, idle=policy.idle, available=available)


def _check_round_trip(policy: Policy) -> None:
    """Flattened and put together again it is the same."""
    leaves, structure = jax.tree.flatten(policy)
    copy = jax.tree.unflatten(structure, leaves)
    if type(copy) is not type(policy) or jax.tree.structure(copy) != structure:
        what = f"{policy.title()} is another one after jax.tree.flatten and unflatten"
        raise ContractError(f"{what}; use jb.pytree_dataclass, and compare static fields by value")


def _check_run(policy: Policy, problem: Problem, run) -> None:
    bad = np.flatnonzero(np.isnan(run.rewards).reshape(len(run.rewards), -1).any(axis=1))
    if bad.size:
        t = int(bad[0])
        mask = "" if run.available is None else f" of the available {np.flatnonzero(run.available[t]).tolist()}"
        what = f"{policy.title()}.choose returned arm {np.asarray(run.arms[t]).tolist()} in round {t}{mask}"
        remedy = (
            "return an arm in 0..num_arms − 1" if problem.plays is None else "return different arms in rising order"
        )
        extra = "; obey round.available, and return -1 where too few arms are available" if mask else ""
        raise ContractError(f"{what}; {remedy}{extra}")
    played = run.arms[run.arms >= 0]
    if played.size and (played >= policy.num_arms).any():
        raise ContractError(f"{policy.title()}.choose returned arms beyond num_arms = {policy.num_arms}")


def _check_numbers_do_not_recompile(policy: Policy, program, key, traces: list) -> None:
    """Another number in a leaf is found in the same compiled program."""
    leaves, structure = jax.tree.flatten(policy)
    changed = [
        leaf * 1.0 if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf for leaf in map(jnp.asarray, leaves)
    ]
    before = len(traces)
    program(jax.tree.unflatten(structure, changed), key)
    first = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
    program(first, key)
    if len(traces) > before + 1:
        what = f"{policy.title()} is traced again for the same shapes"
        raise ContractError(f"{what}; static fields must be hashable and equal by value")


def _check_draws(policy: Policy, key, rounds: int) -> None:
    """Randomness drawn for many rounds at once is that of each round."""
    t = jnp.arange(rounds, dtype=jnp.int32)
    ahead = policy.draw(key, t)
    one_by_one = [policy.draw(key, t[i : i + 1]) for i in range(0, rounds, max(1, rounds // 4))]
    for place, single in zip(range(0, rounds, max(1, rounds // 4)), one_by_one, strict=True):
        for many, one in zip(jax.tree.leaves(ahead), jax.tree.leaves(single), strict=True):
            if not np.array_equal(_data(many[place]), _data(one[0])):
                what = f"{policy.title()}.draw gives other numbers for round {place} alone than among many"
                raise ContractError(f"{what}; what it gives must depend on key and round only")


def _data(x) -> np.ndarray:
    return np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)


def _check_eager(policy: Policy, problem: Problem, key, run, rounds: int) -> None:
    arms, _ = jax.device_get(play_by_hand(policy, problem, key, rounds, jnp.asarray(run.rewards)))
    _same_arms(policy, "without jit", run.arms[:rounds], arms)


def _check_refresh(policy: Policy, state) -> None:
    _as_contract(lambda: jax.eval_shape(lambda s: guards.refresh(policy, s), state))


def _same_arms(policy: Policy, where: str, expected: np.ndarray, found: np.ndarray) -> None:
    different = np.flatnonzero((np.asarray(expected) != np.asarray(found)).reshape(len(expected), -1).any(axis=1))
    if different.size:
        t = int(different[0])
        what = f"{policy.title()} plays arm {found[t]} {where} in round {t}, and {expected[t]} in simulate"
        raise ContractError(f"{what}; choose must be a function of its arguments only")


def _same(policy: Policy, where: str, expected, found, exact: bool = False) -> None:
    for (path, x), y in zip(jax.tree_util.tree_flatten_with_path(expected)[0], jax.tree.leaves(found), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind in "fc":
            scale = max(1.0, float(np.abs(np.where(np.isfinite(x), x, 0.0)).max(initial=0.0)))
            close = np.allclose(x, y, rtol=0.0, atol=0.0 if exact else TOLERANCE * scale, equal_nan=True)
        else:
            close = np.array_equal(x, y)
        if not close:
            name = jax.tree_util.keystr(path) or "state"
            what = f"{policy.title()} has another {name} {where}"
            raise ContractError(f"{what}; its methods must be functions of their arguments only")


def check_planner(planner: Planner, *, num_arms: int = 3, z_max: int = 4, problems: int = 20, seed: int = 0) -> None:
    """Run the battery on a planner: shapes, range, jit = eager, vmap = loop, masks, idle slots, and what it certifies.

    Plans that are certified are compared with all sequences, so keep num_arms ** depth small.

    >>> from jaxband import planners
    >>> check_planner(planners.subset(depth=2))
    """
    if not isinstance(planner, Planner):
        raise ContractError(f"planner must be a jaxband.Planner, got {planner!r}; subclass jb.Planner")
    name = type(planner).__name__
    try:
        hash(planner)
    except TypeError as error:
        raise ContractError(f"{name}: {error}; make it a frozen dataclass with hashable fields") from None
    planner.check(num_arms)
    rng = np.random.default_rng(seed)
    curves = rng.normal(size=(problems, num_arms, z_max + 1)).astype(np.float32)
    z = rng.integers(0, z_max + 1, (problems, num_arms)).astype(np.int32)
    available = rng.uniform(size=(problems, num_arms)) < 0.5
    available[0] = False
    plans = jax.device_get(jax.jit(jax.vmap(planner.plan))(curves, z))
    _check_plans(planner, name, plans, curves, z, None, idle=False)
    single = jax.device_get(planner.plan(curves[0], z[0]))
    if not np.array_equal(single.arms, plans.arms[0]):
        raise ContractError(f"{name}.plan finds {single.arms} alone and {plans.arms[0]} under jit and vmap")
    masked = jax.jit(jax.vmap(lambda c, r, a: planner.plan(c, r, available=a)))(curves, z, available)
    _check_plans(planner, name, jax.device_get(masked), curves, z, available, idle=False)
    idle = jax.jit(jax.vmap(lambda c, r: planner.plan(c - 0.8, r, idle=True)))(curves, z)
    _check_plans(planner, name, jax.device_get(idle), curves - np.float32(0.8), z, None, idle=True)
    _check_refusals(planner, name, curves[0], z[0])


def _check_plans(planner: Planner, name: str, plans: Plan, curves, z, available, idle: bool) -> None:
    count, num_arms, _ = curves.shape
    for field in Plan._fields:
        if field not in plans._fields:
            raise ContractError(f"{name} must return a Plan with {field}, got {plans._fields}")
    if plans.arms.shape != (count, planner.depth) or not np.issubdtype(plans.arms.dtype, np.integer):
        found = f"{plans.arms.dtype}{list(plans.arms.shape[1:])}"
        raise ContractError(f"{name}.plan must return integer arms [depth] = [{planner.depth}], got {found}")
    for i in range(count):
        arms = plans.arms[i]
        mask = np.ones(num_arms, bool) if available is None else available[i]
        allowed = {*np.flatnonzero(mask).tolist(), *([IDLE] if idle or not mask.any() else [])}
        if int(arms[0]) not in allowed:
            what = f"{name}.plan plays arm {arms[0]} first, but only {sorted(allowed)} can be"
            raise ContractError(f"{what}; obey available=, and play -1 if no arm is available")
        later = {*range(num_arms), *([IDLE] if idle else [])}
        if not set(arms[1:].tolist()) <= later:
            raise ContractError(
                f"{name}.plan returned arms {arms.tolist()}, of which some are not in 0..{num_arms - 1}"
            )
        played = arms[arms >= 0]
        if not planner.repeats and len(set(played.tolist())) < len(played):
            raise ContractError(f"{name}.plan repeats an arm, {arms.tolist()}, though repeats is False")
        total = plan_total(curves[i], z[i], arms)
        is_total = abs(total - float(plans.value[i])) <= 1e-4
        if bool(plans.certified[i]) and is_total:
            sequences = (
                [first, *rest] for first in allowed for rest in itertools.product(later, repeat=planner.depth - 1)
            )
            best = max(plan_total(curves[i], z[i], s) for s in sequences if planner.repeats or _no_repeats(s))
            if best > total + 1e-4:
                what = f"{name}.plan certified a plan of value {total:.4f} where the best has {best:.4f}"
                raise ContractError(f"{what}; certify only what is proved")


def _no_repeats(sequence) -> bool:
    played = [arm for arm in sequence if arm >= 0]
    return len(set(played)) == len(played)


def plan_total(curves: np.ndarray, z: np.ndarray, arms) -> float:
    """What a sequence of arms pays from rests z, by the dynamics."""
    z, total = np.array(z), 0.0
    for arm in arms:
        if arm >= 0:
            total += float(curves[arm, z[arm]])
        z = np.minimum(z + 1, curves.shape[1] - 1)
        if arm >= 0:
            z[arm] = 0
    return total


def _check_refusals(planner: Planner, name: str, curves, z) -> None:
    """What its class attributes say it cannot do is refused."""
    if planner.max_plays == 1:
        _must_refuse(lambda: planner.plan(curves, z, plays=2), f"{name}.plan(plays=2), which max_plays = 1 rules out")
    if not planner.takes_terminal_values:
        call = lambda: planner.plan(curves, z, terminal_values=0.0 * curves)  # noqa: E731
        _must_refuse(call, f"{name}.plan(terminal_values=...), which takes_terminal_values = False rules out")
    points = np.zeros((curves.shape[0], 2 * planner.depth - 1), np.float32)
    if not planner.plans_windows:
        _must_refuse(lambda: planner.plan_window(points), f"{name}.plan_window, which plans_windows = False rules out")


def _must_refuse(call, what: str) -> None:
    try:
        call()
    except (TypeError, ValueError, NotImplementedError):
        return
    raise ContractError(f"{what}, must raise an error, and did not")
