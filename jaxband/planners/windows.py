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

from jaxband import checks


def reach(table: Array, z: Array, depth: int) -> Array:
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


def gains(points: Array, num_slots: Array | None = None) -> Array:
    """What the last play of every slot set adds: [K, 2^d, ...] from points [K, 2d − 1, ...]; 0 for the empty set.

    With `num_slots`, plays in later slots add nothing: the window is cut short.
    """
    depth = (points.shape[1] + 1) // 2
    slot = last_slot(depth)
    counted = (slot >= 0) & (slot < (depth if num_slots is None else num_slots))
    return jnp.where(jnp.expand_dims(counted, (0, *range(2, points.ndim))), points[:, last_point(depth)], 0.0)


def end_points(end_values: Array, z: Array, depth: int) -> Array:
    """What each arm's rest after the window is worth, [K, d + 1], from end_values [K, G] and rests z [K].

    The first d are for a last play in slots 0..d−1, which leaves a rest of d−1..0; the last is for no play at all.
    """
    z_max = end_values.shape[1] - 1
    after = jnp.minimum(jnp.arange(depth - 1, -1, -1, dtype=z.dtype), z_max)
    left_alone = jnp.minimum(z[:, None] + jnp.asarray(depth, z.dtype), z_max)
    rests = jnp.concatenate([jnp.broadcast_to(after[None, :], (z.shape[0], depth)), left_alone], axis=1)
    return jnp.take_along_axis(end_values, rests, axis=1)


def end_totals(ends: Array) -> Array:
    """What the rest after the window is worth for every slot set, [K, 2^d] from `end_points` [K, d + 1]."""
    return ends[:, last_slot(ends.shape[1] - 1)]  # −1, for no play, is the last column


def end_gains(ends: Array) -> Array:
    """How the last play of every slot set changes that worth, [K, 2^d]; 0 for the empty set."""
    worth = end_totals(ends)
    slots = np.arange(worth.shape[1])
    without_last = slots - np.where(slots > 0, 1 << np.maximum(last_slot(ends.shape[1] - 1), 0), 0)
    return worth - worth[:, without_last]


def totals(gains: Array) -> Array:
    """What all plays of every slot set add up to: [K, 2^d, ...], like `gains`."""
    total = jnp.zeros_like(gains[:, :1])
    while total.shape[1] < gains.shape[1]:
        size = total.shape[1]
        total = jnp.concatenate([total, total + gains[:, size : 2 * size]], axis=1)
    return total


def variance_gains(roots: Array) -> Array:
    """What the last play of every slot set adds to the variance of its arm's sum: [K, 2^d] from roots [K, 2d − 1, r].

    With S the sum of the earlier rows and v the last: ‖S + v‖² − ‖S‖² = v·(2S + v).
    """
    last = gains(roots)
    earlier = totals(last) - last
    return jnp.sum(last * (2.0 * earlier + last), axis=-1)


def inputs(z: Array, **table: Array) -> tuple[Array, Array]:
    """One named table [K, G, ...] and rests z [K] as arrays, checked."""
    ((name, table),) = table.items()
    table, z = jnp.asarray(table, dtype=float), jnp.asarray(z)
    checks.shape(name, table, (None,) * max(table.ndim, 2), "[K, G, ...]")
    checks.finite(name, table)
    checks.shape("z", z, table.shape[:1], "[K]")
    checks.indices("z", z, table.shape[1], "the grid")
    return table, z


def ucb_inputs(mean: Array, root: Array, z: Array) -> tuple[Array, Array, Array]:
    """Mean [K, G], root [K, G, r] and rests z [K] as arrays, checked."""
    mean, z = inputs(z, mean=mean)
    root, z = inputs(z, root=root)
    checks.shape("root", root, (*mean.shape, None), "[K, G, r]")
    return mean, root, z


def check_points(points: Array, depth: int, ends: Array | None = None) -> None:
    """Do the points, and the worth of what is left after them, belong to a window of this depth?"""
    checks.shape("points", points, (None, 2 * depth - 1), "[K, 2·depth − 1]")
    if ends is not None:
        checks.shape("ends", ends, (points.shape[0], depth + 1), "[K, depth + 1]")


def within_reach(curves: Array, z: Array, depth: int, end_values: Array | None) -> tuple[Array, Array | None]:
    """The points of curves [K, G] from rests z [K], and the `end_points` if end values [K, G] are given; checked."""
    curves, z = inputs(z, curves=curves)
    points = reach(curves, z, depth)
    if end_values is None:
        return points, None
    return points, end_points(_end_values(end_values, curves), z, depth)


def within_longer_reach(curves: Array, z: Array, depth: int, end_values: Array | None) -> tuple[Array, Array]:
    """The points of curves [K, G] in a window of one slot more, and the end values at them or zeros: [K, 2d + 1]."""
    curves, z = inputs(z, curves=curves)
    points = reach(curves, z, depth + 1)
    if end_values is None:
        return points, jnp.zeros_like(points)
    return points, reach(_end_values(end_values, curves), z, depth + 1)


def _end_values(end_values: Array, curves: Array) -> Array:
    checks.shape("end_values", end_values, curves.shape, "[K, G]")
    checks.finite("end_values", end_values)
    return jnp.asarray(end_values, dtype=float)


def check_single_play(depth: int, repeats: bool, num_arms: int) -> None:
    """Without repeats a plan needs as many arms as it has slots."""
    if not repeats and depth > num_arms:
        what = f"depth must be <= num_arms without repeats, got depth {depth} and {num_arms} arms"
        raise ValueError(f"{what}; allow repeats or look less far ahead")
