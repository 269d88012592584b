// Hooks of C++ that a captured backward takes into its graph.
#pragma once
#include <ATen/core/Tensor.h>

#include <type_traits>
#include <utility>
#include <vector>

namespace diptych {

namespace detail {

/// A hook that register_hook() has registered: what it computes follows from its code and the tensors that it reads.
class ComputingHook {
 public:
  using Compute = at::Tensor (*)(const at::Tensor& gradient, const std::vector<at::Tensor>& read);
  ComputingHook(Compute compute, std::vector<at::Tensor> read) : compute_(compute), read_(std::move(read)) {}

  at::TensorBase operator()(const at::TensorBase& gradient) const;
  /// Returns the new gradient, given the tensors in the place of those that it reads. Errors: UserError if it has other
  /// sizes or another dtype than the gradient, or if the hook has written to that.
  at::Tensor compute(const at::Tensor& gradient, const std::vector<at::Tensor>& read) const;
  const std::vector<at::Tensor>& read() const { return read_; }
  /// Whether it computes the same as another one.
  bool operator==(const ComputingHook& other) const;

 private:
  Compute compute_;
  std::vector<at::Tensor> read_;
};

unsigned add_computing_hook(const at::Tensor& tensor, ComputingHook::Compute compute, std::vector<at::Tensor> read);

template <class F, size_t... i>
at::Tensor compute_with(const at::Tensor& gradient, const std::vector<at::Tensor>& read, std::index_sequence<i...>) {
  return F()(gradient, read[i]...);
}

}  // namespace detail

/// Registers a hook on the gradient of `tensor`, as Tensor::register_hook does, that only computes: `f(gradient,
/// read...)` returns the gradient that takes its place, of the same sizes and dtype, and does nothing else. So a
/// BackwardCapture takes it into its graph, where a hook of Tensor::register_hook is called in each pass. `f` is a
/// lambda that captures nothing, and is given what it needs: `read` are tensors, and a pass with other ones is captured
/// anew. Returns its number, by which Tensor::remove_hook removes it.
/// Errors: those of Tensor::register_hook; in a backward UserError for a gradient of other sizes or another dtype, and
/// where the hook writes to the gradient that it is given.
///
///   dp::register_hook(weight, [](const at::Tensor& g, const at::Tensor& mask) { return g * mask; }, mask);
template <class F, class... Read>
unsigned register_hook(const at::Tensor& tensor, F /*f*/, const Read&... read) {
  static_assert(std::is_empty_v<F> && std::is_default_constructible_v<F>,
                "register_hook: the hook has a state, expected a lambda that captures nothing; pass the tensors that "
                "it reads behind it, or call Tensor::register_hook");
  return detail::add_computing_hook(tensor,
                                    [](const at::Tensor& gradient, const std::vector<at::Tensor>& given) {
                                      return detail::compute_with<F>(gradient, given,
                                                                     std::index_sequence_for<Read...>());
                                    },
                                    {read...});
}

}  // namespace diptych
