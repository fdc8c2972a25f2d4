"""What a minibatch leaves is there for the next one."""

import ctypes
import resource

import pytest
import torch as th

from sb3_ext.fast.memory import keep_memory

N_FLOATS = 5 * 2**20


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has no mallopt")
def test_memory_that_was_used_once_costs_no_page_faults_again():
    keep_memory()
    th.ones(N_FLOATS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        th.ones(N_FLOATS)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 3 * 4 * N_FLOATS / resource.getpagesize() / 10
