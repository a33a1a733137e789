"""Run by test_sweep_ray.py in a process of its own: a sweep on a cluster of three nodes, one of which is killed.

python tests/sweep_on_ray.py SPEC.toml DIR KILL_AFTER REPORT.json
"""

import json
import sys
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from jaxband import sweep
from jaxband.sweep.engines import ray_cluster as ray_cluster


def main(spec: str, directory: str, kill_after: int, report: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    lost, bury = [], ray_cluster._ActorPool._on_actor_death

    def counting_bury(self, slot, unit, *rest):
        lost.append(slot.node)
        bury(self, slot, unit, *rest)

    def engine(units):
        ray_cluster._ActorPool._on_actor_death = counting_bury
        for count, (unit, arrays) in enumerate(sweep.ray_engine(cluster.address)(units)):
            if count == kill_after:
                cluster.remove_node(nodes[0], allow_graceful=False)
                cluster.add_node(num_cpus=1)
            yield unit, arrays

    outcome = sweep.run(sweep.read_spec(spec), directory, engine=engine, progress=False)
    report.write_text(json.dumps({"done": outcome.done, "complete": outcome.complete, "lost": len(lost)}))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
