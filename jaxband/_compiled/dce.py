"""Loops that carry only what their results depend on.

A `scan` computes its whole carry, and XLA does not see through nested loops which parts of it nobody reads in the end.
A simulation that is only summed up never looks at its policy's counts and sums, for one.
"""

from collections.abc import Callable

import jax
from jax.extend.core import jaxpr_as_fun
from jax.interpreters import partial_eval


def eliminate_dead_code(function: Callable) -> Callable:
    """`function` of arrays, traced, with all that its results do not depend on taken out of its loops."""

    def pruned(*arguments):
        leaves, structure = jax.tree.flatten(arguments)
        traced, shapes = jax.make_jaxpr(lambda *xs: function(*structure.unflatten(xs)), return_shape=True)(*leaves)
        live, used = partial_eval.dce_jaxpr(traced.jaxpr, [True] * len(traced.out_avals))
        needed = [leaf for leaf, is_used in zip(leaves, used, strict=True) if is_used]
        results = jaxpr_as_fun(traced.replace(jaxpr=live))(*needed)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return pruned
