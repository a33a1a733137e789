"""Optimistic planning (section 6 of the paper): grow the lookahead tree where a bound promises most.

A node is a partial plan i of l plays with reward u(i); Ψ bounds what its d − l open slots can add. At every step the
leaf of largest b(i) = u(i) + Ψ is expanded: its K children join the tree. A leaf of depth d that leads is a best plan,
because no other b exceeds its value. If the budget of nodes is spent before that, the deepest expanded node of largest
b is completed greedily. Both bounds are made from the best that any arm can pay in each open slot:

    paper:     Ψ = (d − l) · largest over the slots       per-slot:  Ψ = sum over the slots
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband._compiled.batching import any_over_batch
from jaxband.planners import max_tree
from jaxband.planners.window_planner import WindowPlanner
from jaxband.registry import Cost, register

BOUNDS = ("per-slot", "paper")
MAX_BUDGET = 10**8
MAX_DEPTH = 32


class OptimisticPlan(NamedTuple):
    """The best sequence found within the budget."""

    arms: Array  # [d]
    value: Array  # their total
    certified: Array  # bool; a node of depth d was selected: no other sequence is better
    tree_depth: Array  # d_N, how deep the tree was grown; d if certified
    nodes: Array  # how many nodes were added to the tree


def _cost(values, for_bounds: bool) -> Cost:
    return Cost(5.0 + 0.04 * values["budget"], 9.0)


@register(
    "planner",
    cost=_cost,
    example={"depth": 2, "budget": 40},
    words={"depth": ("depth", "plays"), "budget": ("budget", "nodes per plan")},
)
def optimistic(depth: int, budget: int, bound: str = "per-slot") -> "Optimistic":
    """A planner that adds at most `budget` nodes to the lookahead tree, for known or sampled curves.

    >>> plan = optimistic(depth=2, budget=100).plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[1, 2])
    >>> plan.arms.tolist(), round(plan.value.item(), 3), plan.certified.item(), plan.nodes.item()
    ([1, 0], 1.7, True, 4)
    """
    depth = checks.integer("depth", depth, 1, MAX_DEPTH, remedy="look less far ahead")
    budget = checks.integer("budget", budget, 1, MAX_BUDGET)
    return Optimistic(depth, budget, checks.one_of("bound", bound, BOUNDS))


@dataclasses.dataclass(frozen=True)
class Optimistic(WindowPlanner):
    depth: int
    budget: int
    bound: str

    plan_type = OptimisticPlan

    def check(self, num_arms: int) -> None:
        """Refuse numbers of arms that it cannot plan for."""
        if self.budget < num_arms:
            what = f"budget must be >= num_arms, got {self.budget} for {num_arms} arms"
            raise ValueError(f"{what}; the first step alone adds a node for every arm")

    def plan_window(
        self, points: Array, *, num_slots: Array | None = None, terminal: Array | None = None
    ) -> OptimisticPlan:
        """The same from the points within the window [K, 2d − 1]."""
        if num_slots is not None or terminal is not None:
            raise TypeError("planners.optimistic takes neither num_slots nor terminal; use planners.subset")
        num_arms = points.shape[0]
        tree, leader, used = _grow(
            points, min(max(self.budget // num_arms, 1), _num_inner(num_arms, self.depth)), self.bound
        )
        certified = _depth(leader.arms) == self.depth
        arms, values = jax.vmap(lambda block: _complete(points, tree.arms[block]))(tree.first_at_depth)
        arms = jnp.concatenate([leader.arms[None], arms])
        values = jnp.concatenate([jnp.where(certified, leader.reward, -jnp.inf)[None], values])
        best = jnp.argmax(values)
        reached = jnp.max(jnp.where(tree.first_at_depth > 0, jnp.arange(self.depth, dtype=jnp.int32), 0))
        depth = jnp.where(certified, self.depth, reached)
        return OptimisticPlan(arms[best], values[best], certified, depth, used * num_arms)


class _Node(NamedTuple):
    """A partial plan: the path to a node of the tree."""

    arms: Array  # [d]; −1 in open slots
    reward: Array  # scalar; u
    block: Array  # which lists it with its siblings
    siblings: Array  # [K]; their b, −∞ in its own place; kept here because XLA copies a table it reads and writes


class _Tree(NamedTuple):
    """Expanded nodes, one *block* of K children each; block 0 is the root's."""

    arms: Array  # [B, d]; the path to the expanded node
    reward: Array  # [B]; its u
    bounds: Array  # [B, K]; b of its children, −∞ once they are expanded themselves
    largest: max_tree.Levels  # of every block's bounds
    first_at_depth: Array  # [d]; the first block of each depth: of all with that depth, it has the largest b


def _grow(points: Array, num_blocks: int, bound: str) -> tuple[_Tree, _Node, Array]:
    """The tree of `num_blocks` blocks or until a node of depth d leads; the leading node, and the blocks used."""
    depth = (points.shape[1] + 1) // 2

    def searching(leader):
        return _depth(leader.arms) < depth

    def condition(carry):
        _, leader, _, count = carry
        return (count < num_blocks) & any_over_batch(searching(leader))

    def expand(carry):
        """Under `vmap` a step for every lane: trees whose leader is a whole plan grow on, but the leader stays."""
        tree, leader, used, count = carry
        active = searching(leader)
        tree = _expand(tree, leader, _child_bounds(points, leader, bound), count)
        leader = jax.tree.map(lambda new, old: jnp.where(active, new, old), _leader(tree, points), leader)
        return tree, leader, jnp.where(active, count + 1, used), count + 1

    tree = _plant(points, num_blocks, bound)
    one = jnp.ones((), jnp.int32)
    tree, leader, used, _ = jax.lax.while_loop(condition, expand, (tree, _leader(tree, points), one, one))
    return tree, leader, used


def _plant(points: Array, num_blocks: int, bound: str) -> _Tree:
    """The root's block."""
    num_arms, depth = points.shape[0], (points.shape[1] + 1) // 2
    zero = jnp.zeros((), jnp.int32)
    none = jnp.full(num_arms, -jnp.inf, points.dtype)
    root = _Node(jnp.full(depth, -1, jnp.int32), jnp.zeros((), points.dtype), zero, none)
    bounds = _child_bounds(points, root, bound)
    return _Tree(
        arms=jnp.full((num_blocks, depth), -1, jnp.int32),
        reward=jnp.zeros(num_blocks, points.dtype),
        bounds=jnp.full((num_blocks, num_arms), -jnp.inf, points.dtype).at[0].set(bounds),
        largest=max_tree.update(max_tree.start(num_blocks, points.dtype), (zero, jnp.max(bounds))),
        first_at_depth=jnp.zeros(depth, jnp.int32),
    )


def _leader(tree: _Tree, points: Array) -> _Node:
    """The child of largest b."""
    block = max_tree.argmax(tree.largest)
    arms, bounds = tree.arms[block], tree.bounds[block]
    arm = jnp.argmax(bounds).astype(jnp.int32)
    slots = jnp.arange(arms.shape[0], dtype=jnp.int32)
    reward = tree.reward[block] + points[arm, _next_points(arms, points.shape[0])[arm]]
    siblings = jnp.where(jnp.arange(bounds.shape[0], dtype=jnp.int32) == arm, -jnp.inf, bounds)
    return _Node(jnp.where(slots == _depth(arms), arm, arms), reward, block, siblings)


def _expand(tree: _Tree, node: _Node, bounds: Array, block: Array) -> _Tree:
    """The tree with `node` struck out of the block that lists it and its children's bounds in a block of its own."""
    level = jnp.arange(node.arms.shape[0], dtype=jnp.int32) == _depth(node.arms)
    is_first = level & (tree.first_at_depth == 0)
    return _Tree(
        arms=_replace_row(tree.arms, block, node.arms),
        reward=_replace_row(tree.reward, block, node.reward),
        bounds=_replace_row(_replace_row(tree.bounds, node.block, node.siblings), block, bounds),
        largest=max_tree.update(tree.largest, (node.block, jnp.max(node.siblings)), (block, jnp.max(bounds))),
        first_at_depth=jnp.where(is_first, block, tree.first_at_depth),
    )


def _child_bounds(points: Array, node: _Node, bound: str) -> Array:
    """b = u + Ψ of the K children of a node, [K]."""
    num_arms, depth = points.shape[0], (points.shape[1] + 1) // 2
    upcoming = _next_points(node.arms, num_arms)
    gains = jnp.take_along_axis(points, upcoming[:, None], axis=1)[:, 0]
    if depth == 1:
        return node.reward + gains
    num_open = depth - 1 - _depth(node.arms)
    best = _best_per_slot(points, upcoming + 1)
    is_open = jnp.arange(depth - 1, dtype=jnp.int32)[None, :] < num_open
    if bound == "paper":
        rest = jnp.where(
            num_open > 0, num_open.astype(best.dtype) * jnp.max(jnp.where(is_open, best, -jnp.inf), axis=1), 0.0
        )
    else:
        rest = jnp.sum(jnp.where(is_open, best, 0.0), axis=1)
    return node.reward + gains + rest


def _best_per_slot(points: Array, upcoming: Array) -> Array:
    """The most that any arm can pay in the 1st, 2nd, … slot after each arm was played: [K, d − 1].

    In the s-th slot an arm is either played for the first time since, at the point upcoming + s, or was played again
    in between, at a gap below s. The arm just played has a gap of s.
    """
    num_points = points.shape[1]
    depth = (num_points + 1) // 2
    slots = jnp.arange(depth - 1, dtype=jnp.int32)[None, :]
    rested = jnp.take_along_axis(points, jnp.minimum(upcoming[:, None] + slots, num_points - 1), axis=1)
    again = points[:, depth:]
    after_replay = jnp.concatenate([jnp.full(1, -jnp.inf, points.dtype), jax.lax.cummax(jnp.max(again, axis=0))[:-1]])
    return jnp.maximum(jnp.maximum(_largest_of_others(rested), again), after_replay[None, :])


def _largest_of_others(values: Array) -> Array:
    """The largest of all rows but the own one, [K, n]; −∞ for a single row."""
    largest = jnp.max(values, axis=0)
    leads = values == largest[None, :]
    second = jnp.max(jnp.where(leads, -jnp.inf, values), axis=0)
    second = jnp.where(jnp.sum(leads, axis=0) > 1, largest, second)
    return jnp.where(leads, second[None, :], largest[None, :])


def _next_points(arms: Array, num_arms: int) -> Array:
    """The point (`slot_sets`) at which each arm would be played in the first open slot, [K]."""
    slots = jnp.arange(arms.shape[0], dtype=jnp.int32)
    played = arms[None, :] == jnp.arange(num_arms, dtype=jnp.int32)[:, None]
    last = jnp.max(jnp.where(played, slots[None, :], -1), axis=1)
    open_slot = _depth(arms)
    return jnp.where(last < 0, open_slot, arms.shape[0] + open_slot - last - 1)


def _replace_row(table: Array, row: Array, values: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(table, values, row, axis=0)


def _depth(arms: Array) -> Array:
    return jnp.sum(arms >= 0, dtype=jnp.int32)


def _complete(points: Array, arms: Array) -> tuple[Array, Array]:
    """A partial plan with its open slots filled one by one by the arm that pays most there, and its total."""

    def fill(filled, arm):
        gains = jnp.take_along_axis(points, _next_points(filled, points.shape[0])[:, None], axis=1)[:, 0]
        arm = jnp.where(arm < 0, jnp.argmax(gains).astype(arm.dtype), arm)
        return jnp.where(jnp.arange(arms.shape[0], dtype=jnp.int32) == _depth(filled), arm, filled), gains[arm]

    filled, gains = jax.lax.scan(fill, jnp.full_like(arms, -1), arms)
    return filled, jnp.sum(gains)


def _num_inner(num_arms: int, depth: int) -> int:
    """How many nodes of the whole tree have children."""
    return depth if num_arms == 1 else (num_arms**depth - 1) // (num_arms - 1)
