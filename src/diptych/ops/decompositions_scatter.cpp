// Writing a slice into a copy: functionalization makes these nodes from in-place writes. Autograd refuses them for
// complex numbers, for which a copy by index replaces them. For other numbers the operator's own kernel is simpler.
#include "diptych/ops/decompositions.h"

namespace diptych::detail {
namespace {

bool is_known_to_autograd(const Call& call) { return !c10::isComplexType(call.tensor(0).meta().dtype); }

int64_t within(int64_t index, int64_t size) { return std::clamp(index < 0 ? index + size : index, int64_t{0}, size); }

std::vector<Value> copy_at(const Call& call, int64_t dim, int64_t start, int64_t step, Expr source) {
  const Expr self = call.tensor(0);
  const int64_t stop = start + step * source.size(dim);
  const Value index = call.emitter().call(
      "aten.arange.start_step", {c10::IValue(start), c10::IValue(stop), c10::IValue(step), c10::IValue(at::kLong),
                                 c10::IValue(), c10::IValue(self.meta().device), c10::IValue()});
  return {self.apply("aten.index_copy", {c10::IValue(dim), index, source.value}).value};
}

std::vector<Value> slice_scatter(const Call& call) {
  if (is_known_to_autograd(call) || call.tensor(0).rank() == 0) return {};
  const int64_t dim = call.integer(2);
  const int64_t start = call.constant(3).isNone() ? 0 : within(call.integer(3), call.tensor(0).size(dim));
  return copy_at(call, dim, start, call.integer(5), call.tensor(1));
}

std::vector<Value> select_scatter(const Call& call) {
  if (is_known_to_autograd(call)) return {};
  const int64_t dim = call.integer(2), index = call.integer(3);
  const int64_t start = index < 0 ? index + call.tensor(0).size(dim) : index;
  return copy_at(call, dim, start, 1, call.tensor(1).apply("aten.unsqueeze", {c10::IValue(dim)}));
}

}  // namespace

std::vector<Decomposition> scatter_decompositions() {
  return {
      {"aten.select_scatter", "scatter", select_scatter},
      {"aten.slice_scatter", "scatter", slice_scatter},
  };
}

}  // namespace diptych::detail
