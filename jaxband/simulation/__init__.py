"""A policy plays a problem: one replication (`rollout`), then thousands of them (`monte_carlo`).

Read in this order: rollout, layout, metrics, dispatch, summaries, monte_carlo.
"""
