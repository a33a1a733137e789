"""Who computes: this process (`local`), or the actors of a Ray cluster (`ray_cluster`)."""
