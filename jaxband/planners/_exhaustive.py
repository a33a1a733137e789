"""Search of the whole lookahead tree: the mean and variance of all K^d leaves, or of all K!/(K − d)! without repeats.

A leaf is a *stem*, the plays up to the last two, and a pair of last plays. What a play adds is looked up by the earlier
slots of the same arm (`slot_sets`): for a stem, three look-ups per arm (it is played in the last slot but one, in the
last, in both). All K² pairs are sums of those, so that there are far fewer look-ups than leaves, and leaves are scored
by plain vector arithmetic over the stems. Large trees are searched in chunks, one for every choice of the leading arms.
Of several best leaves the lexicographically first is returned.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband.base import Plan
from jaxband.planners import slot_sets
from jaxband.planners.greedy import best_arm
from jaxband.planners.window_planner import WindowPlanner
from jaxband.registry import Cost, register

LOOK_UPS_PER_CHUNK = 2**14
SHORT_LOOP = 2**7  # steps on fewer numbers cost less than going round a loop
MAX_LEAVES = 10**8
MAX_DEPTH = 20  # a table of 2^d slot sets per arm


def _cost(values, for_bounds: bool) -> Cost:
    leaves = _num_leaves(values["num_arms"], values["depth"], values.get("repeats", True))
    return Cost(0.07 * values["num_arms"] * values["depth"] + leaves * (0.004 if for_bounds else 0.0012), 7.0)


@register("planner", cost=_cost, example={"depth": 2}, words={"depth": ("depth", "plays")})
def exhaustive(depth: int, repeats: bool = True) -> "Exhaustive":
    """A planner that scores every sequence of `depth` arms; without `repeats` no arm twice ("single play").

    >>> plan = exhaustive(depth=2).plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[1, 2])
    >>> plan.arms.tolist(), round(plan.value.item(), 3)
    ([1, 0], 1.7)
    """
    return Exhaustive(checks.integer("depth", depth, 1, MAX_DEPTH, remedy="use planners.optimistic"), bool(repeats))


@dataclasses.dataclass(frozen=True)
class Exhaustive(WindowPlanner):
    depth: int
    repeats: bool = True

    takes_terminal_values = plans_upper_bounds = True

    def check(self, num_arms: int) -> None:
        """Refuse numbers of arms that it cannot plan for."""
        slot_sets.check_single_play(self.depth, self.repeats, num_arms)
        leaves = _num_leaves(num_arms, self.depth, self.repeats)
        if leaves > MAX_LEAVES:
            what = f"exhaustive(depth={self.depth}) would score {leaves:.3g} leaves for {num_arms} arms"
            raise ValueError(f"{what}, more than {MAX_LEAVES:.0e}; use planners.subset, or look less far ahead")

    def plan_window(self, points: Array, *, num_slots: Array | None = None, terminal: Array | None = None) -> Plan:
        """The same from the points within the window [K, 2d − 1]; only the first `num_slots` slots count, if given."""
        self.check(points.shape[0])
        if self.depth == 1 and num_slots is None and terminal is None:
            return best_arm(points[:, 0])  # so plain that XLA makes one loop of it and what it is made of
        gains = slot_sets.increments(points, num_slots)
        if terminal is None:
            return self._search((gains,), lambda total: total)
        left_alone = jnp.sum(terminal[:, -1])
        return self._search((gains + slot_sets.terminal_increments(terminal),), lambda total: total + left_alone)

    def plan_ucb_window(self, mean: Array, root: Array, alpha: Array, *, extra_variance: Array = 0.0) -> Plan:
        """The same from the points within the window, [K, 2d − 1] and [K, 2d − 1, r]."""
        self.check(mean.shape[0])
        tables = slot_sets.increments(mean), slot_sets.variance_increments(root)
        return self._search(tables, lambda eta, var: eta + alpha * jnp.sqrt(jnp.maximum(var, 0.0) + extra_variance))

    def _search(self, tables: tuple[Array, ...], objective) -> Plan:
        """The leaf with the largest objective(sum of each table along the path). The first table may hold −∞."""
        num_arms = tables[0].shape[0]
        if self.depth == 1:
            return best_arm(objective(*(table[:, 1] for table in tables)))
        tree = _tree(num_arms, self.depth, self.repeats)

        def best_below(lead):
            sums, below = tree.enter(lead, tables, self.repeats)
            for codes in tree.levels:
                sums = [(s[:, None] + table.ravel()[codes]).ravel() for s, table in zip(sums, below, strict=True)]
            pairs = [_Pairs.after(s, table, tree.stem_codes) for s, table in zip(sums, below, strict=True)]
            if not self.repeats:
                pairs[0] = pairs[0].without(tree.stem_plays)
            stem = jnp.argmax(_best_pairs(pairs, objective)) if len(tree.stems) > 1 else 0
            scores = objective(*(pair.of_stem(stem) for pair in pairs)).ravel()
            last = jnp.argmax(scores)
            return scores[last], stem, last

        if not tree.has_leads:
            value, stem, last = best_below(0)
            return Plan(tree.arms_of(0, stem, last), value, jnp.asarray(True))
        values, stems, lasts = jax.lax.map(best_below, jnp.arange(len(tree.leads)))
        lead = jnp.argmax(values)
        return Plan(tree.arms_of(lead, stems[lead], lasts[lead]), values[lead], jnp.asarray(True))


class _Pairs(NamedTuple):
    """The sums of one table along all paths: arm i in the last slot but one, arm j in the last, after every stem."""

    first: Array  # [K, stems]; the stem and arm i
    other: Array  # [K, stems]; arm j ≠ i
    same: Array  # [K, stems]; arm j = i

    @classmethod
    def after(cls, stem_sums: Array, table: Array, stem_codes: np.ndarray) -> "_Pairs":
        entries, last = table.ravel(), table.shape[1] // 2
        first = stem_sums[None, :] + entries[stem_codes + last // 2]
        return cls(first, entries[stem_codes + last], entries[stem_codes + last // 2 + last])

    def without(self, played: np.ndarray) -> "_Pairs":
        """No arm twice, nor those `played` [K, stems] before."""
        first, other = (jnp.where(played, -jnp.inf, x) for x in (self.first, self.other))
        return _Pairs(first, other, jnp.full_like(self.same, -jnp.inf))

    def with_first(self, i: Array) -> Array:
        """[K, stems] over arm j."""
        is_same = np.arange(self.first.shape[0], dtype=np.int32)[:, None] == i
        return self.first[i][None, :] + jnp.where(is_same, self.same, self.other)

    def of_stem(self, stem: Array) -> Array:
        """[K, K] over arms i and j."""
        first, other, same = (x[:, stem] for x in self)
        return first[:, None] + jnp.where(np.eye(len(first), dtype=bool), same[None, :], other[None, :])


def _best_pairs(pairs: list[_Pairs], objective) -> Array:
    """The best score after every stem, [stems]."""
    shape = pairs[0].first.shape

    def add_first(i, best):
        return jnp.maximum(best, objective(*(pair.with_first(i) for pair in pairs)))

    best = jnp.full(shape, -jnp.inf, pairs[0].first.dtype)
    best = jax.lax.fori_loop(0, shape[0], add_first, best, unroll=shape[0] * shape[1] <= SHORT_LOOP)
    return jnp.max(best, axis=0)


def _after(table: Array, bits: Array) -> Array:
    """`table` [K, 2^d] as seen after each arm k was played in the slots bits[k]: entry A becomes entry A ∪ bits[k]."""
    slots = jnp.arange(table.shape[1], dtype=bits.dtype)[None, :] | bits[:, None]
    return jnp.take_along_axis(table, slots, axis=1)


class _Tree(NamedTuple):
    """The shape of the lookahead tree, static. A node's code is arm·2^d + slot set of that arm up to this node."""

    leads: np.ndarray  # [N, l]; arms of the leading slots, one chunk of the tree each
    lead_codes: np.ndarray  # [N, l]; the nodes on the path to each lead
    lead_bits: np.ndarray  # [N, K]; slot set of every arm within each lead
    stems: np.ndarray  # [stems, d − l − 2]; arms of the slots between a lead and the last two
    stem_codes: np.ndarray  # [K, stems]; the code of every arm's slot set within each stem, as if there were no lead
    stem_plays: np.ndarray  # [K, stems] bool; is the arm in the stem?
    levels: tuple[np.ndarray, ...]  # codes along the stems, one array [parents, children] per slot

    @property
    def has_leads(self) -> bool:
        return len(self.leads) > 1

    def enter(self, lead: Array, tables: Sequence[Array], repeats: bool) -> tuple[list[Array], list[Array]]:
        """The sum of each table [K, 2^d] along a lead, [1], and the table as seen from there."""
        if not self.has_leads:
            return [jnp.zeros(1, table.dtype) for table in tables], list(tables)
        bits, codes = jnp.asarray(self.lead_bits)[lead], jnp.asarray(self.lead_codes)[lead]
        below = [_after(table, bits) for table in tables]
        if not repeats:
            below[0] = jnp.where((bits > 0)[:, None], -jnp.inf, below[0])
        return [jnp.sum(table.ravel()[codes])[None] for table in tables], below

    def arms_of(self, lead: Array, stem: Array, last: Array) -> Array:
        num_arms = self.stem_codes.shape[0]
        pair = jnp.stack([last // num_arms, last % num_arms]).astype(jnp.int32)
        return jnp.concatenate([jnp.asarray(self.leads)[lead], jnp.asarray(self.stems)[stem], pair])


@functools.cache
def _tree(num_arms: int, depth: int, repeats: bool) -> _Tree:
    lead = next(
        n
        for n in range(depth - 1)
        if num_arms * _num_leaves(num_arms, depth - n - 2, repeats) <= LOOK_UPS_PER_CHUNK or n == depth - 2
    )
    lead_codes, _ = _grow(num_arms, depth, range(lead), repeats)
    stem_codes, levels = _grow(num_arms, depth, range(lead, depth - 2), repeats)
    leads, stems = lead_codes >> depth, stem_codes >> depth
    stem_bits = _slot_sets(stems, num_arms, lead).T
    codes = (np.arange(num_arms, dtype=np.int32) << depth)[:, None] + stem_bits
    return _Tree(leads, lead_codes, _slot_sets(leads, num_arms, 0), stems, codes, stem_bits > 0, tuple(levels))


def _slot_sets(paths: np.ndarray, num_arms: int, first_slot: int) -> np.ndarray:
    """The slot set of every arm along each path [N, slots], [N, K]."""
    sets = np.zeros((len(paths), num_arms), np.int32)
    for i, arms in enumerate(paths.T):
        sets[np.arange(len(paths)), arms] |= 1 << (first_slot + i)
    return sets


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
