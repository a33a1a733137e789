"""`jit` for tests that check values and run briefly: compiling dominates there, and takes half the time or less so.

LLVM does not optimise, and loops are emitted directly rather than by way of MLIR. Not for tests of the compiled
program itself, of bitwise equality, or of long runs. For what the library compiles: the fixture `compiled_quickly`.
"""

import functools

import jax

jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
)
