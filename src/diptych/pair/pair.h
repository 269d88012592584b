// dp::capture: the graphs of a function alone, to be read, saved, or used in building other operators.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/arguments.h"
#include "diptych/compile/options.h"
#include "diptych/interpreter/lazy_program.h"
#include "diptych/tree/signature.h"

namespace diptych {
namespace detail {
class HostReads;
}

/// The two panels of a function: its forward graph (arguments, free variables) -> (outputs, new values of mutated
/// inputs, residuals) and its backward graph (residuals, tangents) -> (one gradient per forward input, none where
/// nothing flows). Slots are never reordered: see signature. Copies share everything.
struct Pair {
  Graph forward;
  Graph backward;
  Signature signature;
  std::vector<at::Tensor> free_variables;  ///< the captured tensors, in slot order
  Split split;                             ///< what the partitioner did; see explain()
  /// What backwards that the user has written read when they were traced: see Note [What a backward reads].
  std::vector<std::shared_ptr<const detail::HostReads>> host_reads;

  /// What forward_call returns.
  struct ForwardResult {
    std::vector<at::Tensor> outputs;  ///< the user's outputs, then new values of mutated inputs
    std::vector<at::Tensor> residuals;
  };
  /// Runs the forward graph on plain values: without autograd, and without mutating anything. `arguments` are the
  /// flattened arguments, optionally followed by values for the free variables.
  /// Errors: UserError for a wrong number of arguments.
  ForwardResult forward_call(std::vector<at::Tensor> arguments) const;
  /// Runs the backward graph: one tangent per differentiable output, in order. Returns one gradient per forward input.
  /// Errors: UserError for a wrong number of residuals or tangents, or an undefined tangent.
  std::vector<at::Tensor> backward_call(std::vector<at::Tensor> residuals,
                                        const std::vector<at::Tensor>& tangents) const;

  std::string code() const;     ///< both graphs as text
  std::string table() const;    ///< both graphs as tables
  std::string html() const;     ///< one page that draws the pair; needs no network
  std::string explain() const;  ///< the residuals, their bytes, which nodes made them and which read them

  LazyProgram forward_program;
  LazyProgram backward_program;
};

namespace detail {
/// Captures a flat function. See capture().
Pair capture_flat(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                  const std::vector<std::string>& paths, const AotOptions& options);
}  // namespace detail

/// Captures `function` on `arguments` and returns its pair. Nothing is run and no argument changes.
/// Errors: UserError that names what a graph can't hold; UserError for an input whose shape the function changes in
/// place (t_(), unsqueeze_()), or that it detaches and changes, for which a pair has no slot; whatever the function
/// itself throws.
template <class F, class... A>
Pair capture_with(const AotOptions& options, F&& function, A&&... arguments) {
  using Result = std::decay_t<decltype(function(std::declval<std::remove_cvref_t<A>&>()...))>;
  static_assert(!std::is_void_v<Result>,
                "The function returns nothing; a captured function must return at least one tensor.");
  const Flattened flat = detail::flatten_arguments(options.argument_names, arguments...);
  detail::check_plain("capture", flat);
  std::shared_ptr<Result> example;
  return detail::capture_flat(detail::make_flat<Result>(function, example, arguments...), flat.tensors,
                              flat.spec.tensor_paths(), options);
}

/// Is capture_with() with default options.
template <class F, class... A>
Pair capture(F&& function, A&&... arguments) {
  return capture_with(AotOptions{.name = "capture"}, std::forward<F>(function), std::forward<A>(arguments)...);
}

}  // namespace diptych
