#include "diptych/hops/cond/cond.h"

#include "diptych/base/error.h"
#include "diptych/hops/call.h"
#include "diptych/hops/cond/cond_operator.h"
#include "diptych/hops/eager_loops.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/truth.h"
#include "diptych/trace/placeholder.h"

namespace diptych::detail {
namespace {

std::shared_ptr<const Body> capture_branch(const FlatFunction& function, const Flattened& arguments, const char* name) {
  std::vector<at::Tensor> placeholders;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    DIPTYCH_CHECK(arguments.tensors[i].defined(),
                  "[cond] '{}' is an undefined tensor; pass a defined one, or an absent optional",
                  arguments.spec.tensor_path(i));
    placeholders.push_back(make_placeholder(meta_of_argument(arguments.tensors[i])));
  }
  auto body = std::make_shared<const Body>(function, placeholders, arguments.spec.tensor_paths(), name);
  for (const auto& mutation : body->mutations()) {
    throw UserError(fmt::format(
        "[cond] the {} function changes '{}' in place; use an out-of-place operator, and return the new value", name,
        body->graph()->input_slots()[mutation.primal].path));
  }
  return body;
}

std::vector<TensorMeta> results_of_branch(const Body& body) {
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < body.num_results(); ++i) metas.push_back(body.result(i));
  return metas;
}

void check_results(const Body& yes, const Body& no) {
  std::vector<std::string> paths;
  for (const Slot& slot : yes.graph()->output_slots()) paths.push_back(slot.path);
  check_branches_agree(results_of_branch(yes), results_of_branch(no), paths);
}

std::vector<at::Tensor> captured_cond(const at::Tensor& predicate, const FlatFunction& if_true,
                                      const FlatFunction& if_false, const Flattened& arguments) {
  const auto yes = capture_branch(if_true, arguments, "true");
  const auto no = capture_branch(if_false, arguments, "false");
  check_results(*yes, *no);
  std::vector<at::Tensor> operands{truth_of(predicate)};
  operands.insert(operands.end(), arguments.tensors.begin(), arguments.tensors.end());
  std::vector<size_t> groups{1, arguments.tensors.size()};
  for (const auto& body : {yes, no}) {
    groups.push_back(body->free_variables().size());
    operands.insert(operands.end(), body->free_variables().begin(), body->free_variables().end());
  }
  return call(make_hop(BranchOperator::cond(), {yes, no}, std::move(groups)), std::move(operands));
}

}  // namespace

void check_branches_agree(const std::vector<TensorMeta>& yes, const std::vector<TensorMeta>& no,
                          const std::vector<std::string>& paths) {
  DIPTYCH_CHECK(yes.size() == no.size(),
                "[cond] the true function returns {} tensors, the false function {}; return the same structure",
                yes.size(), no.size());
  for (size_t i = 0; i < yes.size(); ++i) {
    const TensorMeta& a = yes[i];
    const TensorMeta& b = no[i];
    DIPTYCH_CHECK(a.dtype == b.dtype && a.sizes == b.sizes && a.device == b.device,
                  "[cond] '{}' is {} in the true function's result, {} in the false function's; return tensors of the "
                  "same sizes, dtype and device",
                  paths[i], type_string(contiguous(a)), type_string(contiguous(b)));
  }
}

std::vector<at::Tensor> cond_flat(const at::Tensor& predicate, const FlatFunction& if_true,
                                  const FlatFunction& if_false, const Flattened& arguments) {
  DIPTYCH_CHECK(predicate.defined() && predicate.numel() == 1,
                "[cond] the predicate is {}, expected one element; compare, or reduce with any() or all()",
                predicate.defined() ? type_string(logical_meta(predicate)) : "an undefined tensor");
  const Flattened chooser = flatten(predicate, "predicate");
  return captured_or_eager(
      "cond", {&chooser, &arguments}, [&] { return captured_cond(predicate, if_true, if_false, arguments); },
      [&] { return cond_in_eager(predicate, if_true, if_false, arguments); });
}

}  // namespace diptych::detail
