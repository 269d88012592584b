// dp::vmap: a function of one element as a function of batches.
#pragma once
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "diptych/hops/flat_function.h"
#include "diptych/trace/levels.h"
#include "diptych/transforms/mapped_leaves.h"

namespace diptych {

/// What random operators do inside of vmap().
enum class Randomness : uint8_t {
  kError,      ///< they are refused
  kSame,       ///< all elements get the same numbers
  kDifferent,  ///< each element gets numbers of its own
};

/// Options of vmap().
struct VmapOptions {
  /// Per argument, the dimension of each of its tensors that counts the elements; nullopt for an argument that is the
  /// same for all. Negative ones count from the last. Empty: 0 for every argument. Tensors of modules are never
  /// batched.
  std::vector<std::optional<int64_t>> in_dims = {};
  /// The dimension of each tensor of the result that counts the elements: one for all, or one per tensor.
  std::vector<int64_t> out_dims = {0};
  Randomness randomness = Randomness::kError;
};

namespace detail {

/// vmap() on flat tensors. Errors: as vmap().
std::vector<at::Tensor> vmap_flat(const FlatFunction& function, const std::vector<MappedLeaf>& leaves,
                                  const VmapOptions& options);

/// Checks the number of in_dims. Errors: UserError.
void check_in_dims(const VmapOptions& options, size_t num_arguments);

}  // namespace detail

/// A function that vmap() returned.
template <class F>
class Vmap {
 public:
  Vmap(F function, VmapOptions options) : function_(std::move(function)), options_(std::move(options)) {}

  template <class... A>
  auto operator()(const A&... arguments) const {
    using Result = std::decay_t<decltype(function_(arguments...))>;
    detail::check_in_dims(options_, sizeof...(A));
    std::vector<detail::MappedLeaf> leaves;
    size_t index = 0;
    const auto add = [&](const auto& argument) {
      detail::MappedLeaves found;
      found.dim = options_.in_dims.empty() ? std::optional<int64_t>(0) : options_.in_dims[index];
      visit_leaves(argument, Path("arg" + std::to_string(index++)), found);
      leaves.insert(leaves.end(), found.leaves.begin(), found.leaves.end());
    };
    (add(arguments), ...);
    std::shared_ptr<Result> example;
    const auto flat = detail::make_flat<Result>(function_, example, arguments...);
    auto tensors = detail::vmap_flat(flat, leaves, options_);
    return detail::make_result(*example, std::move(tensors));
  }

 private:
  F function_;
  VmapOptions options_;
};

/// Returns the function that applies `function` to each element of its arguments and stacks the results: by ATen's
/// batching rules, and by rules of its own for compiled functions and higher-order operators, not in a loop. Transforms
/// compose with each other to any depth, inside captures and outside; aot_function(vmap(grad(f))) is one graph.
///
///   auto per_sample = dp::aot_function(dp::vmap(dp::grad(loss), {.in_dims = {std::nullopt, 0, 0}}));
///
/// Shapes: a tensor [..., B at its in_dim, ...] is [...] in `function`; a result [...] becomes [..., B at out_dim,
/// ...]. Errors: UserError for in_dims or out_dims that don't fit, batches of different sizes, and no batch at all;
/// torch's for an operator that has no meaning for a batch, such as item(), and for random ones as `randomness` says.
/// Source: jax.vmap; torch.func.vmap.
template <class F>
Vmap<std::decay_t<F>> vmap(F&& function, VmapOptions options = {}) {
  return {std::forward<F>(function), std::move(options)};
}

}  // namespace diptych
