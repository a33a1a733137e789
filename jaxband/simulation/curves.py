"""The curves of many replications, drawn by a small program of their own.

The simulation is handed tables and does not know where they come from. So one compilation serves every problem of a
shape: Gaussian processes, parametric families, tables, a user's function, defined again or not.
"""

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from jaxband._compiled import prng
from jaxband.problem import Problem

PROGRAMS_KEPT = 256


class Draw(NamedTuple):
    """Whose curves, and from which seed."""

    leaves: tuple[np.ndarray, ...]  # of the curves, and of the key
    structure: Any  # around them

    @property
    def key(self) -> tuple:
        """What a program is made for; draws that share it run side by side."""
        return self.structure, tuple((leaf.shape, leaf.dtype.name) for leaf in self.leaves)


class Drawn(NamedTuple):
    """Batches of replications, on the devices that will play them."""

    curves: Array  # [devices · batches, batch_size, K, G]
    fingerprint: Array  # [devices · batches, batch_size]; a number that other curves are very unlikely to share


def make_draw(problem: Problem, seed: int) -> Draw:
    """The leaves as NumPy arrays, so that stacking them compiles nothing."""
    leaves, structure = jax.tree.flatten((problem.curves, key_data(seed)))
    return Draw(tuple(np.asarray(leaf) for leaf in leaves), structure)


@functools.lru_cache(maxsize=64)
def key_data(seed: int) -> np.ndarray:
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


def draw(
    draws: Sequence[Draw], first: np.ndarray, count: np.ndarray, batch_size: int, num_batches: int, mesh: Mesh
) -> Drawn:
    """`count` batches from the `first` on for each device; a draw per device, all of one key. The others are zero."""
    stacked = tuple(np.stack(rows) for rows in zip(*(draw.leaves for draw in draws), strict=True))
    return _program(draws[0].key, batch_size, num_batches, mesh)(stacked, first, count)


@functools.lru_cache(maxsize=PROGRAMS_KEPT)
def _program(key: tuple, batch_size: int, num_batches: int, mesh: Mesh) -> Callable:
    """The program that draws, found again by what it computes: a function defined again compiles nothing."""
    structure, shapes = key

    def one_device(leaves, first, count):
        curves, data = jax.tree.unflatten(structure, [x[0] for x in leaves])
        return _draw_batches(curves, jax.random.wrap_key_data(data), first[0], count[0], batch_size, num_batches)

    apart, devices = PartitionSpec("works"), mesh.devices.size
    run = jax.jit(jax.shard_map(one_device, mesh=mesh, in_specs=apart, out_specs=apart, check_vma=False))
    leaves = tuple(jax.ShapeDtypeStruct((devices, *shape), dtype) for shape, dtype in shapes)
    number = jax.ShapeDtypeStruct((devices,), np.int32)
    lowered = run.lower(leaves, number, number)
    digest = hashlib.sha256(lowered.as_text().encode()).hexdigest()
    if digest not in _programs:
        while len(_programs) >= PROGRAMS_KEPT:
            _programs.pop(next(iter(_programs)))
        _programs[digest] = lowered.compile()
    return _programs[digest]


_programs: dict[str, Callable] = {}  # by digest of what they compute and on which devices


def _draw_batches(curves, key: Array, first: Array, count: Array, batch_size: int, num_batches: int) -> Drawn:
    def draw_one(key):
        table = curves(key) if callable(curves) else curves
        return Drawn(table, fingerprint(table))

    @jax.jit  # traced once, for the shapes and for the loop
    def batch(number):
        keys = replication_keys(key, number, batch_size)
        return jax.vmap(lambda k: draw_one(prng.split(k, 5)[0]))(keys)

    empty = jax.tree.map(
        lambda x: jnp.zeros((num_batches, *x.shape), x.dtype), jax.eval_shape(batch, jnp.zeros((), jnp.int32))
    )

    def put(i, drawn):
        return jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, i, axis=0), drawn, batch(first + i))

    return jax.lax.fori_loop(0, count, put, empty)


def replication_keys(key: Array, batch: Array, batch_size: int) -> Array:
    """fold_in(key, r) of the replications r of a batch, [batch_size] keys."""
    rows = batch.astype(jnp.uint32) * np.uint32(batch_size) + np.arange(batch_size, dtype=np.uint32)
    return jax.vmap(lambda row: prng.fold_in(key, row))(rows)


def fingerprint(curves: Array) -> Array:
    """One number that other curves are very unlikely to share."""
    weights = np.random.default_rng(0).uniform(0.5, 1.5, curves.shape)
    return jnp.sum(curves * jnp.asarray(weights, curves.dtype))
