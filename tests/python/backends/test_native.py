"""What Python shows of native kernels, their checks, and compilers in the background."""
import os
import re
import subprocess
import sys

import diptych
import pytest
import torch
from diptych import _core


def layer(x, weight):
    return torch.nn.functional.silu(torch.softmax(x, -1) @ weight + x)


def inputs():
    return torch.randn(32, 16), torch.randn(16, 16, requires_grad=True)


def test_native_graphs_show_the_kernels_of_forward_and_backward():
    compiled = diptych.aot_function(layer, backend="native")
    compiled(*inputs()).sum().backward()
    forward, backward = compiled.native_graphs()
    assert (forward.name, backward.name) == ("forward", "backward")
    assert repr(forward) == f"<NativeGraph forward of {len(forward.kernels)} kernels>"
    for graph in (forward, backward):
        assert graph.table().count("\n") == len(graph.kernels) + 3
        assert graph.code() == str(graph) == "\n".join(kernel.code() for kernel in graph.kernels)
        assert all(kernel.name in graph.html() for kernel in graph.kernels)
    assert "hop.fused" in forward.graph.code()
    softmax = forward.kernels[0]
    assert repr(softmax) == "<NativeKernel fused_amax_sub_exp_sum_div of 5 nodes>"
    assert [node.name for node in softmax.nodes.nodes][:2] == ["aten.amax", "aten.sub.Tensor"] and softmax.problem == ""
    assert "define void @fused_amax_sub_exp_sum_div" in softmax.llvm() and "fused_amax_sub_exp_sum_div:" in softmax.assembly()
    assert (softmax.bytes_read, softmax.bytes_written, softmax.flops) == (2048, 2048, 5 * 512)
    assert "aten.mm: no operator of kernels" in forward.explain()
    assert "<iframe" in forward._repr_html_()


def test_modules_have_native_graphs_and_other_backends_have_none():
    model = diptych.aot_module(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Softmax(-1)), backend="native")
    model(torch.randn(8, 4))
    assert len(model.native_graphs()[0].kernels) == 1
    plain = diptych.aot_function(layer, backend="interpreter")
    plain(*inputs())
    assert plain.native_graphs() == []


def test_captured_backwards_have_native_graphs():
    x, weight = torch.randn(32, 16, requires_grad=True), torch.randn(16, 16)
    diptych.backward_capture.reset()
    with diptych.backward_capture.capture(backend="native") as capture:
        assert capture.native_graphs() == []
        layer(x, weight).sum().backward()
        (backward,) = capture.native_graphs()
    assert backward.name == "backward" and backward.kernels
    assert backward.table().count("\n") == len(backward.kernels) + 3
    assert [graph.code() for graph in capture.native_graphs()] == [backward.code()], "after it has been left"
    assert [graph.code() for graph in diptych.backward_capture.native_graphs()] == [backward.code()]
    with diptych.backward_capture.capture(backend="interpreter") as capture:
        layer(x, weight).sum().backward()
    assert capture.native_graphs() == []


def test_kernels_are_timed_inside_the_block():
    compiled = diptych.aot_function(layer, backend="native")
    x, weight = inputs()
    compiled(x, weight)
    assert "median" not in compiled.native_graphs()[0].table()
    with diptych.time_kernels():
        compiled(x, weight)
        compiled(x, weight)
    compiled(x, weight)
    forward = compiled.native_graphs()[0]
    assert [kernel.timed_calls for kernel in forward.kernels] == [2, 2]
    assert all(kernel.median_us > 0 for kernel in forward.kernels)
    assert re.search(r"\d+% of (memory|flops)", forward.table())


def test_kernels_of_one_function_are_checked():
    x, weight = inputs()
    checked = diptych.aot_function(layer, backend="native", check_kernels=True)
    torch.testing.assert_close(checked(x, weight), layer(x, weight), atol=1e-5, rtol=1e-5)
    assert diptych.Options(backend="native", check_kernels=True).check_kernels
    with pytest.raises(diptych.UserError, match="backend 'interpreter' has no kernels"):
        diptych.aot_function(layer, backend="interpreter", check_kernels=True)(x, weight)


def test_a_kernel_is_run_alone_from_its_file(tmp_path):
    compiled = diptych.aot_function(layer, backend="native")
    x, weight = inputs()
    compiled(x, weight.detach())
    path = str(tmp_path / "kernel.graph")
    compiled.native_graphs()[0].kernels[1].save([torch.randn(32, 16), torch.randn(32, 16)], str(tmp_path / "kernel"))
    differs, text = _core.check_kernel_file(path)
    assert not differs and "kernel and evaluator" in text
    done = subprocess.run([sys.executable, "-m", "diptych._command", "check-kernel", path], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == text
    os.remove(tmp_path / "kernel.safetensors")
    done = subprocess.run([sys.executable, "-m", "diptych._command", "check-kernel", path], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("diptych: ")


def test_calls_do_not_wait_for_a_compiler_in_the_background():
    compiled = diptych.aot_function(layer, backend="native", async_compile=True)
    x, weight = inputs()
    expected = layer(x, weight)
    torch.testing.assert_close(compiled(x, weight), expected, atol=1e-5, rtol=1e-5)
    diptych.wait_for_compilers()
    torch.testing.assert_close(compiled(x, weight), expected, atol=1e-5, rtol=1e-5)
    assert len(compiled.native_graphs()[0].kernels) == 2


def test_a_process_may_end_while_a_compiler_is_at_work(tmp_path):
    program = """
import diptych, torch
def layer(x):
    for _ in range(8):
        x = torch.softmax(x.sin() + 1, -1).flip(0)
    return x
compiled = diptych.aot_function(layer, backend="native", async_compile=True)
compiled(torch.randn(32, 16))
print("done", flush=True)
"""
    for end in ("", "del compiled\n", "import os; os._exit(0)\n"):
        environment = {**os.environ, "DIPTYCH_KERNEL_CACHE": "0"}
        done = subprocess.run([sys.executable, "-c", program + end], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_an_element_is_picked_of_what_is_written_over():
    def function(a, b, classes):
        x = torch.bmm(a, b)
        e = torch.exp(x)
        picked = torch.where(classes[:, None, :] == torch.arange(3)[None, :, None], x, 0.0).sum(1, keepdim=True)
        return e, e - picked

    for columns in (8, 20000):
        arguments = torch.randn(2, 3, 4), torch.randn(2, 4, columns), torch.randint(3, (2, columns))
        compiled = diptych.aot_function(function, backend="native")
        with torch.no_grad():
            for found, expected in zip(compiled(*arguments), function(*arguments)):
                torch.testing.assert_close(found, expected)


def test_a_loss_of_a_long_chain_has_a_kernel_at_once():
    def function(h, classes):
        for _ in range(25):
            h = h * torch.sigmoid(h)
        return torch.nn.functional.cross_entropy(h, classes)

    arguments = torch.randn(4, 6), torch.randint(6, (4,))
    torch.testing.assert_close(diptych.aot_function(function, backend="native")(*arguments), function(*arguments))
