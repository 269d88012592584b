#include "diptych/trace/unexpand.h"

#include <utility>

namespace diptych::detail {
namespace {

class Unexpand final : public at::functionalization::ViewMeta {
 public:
  explicit Unexpand(ViewStep expand) : ViewMeta(expand->has_symbolic_inputs), expand_(std::move(expand)) {}

  at::Tensor forward(const at::Tensor& base) override { return expand_->forward(base); }
  // Where nothing repeats, expand() has only put dimensions of one in front.
  at::Tensor reverse(const at::Tensor& base, const at::Tensor& mutated_view) override {
    at::Tensor found = mutated_view;
    while (found.dim() > base.dim()) found = found.squeeze(0);
    return found;
  }

 private:
  ViewStep expand_;
};

}  // namespace

// The list is the wrapper's own, and is shared with no other tensor.
void write_back_by_element(const at::Tensor& view) {
  auto& steps = const_cast<std::vector<ViewStep>&>(steps_of(view));
  steps.back() = std::make_shared<Unexpand>(std::move(steps.back()));
}

}  // namespace diptych::detail
