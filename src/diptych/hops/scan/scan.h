// dp::scan: a loop over slices with a carry, captured once however long it is.
#pragma once
#include <optional>

#include "diptych/hops/flat_function.h"

namespace diptych {

/// Options of scan().
struct ScanOptions {
  bool reverse = false;  ///< takes the last slice first; stacked outputs stay in the order of the slices
  /// The number of steps. Needed where xs holds no tensor; else it must equal the number of slices.
  std::optional<int64_t> length = {};
  /// Keeps at most this many carries for the backward, init included, and runs segments of steps again: binomial
  /// checkpointing. Memory: that many carries, and the residuals of one segment. Differentiated twice, it keeps all.
  std::optional<int64_t> max_saved_carries = {};
  /// Steps in such a segment; the default runs no step more than three times.
  std::optional<int64_t> segment = {};
  /// How many steps are run as one program. Results are the same bit for bit. It saves some of a step's overhead, which
  /// is small: worth trying for bodies of a few operators on small tensors.
  int64_t unroll = 1;
};

namespace detail {

/// scan() on flat tensors: `step` takes carries, then slices, and returns carries, then outputs; scan_flat() returns
/// the last carries, then the stacks.
std::vector<at::Tensor> scan_flat(const FlatFunction& step, const Flattened& init, const Flattened& xs,
                                  const ScanOptions& options);

/// Checks the structure of `what`, a user function's result. Errors: UserError says where `got` differs from
/// `expected`.
void check_structure(const char* who, const char* what, const TreeSpec& expected, const TreeSpec& got);

/// The user's step, which must return a carry of the structure that it got.
template <class F, class Carry>
struct CheckedStep {
  F& function;
  const TreeSpec& spec;
  template <class X>
  auto operator()(Carry& carry, X& x) {
    auto result = function(carry, x);
    check_structure("scan", "the body's carry", spec, diptych::flatten(result.first, "carry").spec);
    return result;
  }
};

}  // namespace detail

/// Runs `(carry, y) = f(carry, x)` for each slice x of `xs` along its first dimension, starting with `init`, and
/// returns the last carry and the y stacked along a new first dimension. Carry, slices and outputs are any trees of
/// tensors; f may capture tensors and modules, and everything is differentiable to any order, captured tensors
/// included. A tensor that f captures and changes in place, such as BatchNorm's statistics, is carried along. Where f
/// changes a slice or a carry in place, `xs` and `init` are left as the same loop in C++ leaves them. f runs once, on
/// stand-ins, so the cost of capturing does not grow with the length. Shapes: a leaf of xs is [length, ...], f sees
/// [...]; a y of [...] becomes [length, ...]; a carry keeps its sizes and dtype. With length 0 the carry is init, and
/// stacks are empty. Errors: UserError by path for a carry that changes structure, sizes or dtype, leaves of xs of
/// unequal lengths, a carry that f changes in place and returns twice; what f throws. Source: jax.lax.scan.
template <class F, class Carry, class Xs>
auto scan(F&& f, const Carry& init, const Xs& xs, const ScanOptions& options = {}) {
  using Result = std::decay_t<decltype(f(std::declval<Carry&>(), std::declval<Xs&>()))>;
  static_assert(
      requires(Result result) {
        result.first;
        result.second;
      },
      "The body of a scan must return a std::pair of the next carry and this step's output.");
  const Flattened carry = diptych::flatten(init, "carry");
  const Flattened slices = diptych::flatten(xs, "xs");
  detail::CheckedStep<std::remove_reference_t<F>, Carry> step{f, carry.spec};
  std::shared_ptr<Result> example;
  const auto flat = detail::make_flat<Result>(step, example, init, xs);
  auto tensors = detail::scan_flat(flat, carry, slices, options);
  return unflatten(*example, tensors);
}

}  // namespace diptych
