#include "diptych/hops/cond/cond.h"

#include "diptych/base/check.h"
#include "diptych/hops/call.h"
#include "diptych/hops/cond/cond_operator.h"
#include "diptych/hops/eager_loops.h"
#include "diptych/hops/loop_body.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/truth.h"
#include "diptych/trace/placeholder.h"

namespace diptych::detail {
namespace {

/// A branch is the body of a loop of one step, which carries nothing but what the functions change in place.
class Branches {
 public:
  Branches(const FlatFunction& if_true, const FlatFunction& if_false, const Flattened& arguments)
      : arguments_(arguments), inputs_(inputs_of_call("cond", arguments)) {
    const LoopBody yes = capture(if_true, "true");
    no_ = capture(if_false, "false");
    const bool knew_all = yes.buffers.size() == no_.buffers.size() && yes.writes.size() == no_.writes.size();
    yes_ = knew_all ? yes : capture(if_true, "true");
    check_results();
  }

  std::vector<at::Tensor> call_on(const at::Tensor& predicate) const {
    std::vector<at::Tensor> operands = no_.operands(arguments_.tensors, 0);
    const size_t num_arguments = no_.buffers.size() + arguments_.tensors.size();
    const auto& free = yes_.body->free_variables();
    operands.insert(operands.begin() + static_cast<int64_t>(num_arguments), free.begin(), free.end());
    operands.insert(operands.begin(), truth_of(predicate));
    const auto hop = make_hop(BranchOperator::cond(), {yes_.body, no_.body},
                              {1, num_arguments, free.size(), no_.body->free_variables().size()});
    auto results = no_.write_buffers(call(hop, std::move(operands)), 0);
    return write_arguments(no_.writes, arguments_.tensors, 0, std::move(results));
  }

 private:
  // What one function changes in place is a result of the other one, too.
  LoopBody capture(const FlatFunction& function, const char* name) {
    inputs_.name = name;
    LoopBody body = capture_loop_body("cond", function, {}, inputs_);
    inputs_.buffers = body.buffers;
    inputs_.writes = body.writes;
    inputs_.seen_buffers = body.seen_buffers;
    return body;
  }

  static std::vector<TensorMeta> results_of(const LoopBody& branch) {
    std::vector<TensorMeta> metas;
    const size_t end = branch.body->num_results() - branch.writes.size();
    for (size_t i = branch.buffers.size(); i < end; ++i) metas.push_back(branch.body->result(i));
    return metas;
  }

  void check_results() const {
    std::vector<std::string> paths;
    for (const Slot& slot : yes_.body->graph()->output_slots()) paths.push_back(slot.path);
    paths.erase(paths.begin(), paths.begin() + static_cast<int64_t>(yes_.buffers.size()));
    check_branches_agree(results_of(yes_), results_of(no_), paths);
  }

  const Flattened& arguments_;
  LoopInputs inputs_;
  LoopBody yes_, no_;
};

std::vector<at::Tensor> captured_cond(const at::Tensor& predicate, const FlatFunction& if_true,
                                      const FlatFunction& if_false, const Flattened& arguments) {
  return Branches(if_true, if_false, arguments).call_on(predicate);
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
