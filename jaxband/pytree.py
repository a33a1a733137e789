"""Frozen dataclasses that are pytrees: numbers are leaves, what fixes shapes is hashed."""

import dataclasses
import typing
from inspect import get_annotations

import jax


@typing.dataclass_transform(frozen_default=True, eq_default=False)
def pytree_dataclass(*, static: tuple[str, ...] = ()):
    """Class decorator: a frozen dataclass that is a pytree. Fields named in `static` are hashed, the others are leaves.

    Sweeping a leaf does not recompile; another static value does. Rebuilding one from leaves does not run
    ``__post_init__``, so that it may validate what a user passed in.

    >>> @pytree_dataclass(static=("num_arms",))
    ... class Example:
    ...     num_arms: int
    ...     noise: float
    >>> jax.tree.leaves(Example(num_arms=3, noise=0.1))
    [0.1]
    """

    def decorate(cls):
        for name in get_annotations(cls):
            if name not in vars(cls) and any(name in vars(base) for base in cls.__mro__[1:]):
                setattr(cls, name, dataclasses.field())  # a base class's default is not the field's
        cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := [name for name in static if name not in names]:
            raise TypeError(f"static must name fields of {cls.__name__}, got {unknown[0]!r}; there are {names}")
        leaves = [name for name in names if name not in static]

        def flatten_with_keys(self):
            children = [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in leaves]
            return children, tuple(getattr(self, name) for name in static)

        def unflatten(statics, children):
            self = object.__new__(cls)
            for name, value in (*zip(static, statics, strict=True), *zip(leaves, children, strict=True)):
                object.__setattr__(self, name, value)
            return self

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten)
        return cls

    return decorate
