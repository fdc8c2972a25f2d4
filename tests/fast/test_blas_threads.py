"""The fast path uses as many threads as torch may. NumPy's BLAS would use all cores for large products."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = """
from pathlib import Path

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt
from sb3_ext.fast.heads import make_head

def slices_of_other_threads():
    main, *others = sorted(Path("/proc/self/task").iterdir(), key=lambda task: int(task.name))
    return {task.name: int((task / "schedstat").read_text().split()[2]) for task in others}

th.set_num_threads(1)
model = PPOExt(
    "MlpPolicy", make_vec_env("Pendulum-v1", 8), n_steps=32, n_epochs=1, fast="alone",
    policy_kwargs={"net_arch": {"pi": [256, 256], "vf": [8]}}, device="cpu",
)
log_std = th.nn.Parameter(th.zeros(17))
log_std.grad = th.zeros(17)
head, n = make_head(spaces.Box(-1, 1, (17,)), log_std), 30_000
before = slices_of_other_threads()
assert before, "BLAS has no threads to use"
model.learn(1)
assert slices_of_other_threads() == before, "learn"
head.evaluate(th.zeros(n, 17), np.ones((n, 17), np.float32))
head.backward(np.ones(n, np.float32), 0.0)
assert slices_of_other_threads() == before, "large minibatches of continuous actions"
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Needs Linux's counts of time slices")
def test_a_training_with_one_thread_of_torch_lets_no_other_thread_run():
    several = {f"{library}_NUM_THREADS": "2" for library in ("OPENBLAS", "OMP", "MKL")}
    subprocess.run([sys.executable, "-c", TRAIN], check=True, env={**os.environ, **several}, timeout=300)
