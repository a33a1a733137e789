"""Slot sets: what an arm adds to a plan depends only on the slots it is played in.

Arm j, rested Z_j now and played in slots a_1 < a_2 < … of a d-step plan, is played at rests min(z_max, Z_j + a_1),
a_2 − a_1 − 1, … So 2d − 1 *points* of each curve matter: a first play in slot 0..d−1, then gaps 0..d−2. And each of
the 2^d slot sets A, coded as a bit mask, stands for one sum of such points. A plan is a partition of the slots
among the arms.
"""

import functools

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband.base import IDLE, Plan


def gather_points(table: Array, z: Array, depth: int) -> Array:
    """The rows of `table` [K, G, ...] at the points within reach from rests z [K]: [K, 2d − 1, ...]."""
    return table[jnp.arange(z.shape[0])[:, None], rests(z, depth, table.shape[1] - 1)]


def rests(z: Array, depth: int, z_max: int) -> Array:
    """The rest at each point within reach, [K, 2d − 1]: first plays in slots 0..d−1, then gaps 0..d−2."""
    slots = jnp.arange(depth, dtype=z.dtype)
    first = jnp.minimum(z[:, None] + slots[None, :], z_max)
    again = jnp.broadcast_to(jnp.minimum(slots[:-1], z_max)[None, :], (z.shape[0], depth - 1))
    return jnp.concatenate([first, again], axis=1)


@functools.cache
def last_point(depth: int) -> np.ndarray:
    """The point at which the last play of each slot set happens, [2^d]; the empty set has none and says 0."""
    points = np.zeros(2**depth, np.int32)
    for slots in range(1, 2**depth):
        last = slots.bit_length() - 1
        before = (slots - (1 << last)).bit_length() - 1
        points[slots] = last if before < 0 else depth + (last - before - 1)
    return points


@functools.cache
def last_slot(depth: int) -> np.ndarray:
    """The last slot of each slot set, [2^d]; −1 for the empty one."""
    return np.array([slots.bit_length() - 1 for slots in range(2**depth)], np.int32)


def increments(points: Array, num_slots: Array | None = None) -> Array:
    """What the last play of every slot set adds: [K, 2^d, ...] from points [K, 2d − 1, ...]; 0 for the empty set.

    With `num_slots`, plays in later slots add nothing: the window is cut short.
    """
    depth = (points.shape[1] + 1) // 2
    slot = last_slot(depth)
    counted = (slot >= 0) & (slot < (depth if num_slots is None else num_slots))
    return jnp.where(jnp.expand_dims(counted, (0, *range(2, points.ndim))), points[:, last_point(depth)], 0.0)


def terminal_points(terminal_values: Array, z: Array, depth: int) -> Array:
    """What each arm's rest after the window is worth, [K, d + 1], from terminal_values [K, G] and rests z [K].

    The first d are for a last play in slots 0..d−1, which leaves a rest of d−1..0; the last is for no play at all.
    """
    z_max = terminal_values.shape[1] - 1
    after = jnp.minimum(jnp.arange(depth - 1, -1, -1, dtype=z.dtype), z_max)
    left_alone = jnp.minimum(z[:, None] + jnp.asarray(depth, z.dtype), z_max)
    rests = jnp.concatenate([jnp.broadcast_to(after[None, :], (z.shape[0], depth)), left_alone], axis=1)
    return jnp.take_along_axis(terminal_values, rests, axis=1)


def terminal_totals(ends: Array) -> Array:
    """What the rest after the window is worth for every slot set, [K, 2^d] from `terminal_points` [K, d + 1]."""
    return ends[:, last_slot(ends.shape[1] - 1)]  # −1, for no play, is the last column


def terminal_increments(ends: Array) -> Array:
    """How the last play of every slot set changes that worth, [K, 2^d]; 0 for the empty set."""
    worth = terminal_totals(ends)
    slots = np.arange(worth.shape[1])
    without_last = slots - np.where(slots > 0, 1 << np.maximum(last_slot(ends.shape[1] - 1), 0), 0)
    return worth - worth[:, without_last]


def slot_set_totals(gains: Array) -> Array:
    """What all plays of every slot set add up to: [K, 2^d, ...], like `gains`."""
    total = jnp.zeros_like(gains[:, :1])
    while total.shape[1] < gains.shape[1]:
        size = total.shape[1]
        total = jnp.concatenate([total, total + gains[:, size : 2 * size]], axis=1)
    return total


def variance_increments(roots: Array) -> Array:
    """What the last play of every slot set adds to the variance of its arm's sum: [K, 2^d] from roots [K, 2d − 1, r].

    With S the sum of the earlier rows and v the last: ‖S + v‖² − ‖S‖² = v·(2S + v).
    """
    last = increments(roots)
    earlier = slot_set_totals(last) - last
    return jnp.sum(last * (2.0 * earlier + last), axis=-1)


def window_points(curves: Array, z: Array, depth: int, terminal_values: Array | None) -> tuple[Array, Array | None]:
    """The points of curves [K, G] from rests z [K], and the `terminal_points` if terminal values are given."""
    terminal = None if terminal_values is None else terminal_points(terminal_values, z, depth)
    return gather_points(curves, z, depth), terminal


def extended_window_points(curves: Array, z: Array, depth: int, terminal_values: Array | None) -> tuple[Array, Array]:
    """The points of curves [K, G] in a window of one slot more, and terminal values at them or zeros: [K, 2d + 1]."""
    points = gather_points(curves, z, depth + 1)
    if terminal_values is None:
        return points, jnp.zeros_like(points)
    return points, gather_points(terminal_values, z, depth + 1)


def mask(points: Array, available: Array | None, idle: bool = False, virtual_arms: int = 1) -> Array:
    """Points [K, n] that leave out what cannot be played: −∞ where an arm is not `available` [K] in the first slot.

    Then there are rounds without a play. They are plays of a virtual arm that pays nothing, the last row: in the first
    slot if no arm is available, with `idle` in any slot. Unchanged if all arms are available and nobody may idle.
    """
    if available is None and not idle:
        return points
    none = jnp.zeros((), points.dtype) if idle else jnp.where(jnp.any(available), -jnp.inf, 0.0).astype(points.dtype)
    later = 0.0 if idle else -jnp.inf
    virtual = jnp.full((virtual_arms, points.shape[1]), later, points.dtype).at[:, 0].set(none)
    if available is not None:
        points = points.at[:, 0].set(jnp.where(available, points[:, 0], -jnp.inf))
    return jnp.concatenate([points, virtual])


def pad_for_idle(rows: Array, available: Array | None, idle: bool = False, virtual_arms: int = 1) -> Array:
    """`rows` [K, ...] with zeros for the virtual arm of `mask`, if there is one."""
    if available is None and not idle:
        return rows
    return jnp.pad(rows, ((0, virtual_arms), *((0, 0) for _ in rows.shape[1:])))


def unmask(plan: Plan, num_arms: int, available: Array | None, idle: bool = False) -> Plan:
    """A plan with `IDLE` for the virtual arm of `mask`, if there is one."""
    if available is None and not idle:
        return plan
    return plan._replace(arms=jnp.where(plan.arms < num_arms, plan.arms, IDLE))


def check_single_play(depth: int, repeats: bool, num_arms: int) -> None:
    """Without repeats a plan needs as many arms as it has slots."""
    if not repeats and depth > num_arms:
        what = f"depth must be <= num_arms without repeats, got depth {depth} and {num_arms} arms"
        raise ValueError(f"{what}; allow repeats or look less far ahead")
