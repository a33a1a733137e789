"""What all tests share."""

# programs that tests start in processes of their own; one needs Ray
collect_ignore = ["sweep_kills.py", "sweep_on_ray.py"]
