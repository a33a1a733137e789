"""What planners share that plan from the points of every curve within a window (`slot_sets`)."""

from jax import Array

from jaxband.base import Plan, Planner
from jaxband.planners import slot_sets


class WindowPlanner(Planner):
    """A planner that defines `plan_window`; with `plans_upper_bounds` also `plan_ucb_window`."""

    plans_windows = True

    def plan(
        self,
        curves: Array,
        z: Array,
        *,
        terminal_values: Array | None = None,
        available: Array | None = None,
        plays: int | None = None,
        idle: bool = False,
    ) -> Plan:
        """The best sequence that `plan_window` finds; see `base.Planner`."""
        points, terminal = slot_sets.window_points(curves, z, self.depth, terminal_values)
        virtual = 1 if self.repeats else self.depth
        masked = slot_sets.mask(points, available, idle, virtual)
        if terminal is not None:
            terminal = slot_sets.pad_for_idle(terminal, available, idle, virtual)
        plan = slot_sets.unmask(self.plan_window(masked, terminal=terminal), len(points), available, idle)
        return self.shaped(plan, plays)

    def plan_ucb(
        self,
        mean: Array,
        root: Array,
        z: Array,
        alpha: Array,
        *,
        extra_variance: Array = 0.0,
        available: Array | None = None,
    ) -> Plan:
        """The best sequence that `plan_ucb_window` finds; mean [K, G], root [K, G, r]."""
        means, roots = slot_sets.gather_points(mean, z, self.depth), slot_sets.gather_points(root, z, self.depth)
        means, roots = slot_sets.mask(means, available), slot_sets.pad_for_idle(roots, available)
        plan = self.plan_ucb_window(means, roots, alpha, extra_variance=extra_variance)
        return slot_sets.unmask(plan, len(mean), available)
