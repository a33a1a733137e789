"""The constants in the lemmas of the appendix, corrected where the printed ones fail (docs/theory.md shows where).

With v = max_z k(z, z) the largest prior variance; the paper takes v ≤ 1. Between plays n and n + 1 of an arm, at Z,

    σ²(z; n) − σ²(z; n+1) = k²(Z, z; n) / (σ²(Z; n) + σ²) ≤ v σ⁻² σ²(Z; n).
"""

import math

from jaxband import checks


def variance_per_information(variance: float, noise: float, repeats: int = 1) -> float:
    """C_s = 2 s² v / log(1 + s v/σ²):  Var(f(z_1) + … + f(z_s)) ≤ C_s · I, what s plays without an update tell.

    s = 1 is the lemma Σ_t σ_t² ≤ C₁ γ, by which variances add up to information (the paper prints half of it).
    For larger s, with Σ the joint covariance of the s values and λ its largest eigenvalue:

        Var = 1ᵀ Σ 1 ≤ s λ,      2 I = log det(I + σ⁻² Σ) ≥ log(1 + λ/σ²) ≥ λ log(1 + s v/σ²) / (s v),

    the last because the logarithm is concave and λ ≤ tr Σ ≤ s v. Equality holds for the first s plays of a constant
    curve. The paper goes through single variances instead, Var ≤ 3 Σ σ² and the decrease above, to 3 s σ⁻² C₁; that
    fails beyond three repeats, and mended, s (1 + (s−1) v σ⁻²) C₁, is about v/σ² times as large.

    >>> round(variance_per_information(1.0, noise=0.1), 4)  # 2 / log(101)
    0.4334
    """
    checks.positive("variance", variance)
    checks.positive("noise", noise)
    repeats = checks.integer("repeats", repeats, minimum=1)
    return 2.0 * repeats**2 * variance / math.log1p(repeats * variance / noise**2)


def gaussian_maximum(count: int, deviation: float = 1.0) -> float:
    """ζ √(2 log n) ≥ E max X_i, for n centred Gaussians of standard deviation at most ζ, however correlated.

    >>> round(gaussian_maximum(100), 4)
    3.0349
    """
    count = checks.integer("count", count, minimum=1)
    checks.non_negative("deviation", deviation)
    return deviation * math.sqrt(2.0 * math.log(count))
