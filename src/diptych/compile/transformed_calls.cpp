#include "diptych/compile/transformed_calls.h"

#include <algorithm>
#include <mutex>

#include "diptych/base/error.h"
#include "diptych/base/list.h"
#include "diptych/compile/compiled_operator.h"
#include "diptych/compile/output_aliases.h"
#include "diptych/hops/call.h"
#include "diptych/hops/transformed_call.h"

namespace diptych::detail {
namespace {

// Of each argument as the function sees it, and then which arguments are one tensor, in the sizes of one more.
std::vector<TensorMeta> metas_of(const Flattened& arguments) {
  std::vector<TensorMeta> metas;
  TensorMeta same_as;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const at::Tensor& tensor = arguments.tensors[i];
    DIPTYCH_CHECK(tensor.defined(),
                  "[aot] '{}' is an undefined tensor in a call inside of a transform; pass a defined one, or an absent "
                  "optional",
                  arguments.spec.tensor_path(i));
    metas.push_back(meta_of_argument(tensor));
    const auto first = std::find_if(arguments.tensors.begin(), arguments.tensors.end(),
                                    [&](const at::Tensor& other) { return other.is_same(tensor); });
    same_as.sizes.emplace_back(first - arguments.tensors.begin());
  }
  metas.push_back(std::move(same_as));
  return metas;
}

void check_pure(const Body& body) {
  DIPTYCH_CHECK(body.mutations().empty(),
                "[aot] the function changes '{}' in place, which a graph can't do inside of a transform",
                body.graph()->input_slots()[body.mutations().front().primal].path);
  for (const OutputAlias& alias : find_aliases(*body.graph(), body.num_results())) {
    throw UserError(
        fmt::format("[aot] the function returns '{}', which shares memory with an argument or another "
                    "result, and a graph can't return a view inside of a transform",
                    body.graph()->output_slots()[alias.output].path));
  }
}

}  // namespace

std::shared_ptr<const TransformedCalls::Entry> TransformedCalls::find(const Flattened& arguments,
                                                                      const std::type_info& result_type) const {
  const auto wanted = describe(arguments);
  const std::shared_lock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return *entry->result_type == result_type && entry->state == wanted->state && entry->metas == wanted->metas &&
           entry->spec == wanted->spec;
  });
  return found == entries_.end() ? nullptr : *found;
}

std::shared_ptr<TransformedCalls::Entry> TransformedCalls::describe(const Flattened& arguments) {
  return std::make_shared<Entry>(Entry{arguments.spec, GlobalState::current(), metas_of(arguments)});
}

std::shared_ptr<TransformedCalls::Entry> TransformedCalls::make(const Flattened& arguments,
                                                                const FlatFunction& function,
                                                                const AotOptions& options) {
  auto entry = describe(arguments);
  // The arguments themselves: a module's tensors are known by identity, and some arguments may be one tensor.
  const auto body =
      std::make_shared<const Body>(function, arguments.tensors, arguments.spec.tensor_paths(), options.name);
  check_pure(*body);
  entry->free_variables = body->free_variables();
  entry->is_kept = std::none_of(entry->free_variables.begin(), entry->free_variables.end(),
                                [](const at::Tensor& tensor) { return transform_of(tensor).has_value(); });
  entry->hop = make_hop(CompiledOperator::get(), {body}, {arguments.tensors.size(), entry->free_variables.size()},
                        {{"compiler", compiler_number(options)}});
  return entry;
}

void TransformedCalls::insert(std::shared_ptr<const Entry> entry) {
  const std::unique_lock lock(mutex_);
  entries_.insert(entries_.begin(), std::move(entry));
  if (entries_.size() > kLimit) entries_.pop_back();
}

std::vector<at::Tensor> TransformedCalls::call(const Entry& entry, const Flattened& arguments) {
  return diptych::call(entry.hop, joined(arguments.tensors, entry.free_variables));
}

void TransformedCalls::clear() {
  const std::unique_lock lock(mutex_);
  entries_.clear();
}

}  // namespace diptych::detail
