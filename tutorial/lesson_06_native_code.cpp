// Lesson 6: native code.
//
// Lessons 1 to 5 run graphs operator by operator, as eager does. With backend "native" what lies between products
// becomes few kernels, machine code for this CPU. This lesson looks at them: which nodes each computes, why it does not
// compute more, what it reads and writes, and how to see that it is right. Run it as
//   lesson_06_native_code
// Every claim below is checked as the program runs; it stops at the first that does not hold.
#include <diptych/diptych.h>
#include <torch/torch.h>

#include <iostream>
#include <stdexcept>

namespace dp = diptych;

namespace {

void check(bool holds, const char* claim) {
  if (!holds) throw std::runtime_error(std::string("this does not hold: ") + claim);
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// A layer with its activation before and after a product.
at::Tensor layer(const at::Tensor& x, const at::Tensor& w) { return torch::silu(torch::softmax(x, -1).matmul(w) + x); }

/// 1. A function compiled natively has eager's values and gradients. Sums are made in another order, so they agree up
/// to rounding.
void the_same_function(const at::Tensor& x, const at::Tensor& w) {
  const auto compiled = dp::aot_function(layer, {.backend = "native", .name = "layer"});
  const at::Tensor y = compiled(x, w);
  check(torch::allclose(y, layer(x, w), 1e-4, 1e-5), "values are eager's");
  const auto got = torch::autograd::grad({y.sum()}, {w})[0];
  const auto expected = torch::autograd::grad({layer(x, w).sum()}, {w})[0];
  check(torch::allclose(got, expected, 1e-4, 1e-4), "and so are gradients");
}

/// 2. What became of its graphs: native_graphs() has the forward graph, then each backward graph that was needed.
void its_kernels(const at::Tensor& x, const at::Tensor& w) {
  const auto compiled = dp::aot_function(layer, {.backend = "native"});
  compiled(x, w).sum().backward();
  const std::vector<dp::NativeGraph> graphs = compiled.native_graphs();
  check(graphs.size() == 2, "there are a forward and a backward graph");
  std::cout << graphs[0].table() << '\n' << graphs[0].explain() << '\n' << graphs[1].table() << '\n';
  check(graphs[0].kernels().size() == 2, "the product stands between two kernels, since LibTorch computes it");
  check(contains(graphs[0].explain(), "aten.mm: no operator of kernels"), "which explain() says");
  // A kernel's nodes are a graph of their own. What it does with them is text of three kinds.
  const dp::NativeKernel& softmax = graphs[0].kernels()[0];
  std::cout << softmax.code() << '\n';
  check(softmax.nodes().nodes().size() == 5, "a softmax is five nodes, and one kernel");
  check(contains(softmax.code(), "reduce max") && contains(softmax.llvm(), "define void"), "code() and llvm()");
  check(contains(softmax.assembly(), softmax.name()), "and assembly()");
  // It reads x once and writes the result once, however often it goes through a row that lies in cache.
  const auto bytes = static_cast<int64_t>(x.nbytes());
  check(softmax.work().bytes_read == bytes && softmax.work().bytes_written == bytes, "each element moves once");
}

/// 3. Times are taken while a TimeKernels lives; the table then has the median, and how much of the memory's bandwidth
/// or of the peak that is.
void times(const at::Tensor& x, const at::Tensor& w) {
  const auto compiled = dp::aot_function(layer, {.backend = "native"});
  (void)compiled(x, w);  // makes the kernels
  {
    const dp::TimeKernels timed;
    for (int i = 0; i < 10; ++i) (void)compiled(x, w);
  }
  const dp::NativeGraph forward = compiled.native_graphs()[0];
  std::cout << forward.table() << '\n';
  check(forward.kernels()[0].timed_calls() == 10, "ten calls were timed");
}

/// 4. With check_kernels the interpreter runs beside each kernel, and the first result that differs by more than
/// rounding is an error that names a file; `diptych check-kernel FILE` runs that kernel alone. DIPTYCH_CHECK=kernels
/// does so for all functions.
void checked(const at::Tensor& x, const at::Tensor& w) {
  const auto compiled = dp::aot_function(layer, {.backend = "native", .check_kernels = true});
  check(torch::allclose(compiled(x, w), layer(x, w), 1e-4, 1e-5), "no kernel differs");
}

/// 5. The first call need not wait for the compiler.
void in_the_background(const at::Tensor& x, const at::Tensor& w) {
  const auto compiled = dp::aot_function(layer, {.backend = "native", .async_compile = true});
  const at::Tensor early = compiled(x, w);  // by the interpreter, unless the code is ready already
  dp::wait_for_compilers();
  check(torch::allclose(early, compiled(x, w), 1e-4, 1e-5), "both give the same up to rounding");
}

}  // namespace

int main() {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({64, 32}), w = torch::randn({32, 32}).requires_grad_();
  the_same_function(x, w);
  its_kernels(x, w);
  times(x, w);
  checked(x, w);
  in_the_background(x, w);
  std::cout << "lesson 6: all checks hold\n";
}
