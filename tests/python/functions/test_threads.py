"""Python threads: traces, calls and backwards at the same time, and nobody waits for another's lock with the GIL in hand."""
import concurrent.futures
import threading

import diptych
import pytest
import torch


def loss(w, x):
    return torch.tanh(x @ w).square().sum()


def step(function, seed):
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(4, 3, generator=generator).requires_grad_()
    x = torch.randn(2 + seed % 3, 4, generator=generator)
    value = function(w, x)
    value.backward()
    return value.detach(), w.grad


def run_together(work, count):
    """work(i) for each i, all begun at once; what they return, in order. A deadlock is an error after a minute."""
    barrier = threading.Barrier(count)

    def begin(i):
        barrier.wait()
        return work(i)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(begin, i) for i in range(count)]
        return [future.result(timeout=60) for future in futures]


def test_one_compiled_function_from_many_threads():
    compiled = diptych.aot_function(loss)
    for found, seed in zip(run_together(lambda i: step(compiled, i), 6), range(6)):
        torch.testing.assert_close(found, step(loss, seed))


def test_each_thread_traces_its_own():
    def work(i):
        return [step(diptych.aot_function(loss, partition=("default", "min_cut")[i % 2]), i) for _ in range(5)]

    for found, seed in zip(run_together(work, 4), range(4)):
        for result in found:
            torch.testing.assert_close(result, step(loss, seed))


def test_draws_of_other_threads_do_not_disturb_a_trace():
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            torch.rand(10)

    drawing = threading.Thread(target=draw)
    drawing.start()
    try:
        for _ in range(20):
            diptych.aot_function(lambda x: torch.nn.functional.dropout(x, 0.5) * 2)(torch.ones(8))
    finally:
        stop.set()
        drawing.join()


def test_an_error_in_one_thread_is_that_threads():
    def wrong(x):
        return x * x.sum().item()

    def work(i):
        if i % 2:
            return step(diptych.aot_function(loss), i)
        with pytest.raises(diptych.UserError, match="needs the values of a tensor"):
            diptych.aot_function(wrong, path_limit=0)(torch.ones(3))
        return None

    for found, i in zip(run_together(work, 6), range(6)):
        if i % 2:
            torch.testing.assert_close(found, step(loss, i))


def test_a_user_function_may_wait_for_another_thread():
    """The trace holds no lock that a thread with the GIL would wait for."""
    other, found = diptych.aot_function(loss), []

    def waits(w, x):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(step, other, 3).result(timeout=30))
        return loss(w, x)

    torch.testing.assert_close(step(diptych.aot_function(waits), 1), step(loss, 1))
    torch.testing.assert_close(found, [step(loss, 3)] * len(found))
    assert found
