"""A network whose batches are divided among threads, each with a part of its own."""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TypeVar

import torch as th
from torch import nn

__all__ = ["ThreadedNetwork"]

Part = TypeVar("Part")
Result = TypeVar("Result")


class ThreadedNetwork:
    """
    torch divides each operation among its threads, and they wait for each other after each. Here, a thread takes a part
    of the batch through the whole network. Each thread has a network of its own, with the same parameters; the
    gradients are added up in the end.

    :param network: treats each sample of a batch by itself, and draws no random numbers
    """

    def __init__(self, network: nn.Module) -> None:
        self._networks = [network]
        self._pool: ThreadPoolExecutor | None = None

    def divide(self, n: int, least: int) -> list[slice]:
        """:return: a part of ``n`` samples for each of torch's threads, as far as each has ``least`` samples"""
        n_parts = max(1, min(th.get_num_threads(), n // least))
        return [slice(*bounds) for bounds in pairwise(n * i // n_parts for i in range(n_parts + 1))]

    def run(self, call: Callable[[nn.Module, Part], Result], parts: Sequence[Part]) -> list[Result]:
        """:return: the results of ``call`` for each part and the network of its thread"""
        n_threads, with_gradients = th.get_num_threads(), th.is_grad_enabled()
        if len(parts) == 1:
            return [call(self._networks[0], parts[0])]

        def work(network: nn.Module, part: Part) -> Result:
            # Both are settings of a thread
            th.set_num_threads(max(1, n_threads // len(parts)))
            with th.set_grad_enabled(with_gradients):
                return call(network, part)

        pool = self._prepare(len(parts))
        futures = [pool.submit(work, *pair) for pair in zip(self._networks[1:], parts[1:], strict=False)]
        try:
            return [work(self._networks[0], parts[0]), *(future.result() for future in futures)]
        finally:
            wait(futures)  # also after Ctrl-C: nothing may change gradients later
            th.set_num_threads(n_threads)

    def zero_grad(self) -> None:
        """Drop all gradients, those of an interrupted update too."""
        for network in self._networks:
            network.zero_grad()

    def gather_gradients(self) -> None:
        """Add the gradients of all threads to those of the network's own parameters."""
        parameters = list(self._networks[0].parameters())
        for other in self._networks[1:]:
            for parameter, same in zip(parameters, other.parameters(), strict=True):
                if same.grad is not None:
                    assert parameter.grad is not None
                    parameter.grad.add_(same.grad)

    def _prepare(self, n_parts: int) -> ThreadPoolExecutor:
        while len(self._networks) < n_parts:
            self._networks.append(_with_the_same_memory(self._networks[0]))
        if self._pool is None or self._pool._max_workers < n_parts - 1:
            self._pool = ThreadPoolExecutor(n_parts - 1, "sb3_ext network")
        return self._pool


def _with_the_same_memory(network: nn.Module) -> nn.Module:
    """A copy that sees every change of parameters and buffers. It stays in eval mode."""
    other = copy.deepcopy(network).eval()
    for tensors, same in ((network.parameters(), other.parameters()), (network.buffers(), other.buffers())):
        for tensor, copied in zip(tensors, same, strict=True):
            copied.data = tensor.data
    return other
