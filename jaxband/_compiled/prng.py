"""The numbers of `jax.random`, several times faster on CPUs: threefry written out, so that it fuses with what uses it.

JAX runs threefry's rounds as a loop on CPUs, which compiles fast but costs more than drawing a handful of numbers.
Keys of another implementation, and 64-bit numbers, are left to `jax.random`. `normals` and `normal_pairs` are for
consecutive rounds, and streams of their own.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
# cos πx and sin πx / x as series in x², |x| ≤ 1/2: interpolated at Chebyshev's points, off by less than 5e-8
COSINE = (0.999999953, -4.93479283, 4.05841135, -1.33187657, 0.219689611)
SINE = (3.14159264, -5.16771008, 2.55007752, -0.598291286, 0.0776576603)


def fold_in(key: Array, data: Array) -> Array:
    """`jax.random.fold_in` for data of 32 bits."""
    if not _is_threefry(key):
        return jax.random.fold_in(key, data)
    data = jnp.asarray(data).astype(jnp.uint32)
    return jax.random.wrap_key_data(jnp.stack(_threefry(jax.random.key_data(key), jnp.zeros_like(data), data)))


def split(key: Array, count: int) -> Array:
    """`jax.random.split`, [count] keys."""
    if not _is_threefry(key):
        return jax.random.split(key, count)
    number = jnp.arange(count, dtype=jnp.uint32)
    words = _threefry(jax.random.key_data(key), jnp.zeros_like(number), number)
    return jax.random.wrap_key_data(jnp.stack(words, axis=1))


def normal(key: Array, shape: tuple[int, ...] = ()) -> Array:
    """`jax.random.normal` of JAX's default type."""
    if not _can_be_written_out(key):
        return jax.random.normal(key, shape)
    count = jnp.arange(int(np.prod(shape)), dtype=jnp.uint32)
    return _as_normal(*_threefry(jax.random.key_data(key), jnp.zeros_like(count), count)).reshape(shape)


def normals(key: Array, rounds: Array, places: int | None = None) -> Array:
    """A standard normal number for each of n rounds, [n]; or for each of m places in a round, [n, m].

    It depends on key, round and place only; place 0 has the numbers of rounds without places.
    """
    if not _can_be_written_out(key):
        each = jax.vmap(lambda t: jax.random.fold_in(key, t))(rounds)
        first = jax.vmap(jax.random.normal)(each)
        if places is None:
            return first
        later = [jax.vmap(lambda k, i=i: jax.random.normal(jax.random.fold_in(k, i)))(each) for i in range(1, places)]
        return jnp.stack([first, *later], axis=1)
    if places is None:
        round_of = rounds.astype(jnp.uint32)
        return _as_normal(*_threefry(jax.random.key_data(key), round_of, jnp.zeros_like(round_of)))
    round_of, place = jnp.broadcast_arrays(
        rounds.astype(jnp.uint32)[:, None], jnp.arange(places, dtype=jnp.uint32)[None, :]
    )
    return _as_normal(*_threefry(jax.random.key_data(key), round_of, place))


def normal_pairs(key: Array, rounds: Array, count: int) -> Array:
    """Pairs of standard normal numbers, `count` for each of n consecutive rounds, one after the other: [n · count].

    A pair is one complex number, because XLA would make two results with twice the work. It depends on key, round and
    its position in the round only. The pairs are flat and made from counters, with no key per round, because a
    compiler vectorises long inner loops without look-ups only.
    """
    if not _can_be_written_out(key):
        numbers = jax.vmap(lambda t: jax.random.normal(jax.random.fold_in(key, t), (2, count)))(rounds)
        return jax.lax.complex(numbers[:, 0].reshape(-1), numbers[:, 1].reshape(-1))
    index = np.arange(len(rounds) * count)
    round_of = (rounds[0] + jnp.asarray(index // count, rounds.dtype)).astype(jnp.uint32)
    position = jnp.asarray(index % count, jnp.uint32)
    return _as_normal_pair(*_threefry(jax.random.key_data(key), round_of, position))


def first_of_pairs(pairs: Array, count: int) -> Array:
    """The first `count` numbers of pairs [n, ...]: their real parts, then their imaginary parts."""
    return jnp.concatenate([jnp.real(pairs), jnp.imag(pairs)])[:count]


def _as_normal(high: Array, low: Array) -> Array:
    """Random words as JAX makes normal numbers of them."""
    lowest = np.nextafter(np.float32(-1.0), np.float32(0.0))
    uniform = jnp.maximum(_as_uniform(high ^ low) * (np.float32(1.0) - lowest) + lowest, lowest)
    return np.float32(np.sqrt(2.0)) * jax.lax.erf_inv(uniform)


def _as_normal_pair(high: Array, low: Array) -> Array:
    """Box and Muller's pair: `high` decides on the radius, `low` on the angle, a quarter turn at most, and the side."""
    radius = jnp.sqrt(np.float32(-2.0) * jnp.log(np.float32(1.0) - _as_uniform(high)))
    side = (low & jnp.uint32(1)) << jnp.uint32(31)  # the sign bit
    radius = jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(radius, jnp.uint32) | side, jnp.float32)
    turn = _as_uniform(low) - np.float32(0.5)  # of π
    return jax.lax.complex(radius * _series(COSINE, turn**2), radius * (turn * _series(SINE, turn**2)))


def _as_uniform(word: Array) -> Array:
    """The upper 23 bits of a random word as a number in [0, 1)."""
    mantissa = jax.lax.shift_right_logical(word, jnp.uint32(9)) | jnp.uint32(0x3F800000)
    return jax.lax.bitcast_convert_type(mantissa, jnp.float32) - np.float32(1.0)


def _series(coefficients: tuple[float, ...], x: Array) -> Array:
    """Σ c_i x^i."""
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + np.float32(coefficient)
    return total


def _can_be_written_out(key: Array) -> bool:
    return _is_threefry(key) and jnp.zeros(()).dtype == jnp.float32


def _is_threefry(key: Array) -> bool:
    return str(jax.random.key_impl(key)) in ("threefry2x32", "fry") and jax.config.jax_threefry_partitionable


def _threefry(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Threefry 2x32 with 20 rounds (Salmon et al. 2011) of the counters (high, low) under key [2]."""
    first, second = jax.lax.index_in_dim(key, 0, keepdims=False), jax.lax.index_in_dim(key, 1, keepdims=False)
    keys = [jnp.broadcast_to(k, high.shape) for k in (first, second, first ^ second ^ jnp.uint32(0x1BD11BDA))]
    return _rounds(keys, high, low)


@functools.partial(jax.jit, inline=True)  # traced once per shape
def _rounds(keys: list[Array], high: Array, low: Array) -> tuple[Array, Array]:
    """In `lax`, because operators take five times as long to trace."""

    def rotate(x, by):
        left, right = (jax.lax.full_like(x, n) for n in (by, 32 - by))
        return jax.lax.bitwise_or(jax.lax.shift_left(x, left), jax.lax.shift_right_logical(x, right))

    high, low = jax.lax.add(high, keys[0]), jax.lax.add(low, keys[1])
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            high = jax.lax.add(high, low)
            low = jax.lax.bitwise_xor(high, rotate(low, rotation))
        high = jax.lax.add(high, keys[(group + 1) % 3])
        low = jax.lax.add(low, jax.lax.add(keys[(group + 2) % 3], jax.lax.full_like(low, group + 1)))
    return high, low
