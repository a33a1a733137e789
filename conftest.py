"""Strict numerics for every test: no silent promotion of dtypes or ranks, warnings are errors.

Three CPU devices, and nothing compiled before: the user's cache is left alone.
"""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "3")
os.environ.setdefault("JAXBAND_CACHE", "off")

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
