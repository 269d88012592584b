#include "diptych/hops/custom_vjp/custom_vjp.h"

#include <c10/core/AutogradState.h>

#include <algorithm>

#include "diptych/autodiff/batched_tangents.h"
#include "diptych/base/check.h"
#include "diptych/hops/call.h"
#include "diptych/hops/custom_vjp/custom_vjp_operator.h"
#include "diptych/hops/strides.h"
#include "diptych/trace/placeholder.h"

namespace diptych::detail {
namespace {

void check_pure(const Body& body, const char* name) {
  for (const auto& mutation : body.mutations()) {
    throw UserError(
        fmt::format("[custom_vjp] {} changes '{}' in place; use an out-of-place operator, or clone it first", name,
                    body.graph()->input_slots()[mutation.primal].path));
  }
}

std::shared_ptr<const Body> capture_fwd(const FlatRules& rules, const Flattened& arguments) {
  std::vector<at::Tensor> placeholders;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    DIPTYCH_CHECK(arguments.tensors[i].defined(),
                  "[custom_vjp] '{}' is an undefined tensor; pass a defined one, or an absent optional",
                  arguments.spec.tensor_path(i));
    placeholders.push_back(make_placeholder(meta_of_argument(arguments.tensors[i])));
  }
  auto body = std::make_shared<const Body>(rules.fwd, placeholders, arguments.spec.tensor_paths(), "fwd");
  check_pure(*body, "fwd");
  return body;
}

// Captures bwd. Undefined gradients are left out of its results; `has_gradient` says which are defined.
std::shared_ptr<const Body> capture_bwd(const FlatRules& rules, const Body& fwd, std::vector<bool>& has_gradient) {
  std::vector<at::Tensor> placeholders;
  std::vector<std::string> paths;
  const size_t num_results = rules.num_results();
  const auto add = [&](TensorMeta meta, std::string path) {
    meta.requires_grad = c10::isFloatingType(meta.dtype) || c10::isComplexType(meta.dtype);
    placeholders.push_back(make_placeholder(meta));
    paths.push_back(std::move(path));
  };
  for (size_t i = num_results; i < fwd.num_results(); ++i) {
    add(fwd.result(i), fmt::format("residual.{}", i - num_results));
  }
  for (size_t i = 0; i < num_results; ++i) add(contiguous(fwd.result(i)), fmt::format("tangent.{}", i));
  const auto defined_gradients = [&](const std::vector<at::Tensor>& given) {
    const FlatResult all = rules.bwd(given);
    FlatResult found;
    has_gradient.clear();
    for (size_t i = 0; i < all.tensors.size(); ++i) {
      has_gradient.push_back(all.tensors[i].defined());
      if (!has_gradient.back()) continue;
      found.tensors.push_back(all.tensors[i]);
      found.paths.push_back(all.paths[i]);
    }
    return found;
  };
  auto body = std::make_shared<const Body>(defined_gradients, placeholders, paths, "bwd");
  check_pure(*body, "bwd");
  return body;
}

void check_gradients(const Body& bwd, const std::vector<bool>& has_gradient, const Flattened& arguments) {
  DIPTYCH_CHECK(has_gradient.size() == arguments.tensors.size(),
                "[custom_vjp] bwd returns {} gradients, expected one for each of the {} tensors of the arguments; "
                "return trees like the arguments",
                has_gradient.size(), arguments.tensors.size());
  size_t next = 0;
  for (size_t i = 0; i < has_gradient.size(); ++i) {
    if (!has_gradient[i]) continue;
    const TensorMeta& got = bwd.result(next++);
    const TensorMeta wanted = meta_of_argument(arguments.tensors[i]);
    DIPTYCH_CHECK(got.sizes == wanted.sizes && got.dtype == wanted.dtype,
                  "[custom_vjp] bwd returns {} as the gradient of '{}', expected {}; sum over broadcast dimensions, "
                  "and convert the dtype",
                  type_string(contiguous(got)), arguments.spec.tensor_path(i), type_string(contiguous(wanted)));
  }
}

}  // namespace

bool is_differentiated(const std::vector<at::Tensor>& tensors) {
  return (c10::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), requires_grad_inside)) ||
         (c10::AutogradState::get_tls_state().get_fw_grad_mode() &&
          std::any_of(tensors.begin(), tensors.end(), has_tangent_inside));
}

std::optional<std::string> why_no_rule(const Flattened& arguments) {
  return is_differentiated(arguments.tensors) ? why_eager({&arguments}) : std::nullopt;
}

std::vector<at::Tensor> custom_vjp_flat(const FlatRules& rules, const Flattened& arguments) {
  const auto why = why_no_rule(arguments);
  DIPTYCH_CHECK(!why,
                "[custom_vjp] {}, and derivatives are taken, which must follow the rule; pass plain tensors, or call "
                "the function itself",
                why.value_or(""));
  const auto fwd = capture_fwd(rules, arguments);
  std::vector<bool> has_gradient;
  const auto bwd = capture_bwd(rules, *fwd, has_gradient);
  check_gradients(*bwd, has_gradient, arguments);
  std::vector<at::Tensor> operands = arguments.tensors;
  for (const auto& body : {fwd, bwd}) {
    operands.insert(operands.end(), body->free_variables().begin(), body->free_variables().end());
  }
  const auto hop = make_hop(
      CustomVjpOperator::get(), {fwd, bwd},
      {arguments.tensors.size(), fwd->free_variables().size(), bwd->free_variables().size()},
      {{"num_results", static_cast<int64_t>(rules.num_results())}, {"has_gradient", flags_attribute(has_gradient)}});
  return call(hop, std::move(operands));
}

}  // namespace diptych::detail
