"""Where a second process for the critic is possible at all."""

import multiprocessing
import os
import platform

import pytest
import torch as th

from sb3_ext.fast.critic_process import can_fork


@pytest.fixture
def two_cores_of_x86(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["fork", "spawn"])
    monkeypatch.setattr(th.cuda, "is_initialized", lambda: False)
    return monkeypatch


def test_two_cores_of_x86_can(two_cores_of_x86):
    assert can_fork()


@pytest.mark.parametrize(
    ("owner", "name", "answer"),
    [
        (platform, "machine", "aarch64"),
        (os, "sched_getaffinity", {0}),
        (multiprocessing, "get_all_start_methods", ["spawn"]),
        (th.cuda, "is_initialized", True),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_each_condition_is_needed(two_cores_of_x86, owner, name, answer):
    two_cores_of_x86.setattr(owner, name, lambda *_: answer)
    assert not can_fork()


def test_a_system_without_affinities_cannot(two_cores_of_x86):
    two_cores_of_x86.delattr(os, "sched_getaffinity")
    assert not can_fork()
