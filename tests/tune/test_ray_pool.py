"""Trainings of a study on a Ray cluster: nodes that die, and nodes that join later."""

import sys
from collections import Counter
from contextlib import suppress

import psutil
import pytest

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.pool import Lost, Reached
from sb3_ext.tune.ray_pool import RayPool
from sb3_ext.zoo.trial_training import TrialTraining

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install sb3-ext[ray]")

SECTION = {"policy": "MlpPolicy", "n_timesteps": 300, "n_steps": 64, "batch_size": 64, "n_epochs": 2}
TRAINING = TrialTraining("ppo", "CartPole-v1", SECTION, 0, 200, evaluations=2, episodes=1)
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes on this machine, with one CPU each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **NODE})
    cluster.add_node(**NODE)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def pool(cluster):
    pool = RayPool(cluster.address)
    yield pool
    pool.close()


def reach_first_points(pool, keys):
    """Trainings that run at the same time, each of which waits for an answer."""
    for key in keys:
        pool.submit(key, TRAINING)
    events = []
    while len(events) < len(keys):
        events += pool.wait(60)
    assert {(type(event), event.key) for event in events} == {(Reached, key) for key in keys}


def kill_node(cluster, node):
    """With its workers, which would go on for a moment and could end their training."""
    workers = psutil.Process(node.all_processes["raylet"][0].process.pid).children(recursive=True)
    cluster.remove_node(node, allow_graceful=False)
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()


def answer(pool, keys):
    for key in keys:
        pool.answer(key, True)


def finish(pool, keys):
    """How often each training was lost, and how often it ended."""
    lost, ended = Counter(), Counter()
    while set(ended) != set(keys):
        events = pool.wait(60)
        assert events, "nothing happens"
        for event in events:
            if isinstance(event, Lost):
                lost[event.key] += 1
                pool.submit(event.key, TRAINING)
            elif isinstance(event, Reached):
                pool.answer(event.key, True)
            else:
                assert event.curve.error is None
                ended[event.key] += 1
    assert pool.wait(0.1) == []
    return lost, ended


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense"])
def test_a_cluster_that_cannot_be_reached_is_a_usage_error(address):
    with pytest.raises(UsageError, match=f"--ray {address}: no Ray cluster can be reached"):
        RayPool(address)


def test_trainings_take_turns_on_the_cpus_that_others_leave(pool):
    other = ray.remote(num_cpus=1)(object).remote()
    pool.submit("a", TRAINING)
    pool.submit("b", TRAINING)
    assert finish(pool, ["a", "b"]) == ({}, {"a": 1, "b": 1})
    ray.kill(other)


def test_a_killed_node_loses_its_training_once_and_a_node_that_joins_gets_work(cluster, pool):
    assert pool.size == 2
    reach_first_points(pool, ["a", "b"])
    kill_node(cluster, next(iter(cluster.worker_nodes)))
    answer(pool, ["a", "b"])
    lost, ended = finish(pool, ["a", "b"])
    assert list(lost.values()) == [1]
    assert ended == {"a": 1, "b": 1}
    cluster.add_node(**NODE)
    reach_first_points(pool, ["c", "d"])
    answer(pool, ["c", "d"])
    assert finish(pool, ["c", "d"]) == ({}, {"c": 1, "d": 1})


def test_a_missing_ray_is_a_usage_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="pip install"):
        RayPool("auto")


def test_a_stopped_training_has_no_more_events(pool):
    pool.submit("a", TRAINING)
    pool.stop("a")
    assert pool.wait(0.5) == []
