"""RogueUCB-Tuned, the parametric baseline of the paper.

Read in this order: family_curves, family_table, box_steps, search, policy.
"""
