// dp::associative_scan: all prefixes of a sequence under an associative function, in a logarithmic number of steps.
#pragma once
#include <c10/util/FunctionRef.h>

#include <string>
#include <type_traits>
#include <vector>

#include "diptych/tree/flatten.h"

namespace diptych {

struct AssociativeScanOptions {
  bool reverse = false;  ///< from the last element to the first
  int64_t dim = 0;       ///< the dimension of the sequence in every leaf; a negative one counts from each leaf's last
};

namespace detail {

/// The user's function on the leaves of its two arguments.
using FlatCombine = c10::function_ref<std::vector<at::Tensor>(const std::vector<at::Tensor>& earlier,
                                                              const std::vector<at::Tensor>& later)>;

/// associative_scan() on flat tensors; `paths` name the leaves in errors.
std::vector<at::Tensor> associative_scan_flat(FlatCombine combine, const std::vector<at::Tensor>& xs,
                                              const std::vector<std::string>& paths,
                                              const AssociativeScanOptions& options);

[[noreturn]] void throw_combined_structure(const TreeSpec& expected, const TreeSpec& got);

/// Returns the tensors in the result of the user's function.
/// Errors: UserError if its structure is not `expected`.
template <class Result>
std::vector<at::Tensor> combined_tensors(const TreeSpec& expected, const Result& result) {
  Flattened flat = flatten(result, "xs");
  if (!(flat.spec == expected)) throw_combined_structure(expected, flat.spec);
  return std::move(flat.tensors);
}

}  // namespace detail

/// Returns the inclusive prefixes of `xs` under the associative function `f`:
/// ys[0] = xs[0], ys[1] = f(xs[0], xs[1]), ys[2] = f(f(xs[0], xs[1]), xs[2]), ... With `reverse`, the suffixes,
/// combined from the end: ys[n-1] = xs[n-1], ys[n-2] = f(xs[n-1], xs[n-2]), ...
///
///   // h[t] = decay[t] * h[t-1] + input[t], along dimension 1
///   const auto [_, h] = dp::associative_scan(
///       [](const auto& a, const auto& b) { return std::pair(a.first * b.first, b.first * a.second + b.second); },
///       std::pair(decay, input), {.dim = 1});
///
/// `f(a, b)` combines two trees like `xs` at once for many elements: the leaves of `a` and `b` keep dimension `dim`,
/// with any length from 1 on, and element i of the result may depend on elements i of `a` and `b` alone. It returns new
/// values and leaves its arguments unchanged. It is called at most 2 * log2(n) times, on fewer than 2 * n elements
/// altogether, so a capture grows with the logarithm of the length, and what autograd saves grows with the length. The
/// scan consists of differentiable operators: it works in eager, inside captures and inside other higher-order
/// operators, and has derivatives of any order, also with respect to what `f` captures. In floating point, elements are
/// combined in another order than in a loop, so the last bit may differ.
/// Shapes: leaves [..., n at dim, ...] -> the same; n is one number for all leaves, the other dimensions are free.
/// Ensures: no result shares memory with `xs`. For n < 2, `f` is not called.
/// Errors: UserError for leaves of different lengths, without that dimension or undefined, for `xs` without a tensor,
/// and for an `f` that returns another structure, shape, dtype or device, or changes an argument in place, naming the
/// leaf.
/// Source: Blelloch, "Prefix sums and their applications", 1990; the recursion of jax.lax.associative_scan.
template <class F, class Xs>
std::decay_t<Xs> associative_scan(F&& f, const Xs& xs, const AssociativeScanOptions& options = {}) {
  const Flattened flat = flatten(xs, "xs");
  const auto combine = [&](const std::vector<at::Tensor>& earlier, const std::vector<at::Tensor>& later) {
    const Xs a = unflatten(xs, earlier, "xs");
    const Xs b = unflatten(xs, later, "xs");
    return detail::combined_tensors(flat.spec, f(a, b));
  };
  return unflatten(xs, detail::associative_scan_flat(combine, flat.tensors, flat.spec.tensor_paths(), options), "xs");
}

}  // namespace diptych
