"""Strict numerics for every test: no silent promotion of dtypes or ranks, warnings are errors.

Three CPU devices. Compiled programs are kept beside pytest's own cache, so that a second run is faster; the user's
cache is left alone.
"""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "3")
os.environ.setdefault("JAXBAND_CACHE", os.path.join(os.path.dirname(__file__), ".pytest_cache", "programs"))

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
