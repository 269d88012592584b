#include "diptych/transforms/jvp.h"

#include <ATen/functorch/Interpreter.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <mutex>

#include "diptych/base/check.h"
#include "diptych/trace/levels.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

// torch's level of forward mode belongs to the process: it is entered by the outermost jvp of one thread at a time.
class ForwardMode {
 public:
  ForwardMode() {
    if (depth_++ > 0) return;
    mutex().lock();
    try {
      level_ = torch::autograd::ForwardADLevel::get_next_idx();
      DIPTYCH_CHECK(level_ == 0,
                    "[jvp] another thread, or the host language, is inside of a level of forward mode, expected none; "
                    "end that level first");
    } catch (...) {
      leave();
      throw;
    }
  }
  ~ForwardMode() { leave(); }
  ForwardMode(const ForwardMode&) = delete;
  ForwardMode& operator=(const ForwardMode&) = delete;

 private:
  static std::mutex& mutex() {
    static auto* const mutex = new std::mutex;
    return *mutex;
  }
  void leave() {
    if (--depth_ > 0) return;
    if (level_) torch::autograd::ForwardADLevel::release_idx(*level_);
    mutex().unlock();
  }

  static thread_local int depth_;
  std::optional<uint64_t> level_;
};

thread_local int ForwardMode::depth_ = 0;

void check_tangents(const Flattened& primals, const Flattened& tangents) {
  const auto difference = first_difference(primals.spec, tangents.spec);
  DIPTYCH_CHECK(!difference, "[jvp] the tangents have another structure than the primals: {}; pass a tree like them",
                *difference);
  for (size_t i = 0; i < primals.tensors.size(); ++i) {
    const at::Tensor& primal = primals.tensors[i];
    const at::Tensor& tangent = tangents.tensors[i];
    DIPTYCH_CHECK(primal.defined() && tangent.defined() && primal.sizes() == tangent.sizes() &&
                      primal.scalar_type() == tangent.scalar_type(),
                  "[jvp] '{}' does not look like its tangent; pass one of the same sizes and dtype",
                  primals.spec.tensor_path(i));
  }
}

}  // namespace

std::pair<Tensors, Tensors> jvp_flat(const FlatFunction& function, const Flattened& primals,
                                     const Flattened& tangents) {
  check_tangents(primals, tangents);
  const ForwardMode mode;
  Tensors results, found;
  {
    const InnerLevel level(at::functorch::TransformType::Jvp);
    Tensors duals;
    for (size_t i = 0; i < primals.tensors.size(); ++i) {
      const at::Tensor primal = wrap(primals.tensors[i], level.level());
      const bool is_differentiable = primal.is_floating_point() || primal.is_complex();
      duals.push_back(is_differentiable ? at::_make_dual(primal, wrap(tangents.tensors[i], level.level()), 0) : primal);
    }
    for (const at::Tensor& result : function(duals).tensors) {
      const auto [primal, tangent] = at::_unpack_dual(result, 0);
      results.push_back(unwrap(primal, level.level()).value);
      found.push_back(unwrap(tangent, level.level()).value);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!found[i].defined()) found[i] = at::zeros_like(results[i]);
  }
  return {std::move(results), std::move(found)};
}

}  // namespace diptych::detail
