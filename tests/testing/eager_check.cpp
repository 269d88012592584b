#include "testing/eager_check.h"

#include <limits>
#include <sstream>

#include "diptych/compile/check_compare.h"

namespace diptych::testing {

using diptych::detail::is_usable;

bool is_leaf(const at::Tensor& tensor) {
  is_usable(tensor);
  return tensor.is_leaf();
}

namespace {

Observed observe(const Inputs& inputs, const Function& function, const CheckOptions& options) {
  Observed seen;
  const Tensors leaves = inputs.leaves();
  seen.inputs = inputs.derive(leaves);
  try {
    seen.outputs = function(seen.inputs);
    Tensors roots;
    Tensors tangents;
    torch::manual_seed(7);
    const auto add_root = [&](const at::Tensor& tensor) {
      if (!tensor.requires_grad() || !options.backward) return;
      roots.push_back(tensor);
      tangents.push_back(torch::randn_like(tensor));
    };
    for (const at::Tensor& output : seen.outputs) add_root(output);
    for (const at::Tensor& input : seen.inputs) {
      if (!is_leaf(input)) add_root(input);
    }
    if (!roots.empty()) torch::autograd::backward(roots, tangents);
  } catch (const std::exception& error) {
    seen.error = error.what();
  }
  for (const at::Tensor& leaf : leaves) seen.grads.push_back(leaf.grad());
  return seen;
}

using Lines = std::vector<std::string>;

template <class T>
void compare_fact(const T& eager, const T& ours, const std::string& what, Lines& lines) {
  if (eager != ours) lines.push_back(c10::str(what, ": eager ", eager, ", ours ", ours));
}

// How far values of a dtype may be apart, absolutely and relative to the tensor's largest.
using Tolerance = std::function<double(at::ScalarType)>;

// Backends other than the interpreter have kernels of their own, which add products without rounding them and sum in
// another order: "as in eager" then means to some units in the last place.
Tolerance tolerance_of(const CheckOptions& options) {
  if (options.tolerance != 0 || options.aot.backend == "interpreter")
    return [tolerance = options.tolerance](at::ScalarType) { return tolerance; };
  return [](at::ScalarType dtype) {
    if (!at::isFloatingType(dtype) && !at::isComplexType(dtype)) return 0.0;
    const auto real = c10::toRealValueType(dtype);
    if (real == at::kDouble) return 8 * std::numeric_limits<double>::epsilon();
    return real == at::kFloat ? 8 * std::numeric_limits<float>::epsilon() : real == at::kHalf ? 2e-3 : 1.6e-2;
  };
}

bool close(const at::Tensor& eager, const at::Tensor& ours, double tolerance) {
  if (tolerance == 0) return at::equal(eager.detach().nan_to_num(), ours.detach().nan_to_num());
  const at::Tensor a = eager.detach();
  const double scale =
      a.numel() == 0 ? 0
                     : (a.is_complex() ? a.abs() : a).to(at::kDouble).abs().nan_to_num(0, 0, 0).max().item<double>();
  return at::allclose(a, ours.detach(), tolerance, tolerance * std::max(1.0, scale), /*equal_nan=*/true);
}

// The strides of dimensions along which one can move; those of others say nothing.
std::vector<int64_t> strides_that_matter(const at::Tensor& tensor) {
  std::vector<int64_t> strides;
  for (int64_t dim = 0; dim < tensor.dim() && tensor.numel() > 0; ++dim) {
    if (tensor.size(dim) > 1) strides.push_back(tensor.stride(dim));
  }
  return strides;
}

void compare_tensors(const at::Tensor& eager, const at::Tensor& ours, const Tolerance& tolerance,
                     const std::string& what, Lines& lines) {
  compare_fact(eager.defined(), ours.defined(), what + ": defined", lines);
  if (!eager.defined() || !ours.defined()) return;
  compare_fact(eager.sizes(), ours.sizes(), what + ": sizes", lines);
  if (eager.sizes() == ours.sizes()) {
    compare_fact(strides_that_matter(eager), strides_that_matter(ours), what + ": strides", lines);
  }
  compare_fact(eager.scalar_type(), ours.scalar_type(), what + ": dtype", lines);
  if (eager.sizes() != ours.sizes() || eager.scalar_type() != ours.scalar_type()) return;
  if (!close(eager, ours, tolerance(eager.scalar_type())))
    lines.push_back(c10::str(what, ": values:\neager:\n", eager, "\nours:\n", ours));
}

void compare_facts(const at::Tensor& eager, const at::Tensor& ours, const std::string& what, Lines& lines) {
  compare_fact(eager.requires_grad(), ours.requires_grad(), what + ": requires_grad", lines);
  if (is_usable(eager)) compare_fact(is_leaf(eager), is_leaf(ours), what + ": is_leaf", lines);
  compare_fact(eager.is_view(), ours.is_view(), what + ": is_view", lines);
  compare_fact(eager.is_conj(), ours.is_conj(), what + ": is_conj", lines);
  compare_fact(eager.is_neg(), ours.is_neg(), what + ": is_neg", lines);
}

bool share(const at::Tensor& a, const at::Tensor& b) { return a.storage().is_alias_of(b.storage()); }

// Which of all the tensors share storage, pair by pair.
void compare_aliasing(const Observed& eager, const Observed& ours, Lines& lines) {
  const auto all = [](const Observed& seen) {
    Tensors tensors = seen.inputs;
    tensors.insert(tensors.end(), seen.outputs.begin(), seen.outputs.end());
    return tensors;
  };
  const Tensors a = all(eager);
  const Tensors b = all(ours);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (a[i].numel() == 0 || a[j].numel() == 0) continue;
      const std::string pair = c10::str("tensors ", j, " and ", i, " (inputs first)");
      compare_fact(share(a[i], a[j]), share(b[i], b[j]), pair + ": aliasing", lines);
      compare_fact(a[i].is_same(a[j]), b[i].is_same(b[j]), pair + ": identity", lines);
    }
  }
}

Lines differences_within(const Observed& eager, const Observed& ours, const Tolerance& tolerance) {
  if (eager.error.empty() != ours.error.empty())
    return {c10::str("error: eager: ", eager.error, "\nours: ", ours.error)};
  if (!eager.error.empty()) return {};
  Lines lines;
  compare_fact(eager.outputs.size(), ours.outputs.size(), "number of outputs", lines);
  if (!lines.empty()) return lines;
  const auto compare_all = [&](const Tensors& a, const Tensors& b, const char* role) {
    for (size_t i = 0; i < a.size(); ++i) {
      const std::string what = c10::str(role, i);
      compare_tensors(a[i], b[i], tolerance, what, lines);
      compare_facts(a[i], b[i], what, lines);
    }
  };
  compare_all(eager.outputs, ours.outputs, "output ");
  compare_all(eager.inputs, ours.inputs, "input ");
  compare_fact(eager.grads.size(), ours.grads.size(), "number of gradients", lines);
  for (size_t i = 0; i < std::min(eager.grads.size(), ours.grads.size()); ++i) {
    compare_tensors(eager.grads[i], ours.grads[i], tolerance, c10::str("gradient ", i), lines);
  }
  compare_aliasing(eager, ours, lines);
  return lines;
}

void compare(const Observed& eager, const Observed& ours, const CheckOptions& options) {
  for (const std::string& line : differences_within(eager, ours, tolerance_of(options))) ADD_FAILURE() << line;
}

void expect_alike_at(int call, const Inputs& inputs, const Function& expected, const Function& got,
                     const CheckOptions& options) {
  SCOPED_TRACE("call " + std::to_string(call));
  torch::manual_seed(100 + call);
  const Observed a = observe(inputs, expected, options);
  torch::manual_seed(100 + call);
  compare(a, observe(inputs, got, options), options);
}

}  // namespace

std::vector<std::string> differences(const Observed& eager, const Observed& ours, double tolerance) {
  return differences_within(eager, ours, [tolerance](at::ScalarType) { return tolerance; });
}

void expect_alike(const Inputs& inputs, const Function& expected, const Function& got, const CheckOptions& options) {
  for (int call = 0; call < options.calls; ++call) expect_alike_at(call, inputs, expected, got, options);
}

void expect_as_eager(const Inputs& inputs, const Function& function, const CheckOptions& options) {
  expect_compiled_as(inputs, function, function, options);
}

void expect_compiled_as(const Inputs& inputs, const Function& expected, const Function& function,
                        const CheckOptions& options) {
  const auto compiled = aot_function(function, options.aot);
  expect_alike(
      inputs, expected, [&](const Tensors& tensors) { return compiled(tensors); }, options);
  if (options.calls > 1 && !::testing::Test::HasFailure() && compiled.stats().misses > 0) {
    EXPECT_EQ(compiled.stats().misses, 1U) << compiled.stats().last_miss;
  }
}

void expect_as_eager(const std::function<Tensors()>& leaves, const Function& function, const CheckOptions& options) {
  expect_as_eager(Inputs{leaves}, function, options);
}

namespace {

// The sum of all outputs, each weighted by fixed numbers, so that no symmetric mistake cancels.
at::Tensor weigh(const Tensors& outputs) {
  at::Tensor total = torch::zeros({}, torch::kFloat64);
  double phase = 0.3;
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || !at::isFloatingType(output.scalar_type())) continue;
    const auto weights =
        torch::arange(output.numel(), torch::kFloat64).reshape(output.sizes()).mul(0.7).add(phase).cos();
    total = total + (output * weights).sum();
    phase += 0.9;
  }
  return total;
}

void check_by_differences(const Tensors& inputs, const Function& function, const std::string& what) {
  const auto loss = [&] { return weigh(function(inputs)); };
  const at::Tensor value = loss();
  ASSERT_TRUE(value.requires_grad()) << what;
  const auto grads = torch::autograd::grad({value}, inputs, {}, std::nullopt, false, /*allow_unused=*/true);
  const double eps = 1e-6;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor flat = inputs[i].detach().view({-1});
    for (int64_t k = 0; k < flat.numel(); ++k) {
      const double kept = flat[k].item<double>();
      const auto value_at = [&](double x) {
        flat[k].fill_(x);
        return loss().item<double>();
      };
      const double expected = (value_at(kept + eps) - value_at(kept - eps)) / (2 * eps);
      flat[k].fill_(kept);
      const double got = grads[i].defined() ? grads[i].contiguous().view({-1})[k].item<double>() : 0.0;
      EXPECT_NEAR(got, expected, 1e-5 + 1e-4 * std::abs(expected)) << what << ", input " << i << ", element " << k;
    }
  }
}

}  // namespace

void expect_gradients_right(const Tensors& inputs, const Function& function, bool second_order,
                            const AotOptions& options) {
  const auto compiled = aot_function(function, options);
  expect_derivatives_right(
      inputs, [&](const Tensors& tensors) { return compiled(tensors); }, second_order);
}

void expect_derivatives_right(const Tensors& inputs, const Function& function, bool second_order) {
  check_by_differences(inputs, function, "first order");
  if (!second_order) return;
  const Function gradients = [&](const Tensors& tensors) {
    auto grads =
        torch::autograd::grad({weigh(function(tensors))}, tensors, {}, std::nullopt, /*create_graph=*/true, true);
    return grads;
  };
  check_by_differences(inputs, gradients, "second order");
}

}  // namespace diptych::testing
