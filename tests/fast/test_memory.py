"""What a minibatch leaves is there for the next one."""

import ctypes
import resource

import pytest
import torch as th

from sb3_ext.fast.memory import keep_memory

N_FLOATS, N_TIMES = 5 * 2**20, 30


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has no mallopt")
def test_memory_that_was_used_costs_no_page_faults_again():
    keep_memory()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(N_TIMES):
        th.ones(N_FLOATS)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    # The first few are new: glibc finds the place of an aligned block again only when there is some room around it
    assert faults < N_TIMES * 4 * N_FLOATS / resource.getpagesize() / 2
