// Expecting an error that leaves nothing behind: no thread-local state, and no harm to the next call.
#pragma once
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <string>
#include <type_traits>
#include <vector>

#include "diptych/diptych.h"
#include "diptych/trace/recorder.h"
#include "testing/as_near.h"
#include "testing/expect_error.h"
#include "testing/tensors.h"

namespace diptych::testing {

/// Everything of a thread that a trace changes and must put back.
struct ThreadState {
  c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  c10::DispatchKeySet excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  bool grad_mode = c10::GradMode::is_enabled();
  bool inference_mode = c10::InferenceMode::is_enabled();
  bool autocast = at::autocast::is_autocast_enabled(c10::kCPU);
  at::ScalarType autocast_dtype = at::autocast::get_autocast_dtype(c10::kCPU);
  bool autocast_cache = at::autocast::is_autocast_cache_enabled();
  bool reapply_views = at::functionalization::impl::getFunctionalizationReapplyViewsTLS();
  const void* recorder = detail::Recorder::current();
  std::string scope = detail::current_scope().str();
  bool operator==(const ThreadState&) const = default;
};

/// Captures, runs and differentiates a small function, which works in a thread that is in order.
inline void expect_good_call() {
  const auto f = [](const at::Tensor& t) { return (t * t).tanh().sum(); };
  const auto in_eager = [&](const Tensors& inputs) -> Tensors {
    const at::Tensor x = inputs[0].detach().requires_grad_(), y = f(x);
    return {y.detach(), torch::autograd::grad({y}, {x})[0]};
  };
  const auto x = torch::tensor({0.5F, -1.0F}).requires_grad_();
  const auto value = aot_function(f)(x);
  value.backward();
  EXPECT_TRUE(as_near_as_eager({value.detach(), x.grad()}, in_eager, {x.detach()}));
  const Pair pair = capture(f, x);
  const auto forward = pair.forward_call({x});
  const auto gradients = pair.backward_call(forward.residuals, {torch::ones({})});
  EXPECT_TRUE(as_near_as_eager({forward.outputs.at(0).detach(), gradients.at(0)}, in_eager, {x.detach()}));
}

/// Expects that `action` throws an E whose text holds each of `parts`, puts the thread's state back, and leaves
/// Diptych able to work.
template <class E = UserError, class Action>
void expect_refusal(const Action& action, const Parts& parts) {
  const ThreadState before;
  expect_error<E>(action, parts);
  EXPECT_TRUE(before == ThreadState()) << "the error left thread-local state behind";
  expect_good_call();
}

/// expect_refusal() of capture() and of a first call of aot_function(), which say the same.
template <class E = UserError, class F, class... A>
void expect_capture_refused(const F& function, const Parts& parts, const A&... arguments) {
  expect_refusal<E>([&] { (void)capture(function, arguments...); }, parts);
  expect_refusal<E>([&] { (void)aot_function(function, {.path_limit = 0})(arguments...); }, parts);
}

inline at::Tensor ones_leaf(at::IntArrayRef sizes) { return torch::ones(sizes).requires_grad_(); }

}  // namespace diptych::testing
