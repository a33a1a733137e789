"""Public functions as compiled programs: called with numbers, each runs as one program that is compiled once per shape.

Operation by operation JAX compiles every one of them: tens of milliseconds each, in every process. Inside somebody's
`jit`, `vmap` or `grad` the function is traced as it is written.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import (
    unsafe_am_i_under_a_jit_DO_NOT_USE as is_under_jit,  # it decides on speed only, never on values
)

# These run for microseconds, once per call: they compile in two thirds of the time so, and run as fast.
QUICKLY = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


def compiled(function: Callable | None = None, *, static: tuple[str, ...] = ()) -> Callable:
    """Decorator: `function` of arrays, compiled where it is called with numbers. `static` arguments are hashed.

    Values are checked by the caller: inside a program they cannot be seen.

    >>> @compiled
    ... def half(x):
    ...     return x / 2
    >>> half(3.0).item()
    1.5
    """
    if function is None:
        return functools.partial(compiled, static=static)

    @functools.cache
    def program():
        options = QUICKLY if jax.default_backend() == "cpu" else {}
        return jax.jit(function, static_argnames=static, compiler_options=options)

    @functools.wraps(function)
    def call(*arguments, **options):
        if not is_tracing(arguments, options):
            return program()(*arguments, **options)
        arguments, options = jax.tree.map(_of_jax, (arguments, options))
        return function(*arguments, **options)

    return call


def argument(value, dtype) -> jax.Array | np.ndarray:
    """`value` as an array of `dtype`, so that it finds the compiled program: of JAX if it is one, else of NumPy.

    JAX would take 100 us to make an array of its own of a number.
    """
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    if isinstance(value, jax.Array):
        return value if value.dtype == dtype else value.astype(dtype)
    return np.asarray(value, dtype)


def is_tracing(*values) -> bool:
    """Is any of the values a tracer, or is this somebody's `jit`?"""
    return is_under_jit() or any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def _of_jax(leaf):
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
