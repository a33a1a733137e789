"""Loops without what nobody reads: the same results, a smaller carry."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxband._compiled.dce import eliminate_dead_code


def nested(x, extra):
    """Sums of x, and two things beside them that feed each other through both loops."""

    def inner(carry, _):
        total, one, other = carry
        return (total + x, one + other, other - one + extra), None

    def outer(carry, _):
        return jax.lax.scan(inner, carry, length=3)[0], carry[0]

    (total, one, _), before = jax.lax.scan(outer, (jnp.zeros(()), x, extra), length=2)
    return {"total": total, "before": before}, one


def only_totals(x, extra):
    return nested(x, extra)[0]


def carried(function, *arguments):
    """How many arrays the outer loop of `function` carries."""
    (loop,) = (e for e in jax.make_jaxpr(function)(*arguments).eqns if e.primitive.name == "scan")
    return loop.params["num_carry"]


def test_results_are_the_same_under_jit_and_vmap():
    x, extra = jnp.arange(3.0), jnp.asarray(2.0)
    for wrap in (lambda f: jax.vmap(f, (0, None)), lambda f: jax.jit(jax.vmap(f, (0, None)))):
        expected, found = wrap(only_totals)(x, extra), wrap(eliminate_dead_code(only_totals))(x, extra)
        jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_what_no_result_depends_on_is_not_carried():
    arguments = jnp.asarray(1.0), jnp.asarray(2.0)
    assert carried(only_totals, *arguments) == 3
    assert carried(eliminate_dead_code(only_totals), *arguments) == 1
    assert carried(eliminate_dead_code(nested), *arguments) == 3
