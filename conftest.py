"""Strict numerics for every test: no silent promotion of dtypes or ranks, warnings are errors; three CPU devices."""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "3")

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
