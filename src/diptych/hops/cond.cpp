#include "diptych/hops/cond.h"

#include "diptych/base/error.h"
#include "diptych/hops/branch_operator.h"
#include "diptych/hops/strides.h"
#include "diptych/trace/placeholder.h"

namespace diptych::detail {
namespace {

std::shared_ptr<const Body> capture_branch(const FlatFunction& function, const Flattened& arguments, const char* name) {
  std::vector<at::Tensor> placeholders;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    DIPTYCH_CHECK(arguments.tensors[i].defined(),
                  "[cond] '{}' is an undefined tensor; pass a defined one, or an absent optional",
                  arguments.spec.tensor_path(i));
    placeholders.push_back(make_placeholder(TensorMeta::of(arguments.tensors[i])));
  }
  auto body = std::make_shared<const Body>(function, placeholders, arguments.spec.tensor_paths(), name);
  for (const auto& mutation : body->mutations()) {
    throw UserError(fmt::format(
        "[cond] the {} function changes '{}' in place; use an out-of-place operator, and return the new value", name,
        body->graph()->input_slots()[mutation.primal].path));
  }
  return body;
}

void check_results(const Body& yes, const Body& no) {
  DIPTYCH_CHECK(yes.num_results() == no.num_results(),
                "[cond] the true function returns {} tensors, the false function {}; return the same structure",
                yes.num_results(), no.num_results());
  for (size_t i = 0; i < yes.num_results(); ++i) {
    const TensorMeta& a = yes.result(i);
    const TensorMeta& b = no.result(i);
    DIPTYCH_CHECK(a.dtype == b.dtype && a.sizes == b.sizes && a.device == b.device,
                  "[cond] '{}' is {} from the true function, {} from the false one; return tensors of the same sizes, "
                  "dtype and device",
                  yes.graph()->output_slots()[i].path, type_string(contiguous(a)), type_string(contiguous(b)));
  }
}

}  // namespace

std::vector<at::Tensor> cond_flat(const at::Tensor& predicate, const FlatFunction& if_true,
                                  const FlatFunction& if_false, const Flattened& arguments) {
  DIPTYCH_CHECK(predicate.defined() && predicate.numel() == 1 && predicate.scalar_type() == at::kBool,
                "[cond] the predicate is {}, expected one element of dtype b8; compare, or reduce with any() or all()",
                predicate.defined() ? type_string(TensorMeta::of(predicate)) : "an undefined tensor");
  const auto yes = capture_branch(if_true, arguments, "true");
  const auto no = capture_branch(if_false, arguments, "false");
  check_results(*yes, *no);
  std::vector<at::Tensor> operands{predicate};
  operands.insert(operands.end(), arguments.tensors.begin(), arguments.tensors.end());
  std::vector<size_t> groups{1, arguments.tensors.size()};
  for (const auto& body : {yes, no}) {
    groups.push_back(body->free_variables().size());
    operands.insert(operands.end(), body->free_variables().begin(), body->free_variables().end());
  }
  const auto hop =
      std::make_shared<const Hop>(BranchOperator::cond(), std::vector<std::shared_ptr<const Body>>{yes, no},
                                  std::move(groups), std::vector<c10::IValue>{});
  return call(hop, std::move(operands));
}

}  // namespace diptych::detail
