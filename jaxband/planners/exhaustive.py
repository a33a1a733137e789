"""Search of the whole lookahead tree: the mean and variance of all K^d leaves, or of all K!/(K − d)! without repeats.

A leaf is scored by adding, slot by slot, what each play adds given the earlier slots of the same arm (`windows`):
one table look-up and one addition per node of the tree. Large trees are searched in chunks, one for every choice of
the leading arms. Of several best leaves the lexicographically first is returned.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband.base import Plan
from jaxband.planners import windows

LEAVES_PER_CHUNK = 2**15
MAX_LEAVES = 10**8
MAX_DEPTH = 20  # a table of 2^d slot sets per arm


def exhaustive(depth: int, repeats: bool = True) -> "Exhaustive":
    """A planner that scores every sequence of `depth` arms; without `repeats` no arm twice ("single play").

    >>> plan = exhaustive(depth=2).plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[1, 2])
    >>> plan.arms.tolist(), round(plan.value.item(), 3)
    ([1, 0], 1.7)
    """
    return Exhaustive(
        checks.whole_number("depth", depth, 1, MAX_DEPTH, remedy="use planners.optimistic"), bool(repeats)
    )


@dataclasses.dataclass(frozen=True)
class Exhaustive:
    depth: int
    repeats: bool = True

    def check(self, num_arms: int) -> None:
        """Can plans be made for so many arms?"""
        windows.check_single_play(self.depth, self.repeats, num_arms)
        leaves = _num_leaves(num_arms, self.depth, self.repeats)
        if leaves > MAX_LEAVES:
            what = f"exhaustive(depth={self.depth}) would score {leaves:.3g} leaves for {num_arms} arms"
            raise ValueError(f"{what}, more than {MAX_LEAVES:.0e}; use planners.subset, or look less far ahead")

    def plan(self, curves: Array, z: Array) -> Plan:
        """The sequence of largest total on known or sampled curves [K, G] from rests z [K]."""
        return self.plan_points(windows.reach(*windows.inputs(z, curves=curves), self.depth))

    def plan_points(self, points: Array, num_slots: Array | None = None) -> Plan:
        """The same from the points within reach [K, 2d − 1]; only the first `num_slots` slots count, if given."""
        windows.check_points(points, self.depth)
        self.check(points.shape[0])
        if self.depth == 1:
            return best_arm(points[:, 0] if num_slots is None else jnp.where(num_slots > 0, points[:, 0], 0.0))
        return self._search((windows.gains(points, num_slots),), lambda total: total)

    def plan_ucb(self, mean: Array, root: Array, z: Array, alpha: Array, *, extra_variance: Array = 0.0) -> Plan:
        """The sequence of largest η + α √(ς² + extra_variance); mean [K, G], root [K, G, r]."""
        mean, root, z = windows.ucb_inputs(mean, root, z)
        points = windows.reach(mean, z, self.depth), windows.reach(root, z, self.depth)
        return self.plan_ucb_points(*points, alpha, extra_variance=extra_variance)

    def plan_ucb_points(self, mean: Array, root: Array, alpha: Array, *, extra_variance: Array = 0.0) -> Plan:
        """The same from the points within reach, [K, 2d − 1] and [K, 2d − 1, r]."""
        self.check(mean.shape[0])
        tables = windows.gains(mean), windows.variance_gains(root)
        return self._search(tables, lambda eta, var: eta + alpha * jnp.sqrt(jnp.maximum(var, 0.0) + extra_variance))

    def _search(self, tables: tuple[Array, ...], objective) -> Plan:
        """The leaf with the largest objective(sum of each table along the path). The first table may hold −∞."""
        num_arms = tables[0].shape[0]
        tree = _tree(num_arms, self.depth, self.repeats)
        bits, lead_codes = jnp.asarray(tree.lead_bits), jnp.asarray(tree.lead_codes)

        def best_below(lead):
            sums = [jnp.sum(table.ravel()[lead_codes[lead]])[None] for table in tables]
            below = [_after(table, bits[lead]) for table in tables]
            if not self.repeats:
                below[0] = jnp.where((bits[lead] > 0)[:, None], -jnp.inf, below[0])
            for codes in tree.levels:
                sums = [(s[:, None] + table.ravel()[codes]).ravel() for s, table in zip(sums, below, strict=True)]
            scores = objective(*sums)
            leaf = jnp.argmax(scores)
            return scores[leaf], leaf

        if len(tree.leads) == 1:
            value, leaf = best_below(0)
            return Plan(tree.arms_of(0, leaf), value, jnp.asarray(True))
        values, leaves = jax.lax.map(best_below, jnp.arange(len(tree.leads)))
        lead = jnp.argmax(values)
        return Plan(tree.arms_of(lead, leaves[lead]), values[lead], jnp.asarray(True))


def best_arm(values: Array) -> Plan:
    """The plan of one play, the first of largest value [K]. Two plain reductions are faster than XLA's argmax."""
    best = jnp.max(values)
    arms = np.arange(len(values), dtype=np.int32)
    first = jnp.min(jnp.where(values == best, arms, arms[-1]))
    return Plan(first[None], best, jnp.asarray(True))


def _after(table: Array, bits: Array) -> Array:
    """`table` [K, 2^d] as seen after each arm k was played in the slots bits[k]: entry A becomes entry A ∪ bits[k]."""
    slots = jnp.arange(table.shape[1], dtype=bits.dtype)[None, :] | bits[:, None]
    return jnp.take_along_axis(table, slots, axis=1)


class _Tree(NamedTuple):
    """The shape of the lookahead tree, static. A node's code is arm·2^d + slot set of that arm up to this node."""

    depth: int
    leads: np.ndarray  # [N, l]; arms of the leading slots, one chunk of leaves each
    lead_codes: np.ndarray  # [N, l]; the nodes on the path to each lead
    lead_bits: np.ndarray  # [N, K]; slot set of every arm within each lead
    levels: tuple[
        np.ndarray, ...
    ]  # codes below a lead, one array [parents, children] per slot, as if no arm were in the lead

    def arms_of(self, lead: Array, leaf: Array) -> Array:
        leaves = self.levels[-1].size
        arms = [jnp.asarray(codes.ravel())[leaf // (leaves // codes.size)] >> self.depth for codes in self.levels]
        return jnp.concatenate([jnp.asarray(self.leads)[lead], jnp.stack(arms)])


@functools.cache
def _tree(num_arms: int, depth: int, repeats: bool) -> _Tree:
    lead = next(
        n for n in range(depth) if _num_leaves(num_arms, depth - n, repeats) <= LEAVES_PER_CHUNK or n == depth - 1
    )
    codes, levels = _grow(num_arms, depth, range(lead), repeats)
    leads = codes >> depth
    bits = np.zeros((len(leads), num_arms), np.int32)
    for slot in range(lead):
        bits[np.arange(len(leads)), leads[:, slot]] |= 1 << slot
    _, levels = _grow(num_arms, depth, range(lead, depth), repeats)
    return _Tree(depth, leads, codes, bits, tuple(levels))


def _grow(num_arms: int, depth: int, slots: range, repeats: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """Codes along all paths through `slots`, [paths, slots] in lexicographic order; per slot, [parents, children]."""
    paths, levels = np.zeros((1, 0), np.int32), []
    for slot in slots:
        arms = paths >> depth
        codes = np.empty((len(paths), num_arms), np.int32)
        for arm in range(num_arms):
            earlier = ((arms == arm) << np.arange(slots.start, slot, dtype=np.int32)).sum(axis=1)
            codes[:, arm] = (arm << depth) + earlier + (1 << slot)
        if not repeats:
            fresh = ((codes - (1 << slot)) & ((1 << depth) - 1)) == 0
            codes = codes[fresh].reshape(len(paths), num_arms - len(levels))
        levels.append(codes)
        paths = np.concatenate([np.repeat(paths, codes.shape[1], axis=0), codes.reshape(-1, 1)], axis=1)
    return paths, levels


def _num_leaves(num_arms: int, depth: int, repeats: bool) -> int:
    return num_arms**depth if repeats else math.perm(num_arms, depth)
