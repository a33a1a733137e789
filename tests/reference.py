"""The same bandit in slow plain NumPy, written from the paper (Pike-Burke & Grünewälder,
Recovering Bandits, NeurIPS 2019): an oracle for the tests, float64 throughout.

Arms and rounds count from 0, z from 0 to z_max, G = z_max + 1; curves are [K, G] tables, noise
is the standard deviation σ. Sums over a leaf use `math.fsum`, which does not depend on the order
of its terms, so leaves that differ only in that order tie exactly and the first one wins.
"""

import itertools
import math

import numpy as np

# Kernels: functions of two scalars (Rasmussen & Williams, chapter 4).


def squared_exponential(x, y, lengthscale, variance=1.0):
    """k(x, y) = s exp(−(x − y)² / 2l²)."""
    return variance * math.exp(-((x - y) ** 2) / (2.0 * lengthscale**2))


def matern(x, y, nu, lengthscale, variance=1.0):
    """Matérn kernel of smoothness ν = 1/2, 3/2 or 5/2, with a = √(2ν) |x − y| / l."""
    a = math.sqrt(2.0 * nu) * abs(x - y) / lengthscale
    polynomial = {0.5: 1.0, 1.5: 1.0 + a, 2.5: 1.0 + a + a**2 / 3.0}[nu]
    return variance * polynomial * math.exp(-a)


def linear(x, y, variance=1.0, offset=0.0):
    """k(x, y) = s (x − c)(y − c)."""
    return variance * (x - offset) * (y - offset)


def periodic(x, y, period, lengthscale, variance=1.0):
    """k(x, y) = s exp(−2 sin²(π (x − y) / p) / l²)."""
    sine = math.sin(math.pi * (x - y) / period)
    return variance * math.exp(-2.0 * sine**2 / lengthscale**2)


def constant(x, y, variance=1.0):
    """k(x, y) = s."""
    return variance


def gram(kernel, z_max):
    """[G, G] table of k(z, z') on the grid 0..z_max."""
    grid = range(z_max + 1)
    return np.array([[float(kernel(x, y)) for y in grid] for x in grid])


# Recovery families (Section 7).


def logistic(theta, z_max):
    """f(z) = θ0 / (1 + exp(−θ1 (z − θ2)))."""
    return np.array([[h / (1.0 + math.exp(-s * (z - m))) for z in range(z_max + 1)] for h, s, m in theta])


def gamma(theta, z_max, reflection=None):
    """f(z) = θ2 w^θ0 e^(−θ1 w) / ((θ0/θ1)^θ0 e^(−θ0)), w = reflection − z (default z_max + 1)."""
    reflection = z_max + 1 if reflection is None else reflection
    curves = np.zeros((len(theta), z_max + 1))
    for arm, (exponent, rate, height) in enumerate(theta):
        peak = (exponent / rate) ** exponent * math.exp(-exponent)
        for z in range(z_max + 1):
            w = reflection - z
            curves[arm, z] = height * w**exponent * math.exp(-rate * w) / peak
    return curves


# Posterior (Section 3).


def dense_posterior(gram, observed_z, observed_y, noise):
    """Mean k_Nᵀ(K_N + σ²I)⁻¹y_N [G] and covariance k − k_Nᵀ(K_N + σ²I)⁻¹k_N [G, G]."""
    if len(observed_z) == 0:
        return np.zeros(len(gram)), gram.copy()
    k_n = gram[observed_z, :]  # [N, G]
    noisy = gram[np.ix_(observed_z, observed_z)] + noise**2 * np.eye(len(observed_z))
    mean = k_n.T @ np.linalg.solve(noisy, np.asarray(observed_y, dtype=float))
    covariance = gram - k_n.T @ np.linalg.solve(noisy, k_n)
    return mean, covariance


def posteriors(gram, arms, z_played, rewards, num_arms, noise):
    """Posterior means [K, G] and covariances [K, G, G] of all arms from a whole history."""
    means, covariances = [], []
    for arm in range(num_arms):
        plays = [t for t in range(len(arms)) if arms[t] == arm]
        observed_z, observed_y = [z_played[t] for t in plays], [rewards[t] for t in plays]
        mean, covariance = dense_posterior(gram, observed_z, observed_y, noise)
        means.append(mean)
        covariances.append(covariance)
    return np.array(means), np.array(covariances)


# Dynamics and leaves (Eq. zdef, Section 5).


def start(z_init, num_arms):
    """z of every arm before the first round: 0 unless given as a number or per arm."""
    z_init = 0 if z_init is None else z_init
    return np.broadcast_to(np.asarray(z_init, dtype=int), (num_arms,)).copy()


def step(z, arm, z_max):
    """Eq. (zdef): 0 for the played arm, min(z_max, z + 1) for every other."""
    return np.array([0 if j == arm else min(z_max, z[j] + 1) for j in range(len(z))])


def path(z, arms, z_max):
    """The z of the played arm at each play of a sequence, and the z vector after it."""
    z_played = []
    for arm in arms:
        z_played.append(int(z[arm]))
        z = step(z, arm, z_max)
    return z_played, np.asarray(z)


def sequences(num_arms, depth, repeats):
    """Leaves of the lookahead tree in lexicographic order; single play if not repeats."""
    if repeats:
        return itertools.product(range(num_arms), repeat=depth)
    return itertools.permutations(range(num_arms), depth)


def leaf_mean(curves, z, arms):
    """M_i(Z) = Σ_ℓ f_{J_ℓ}(Z_{J_ℓ}) along a sequence (Section 5)."""
    z_played, _ = path(z, arms, curves.shape[1] - 1)
    return math.fsum(curves[arm, z] for arm, z in zip(arms, z_played, strict=True))


def leaf_moments(means, covariances, z, arms):
    """η and ς² of a leaf, Eq. (varm): the double sum over plays p, q, zero across arms."""
    z_played, _ = path(z, arms, means.shape[1] - 1)
    terms = []
    for p in range(len(arms)):
        for q in range(len(arms)):
            if arms[p] == arms[q]:
                terms.append(covariances[arms[p], z_played[p], z_played[q]])
    return leaf_mean(means, z, arms), math.fsum(terms)


# Planning by brute force (Algorithm 1).


def leaf_values(curves, z, depth, repeats):
    """M_i(Z) of every leaf, in the order of `sequences`."""
    return [leaf_mean(curves, z, arms) for arms in sequences(len(curves), depth, repeats)]


def ucb_values(means, covariances, z, depth, repeats, alpha, extra_variance=0.0):
    """η + α √(ς² + extra) of every leaf (Algorithm 1, UCB), in the order of `sequences`."""
    values = []
    for arms in sequences(len(means), depth, repeats):
        mean, variance = leaf_moments(means, covariances, z, arms)
        # Rounding can leave a variance of −1e-17.
        values.append(mean + alpha * math.sqrt(max(0.0, variance + extra_variance)))
    return values


def first_maximiser(values, num_arms, depth, repeats):
    """(arms, value) of the lexicographically first of the best leaves."""
    if not values:
        raise ValueError(f"no sequence of {depth} different arms out of {num_arms}")
    leaves = list(sequences(num_arms, depth, repeats))
    best = values.index(max(values))
    return leaves[best], values[best]


def best_sequence(curves, z, depth, repeats):
    """The lookahead oracle: (arms, M*(Z)) (Section 4)."""
    values = leaf_values(curves, z, depth, repeats)
    return first_maximiser(values, len(curves), depth, repeats)


def best_ucb_sequence(means, covariances, z, depth, repeats, alpha, extra_variance=0.0):
    """I_t = argmax η + α √(ς² + extra): (arms, value) (Eq. alphadef)."""
    values = ucb_values(means, covariances, z, depth, repeats, alpha, extra_variance)
    return first_maximiser(values, len(means), depth, repeats)


# Optimistic planning (Section 6), node by node.


def best_rewards(curves, z, steps):
    """For each of the next `steps` slots, the most any arm could pay there, the arm's earlier plays left free."""
    z_max, best = curves.shape[1] - 1, []
    for slot in range(steps):
        reachable = [[min(z_max, int(z[j]) + slot), *range(min(slot, z_max + 1))] for j in range(len(curves))]
        best.append(max(curves[j, rest] for j, rests in enumerate(reachable) for rest in rests))
    return best


def optimistic_bound(curves, z, steps, kind):
    """Ψ(z, l): l times the largest reward within reach ("paper"), or the sum over slots of the largest ("per-slot")."""
    best = best_rewards(curves, z, steps)
    return (steps * max(best, default=0.0)) if kind == "paper" else math.fsum(best)


def optimistic_plan(curves, z, depth, budget, kind):
    """The procedure with budget N: the plan of the paper, whether a node of depth d was selected, d_N, and the nodes.

    Out of budget, the first expanded node of the greatest depth is completed greedily: b never rises along a path or
    over the steps, so that it is the one of largest b.
    """
    z_max = curves.shape[1] - 1

    def node(arms):
        _, rests = path(z, arms, z_max)
        return leaf_mean(curves, z, arms) + optimistic_bound(curves, rests, depth - len(arms), kind)

    waiting, expanded = {(): node(())}, []
    nodes = 0
    while True:
        chosen = max(waiting, key=waiting.get)
        if len(chosen) == depth:
            return list(chosen), True, depth, nodes
        if nodes + len(curves) > budget:
            break
        del waiting[chosen]
        expanded.append(chosen)
        for arm in range(len(curves)):
            waiting[*chosen, arm] = node((*chosen, arm))
        nodes += len(curves)
    deepest = max(len(arms) for arms in expanded)
    arms = list(next(arms for arms in expanded if len(arms) == deepest))
    while len(arms) < depth:
        _, rests = path(z, arms, z_max)
        arms.append(int(np.argmax([curves[j, rests[j]] for j in range(len(curves))])))
    return arms, False, deepest, nodes


def alpha(protocol, t, num_arms, num_points, depth):
    """α_t = √(2 ln((K G)^d (t+d−1)²)), t = 1, 2, ... (Eq. alphadef).

    `published` is √(2 ln((t+d−1)² K^d (G − 1))) with t = 0, 1, ...; 0 where that is ln 0.
    """
    check(protocol)
    if protocol == "as-written":
        points = depth * math.log(num_points)
    elif t + depth - 1 == 0 or num_points == 1:
        return 0.0
    else:
        points = math.log(num_points - 1)
    return math.sqrt(2.0 * (depth * math.log(num_arms) + points + 2.0 * math.log(t + depth - 1)))


def check(protocol):
    """Refuse a protocol that is neither `as-written` nor `published`."""
    if protocol not in ("as-written", "published"):
        raise ValueError(f"protocol must be 'as-written' or 'published', got {protocol!r}")


# Whole runs. `shocks` [T] are standard normal numbers: reward_t = f + σ shocks[t].


def run(curves, noise, shocks, plan, z_init=None):
    """Play blocks plan(t, z, record) until round T = len(shocks), which cuts the last one short.

    Returns arms, z_played, rewards and expected, each [T]; the record holds them as lists.
    """
    z = start(z_init, len(curves))
    record = {"arms": [], "z_played": [], "rewards": [], "expected": []}
    t = 0
    while t < len(shocks):
        for arm in plan(t, z, record):
            if t == len(shocks):
                break
            expected = curves[arm, z[arm]]
            record["arms"].append(int(arm))
            record["z_played"].append(int(z[arm]))
            record["rewards"].append(float(expected + noise * shocks[t]))
            record["expected"].append(float(expected))
            z = step(z, arm, curves.shape[1] - 1)
            t += 1
    return {name: np.array(values) for name, values in record.items()}


def run_rgp_ucb(curves, gram, noise, shocks, depth=1, repeats=True, protocol="as-written", z_init=None):
    """dRGP-UCB (Algorithm 1). `published` first plays every arm once and adds d σ² to ς²."""
    check(protocol)
    num_arms, num_points = curves.shape
    published = protocol == "published"

    def plan(t, z, record):
        if published and t == 0:
            return range(num_arms)
        history = record["arms"], record["z_played"], record["rewards"]
        means, covariances = posteriors(gram, *history, num_arms, noise)
        width = alpha(protocol, t if published else t + 1, num_arms, num_points, depth)
        extra = depth * noise**2 if published else 0.0
        return best_ucb_sequence(means, covariances, z, depth, repeats, width, extra)[0]

    return run(curves, noise, shocks, plan, z_init)


def run_rgp_ts(curves, gram, noise, shocks, sampler, depth, repeats, protocol="as-written", z_init=None):
    """dRGP-TS (Algorithm 1) on the curves [K, G] of sampler(means, covariances, block_index).

    Blocks count from 0. `published` first plays every arm once (not a block), and for d = 1 hands
    the sampler predictive covariances, σ² added on the diagonal.
    """
    check(protocol)
    num_arms, num_points = curves.shape
    published = protocol == "published"
    block_index = itertools.count()

    def plan(t, z, record):
        if published and t == 0:
            return range(num_arms)
        history = record["arms"], record["z_played"], record["rewards"]
        means, covariances = posteriors(gram, *history, num_arms, noise)
        if published and depth == 1:
            covariances = covariances + noise**2 * np.eye(num_points)
        sampled = sampler(means, covariances, next(block_index))
        return best_sequence(sampled, z, depth, repeats)[0]

    return run(curves, noise, shocks, plan, z_init)


def ucb_z_index(total, count, noise, horizon):
    """U = Ȳ + √(σ² (2 + 6 ln T) / N) of one (arm, z) pair, +∞ if unvisited (Appendix F)."""
    if count == 0:
        return math.inf
    return total / count + math.sqrt(noise**2 * (2.0 + 6.0 * math.log(horizon)) / count)


def run_ucb_z(curves, noise, shocks, choices, horizon, z_init=None):
    """UCB-Z (Appendix F): one round for each of the first `horizon` shocks.

    While a pair is unseen, aim at the first one, by arm and then by z. Any play counts as seeing
    its pair, also one made while waiting. With the arm below the wanted z, wait: play
    choices(t, arm), some other arm. At the wanted z, play the arm. Past it, play the arm too:
    that resets it, and sees it at its present z. A single arm has nothing to wait with and is
    always played. Once every pair is seen: argmax_j U(j, Z_j), the lowest arm of a tie.
    """
    num_arms, num_points = curves.shape

    def plan(t, z, record):
        counts, totals = np.zeros(curves.shape, dtype=int), np.zeros(curves.shape)
        for arm, z_arm, reward in zip(record["arms"], record["z_played"], record["rewards"], strict=True):
            counts[arm, z_arm] += 1
            totals[arm, z_arm] += reward
        for arm, wanted in itertools.product(range(num_arms), range(num_points)):
            if counts[arm, wanted] == 0:
                if z[arm] >= wanted or num_arms == 1:
                    return [arm]
                other = choices(t, arm)
                assert other != arm, "choices must return another arm"
                return [other]
        index = [ucb_z_index(totals[j, z[j]], counts[j, z[j]], noise, horizon) for j in range(num_arms)]
        return [index.index(max(index))]

    assert len(shocks) >= horizon, "one shock per round"
    return run(curves, noise, shocks[:horizon], plan, z_init)


# Regret at the z that the policy itself generates (Section 4).


def instantaneous_regret(curves, z_init, arms):
    """max_j f_j(Z_{j,t}) − f_{J_t}(Z_{J_t,t}) for every round, [T]."""
    z = start(z_init, len(curves))
    regret = []
    for arm in arms:
        values = [curves[j, z[j]] for j in range(len(curves))]
        regret.append(max(values) - values[arm])
        z = step(z, arm, curves.shape[1] - 1)
    return np.array(regret)


def lookahead_regret(curves, z_init, arms, depth, repeats):
    """M*(Z) − M_I(Z) of the blocks at rounds 0, d, 2d, ...; a shorter last block has its own M*."""
    z = start(z_init, len(curves))
    regret = []
    for first in range(0, len(arms), depth):
        block = [int(arm) for arm in arms[first : first + depth]]
        _, best = best_sequence(curves, z, len(block), repeats)
        regret.append(best - leaf_mean(curves, z, block))
        _, z = path(z, block, curves.shape[1] - 1)
    return regret
