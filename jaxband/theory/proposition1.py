"""Proposition 1: how much of the optimum a long enough lookahead is sure to earn.

With p* the period of the optimal stationary policy and rewards that are nowhere negative (the proof counts nothing for
the z_max rounds in which a plan gets into the optimal cycle), the best plans of d = z_max + l p* plays, each played to
the end, earn over T rounds at least the share

    (1 − (d + p*) / (T + p*)) · l p* / d.
"""

from jaxband import checks


def guaranteed_fraction(period: int, z_max: int, depth: int, horizon: int) -> float:
    """The bound of Proposition 1 for plans of `depth` plays; 0 for depths below z_max + p*, of which it says nothing.

    For depths between those it names the proof holds as well, with l the number of whole cycles.

    >>> round(guaranteed_fraction(period=4, z_max=5, depth=13, horizon=1000), 3)  # l = 2
    0.605
    """
    period = checks.integer("period", period, minimum=1)
    z_max = checks.integer("z_max", z_max, minimum=0)
    depth = checks.integer("depth", depth, minimum=1)
    horizon = checks.integer("horizon", horizon, minimum=1)
    cycles = max((depth - z_max) // period, 0)
    return max(1.0 - (depth + period) / (horizon + period), 0.0) * cycles * period / depth
