#include "diptych/compile/transformed_calls.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "diptych/autodiff/generator_states.h"
#include "diptych/base/check.h"
#include "diptych/base/list.h"
#include "diptych/compile/compiled_operator.h"
#include "diptych/compile/output_aliases.h"
#include "diptych/hops/call.h"
#include "diptych/hops/transformed_call.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/levels.h"
#include "diptych/trace/outer_levels.h"
#include "diptych/trace/own_history.h"
#include "diptych/trace/recorder.h"

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

// Whether two captures differ at most in the answers to what they ask. Where values are not known, asking is an error.
bool are_alike(const TransformedCalls::Entry& a, const TransformedCalls::Entry& b) {
  const bool asks_alike = (a.why.empty() && !a.path) || a.has_batch == b.has_batch;
  return asks_alike && *a.result_type == *b.result_type && a.state == b.state && a.metas == b.metas && a.spec == b.spec;
}

// Whether a call is given a tensor that the function captures, which was no argument when it was captured.
bool gets_captured(const TransformedCalls::Entry& entry, const Flattened& arguments) {
  return std::any_of(arguments.tensors.begin(), arguments.tensors.end(), [&](const at::Tensor& argument) {
    return std::any_of(entry.free_variables.begin(), entry.free_variables.end(),
                       [&](const at::Tensor& captured) { return captured.is_same(argument); });
  });
}

bool holds(const TransformedCalls::Entry& entry, const Flattened& arguments, FoundAnswers& answers) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& primal : joined(arguments.tensors, entry.free_variables))
    values.push_back(known_value(primal));
  std::vector<const at::Tensor*> primals;
  for (const at::Tensor& value : values) primals.push_back(&value);
  const NoLevels plain;
  return !entry.path->first_difference(primals, answers);
}

// The graph has to find what the questions find: see CapturedFunction::heed_questions().
AotOptions heed_questions(const Body& body, AotOptions options) {
  DIPTYCH_CHECK(!any_draws(body.questions()),
                "[aot] the function asks for a value that depends on a draw, which a graph can't do inside of a "
                "transform");
  if (sizes_depend_on_rounding(body.questions())) options.backend = "interpreter";
  return options;
}

std::shared_ptr<ValuePath> path_of(const Body& body, const std::vector<at::Tensor>& arguments) {
  if (body.questions().empty()) return nullptr;
  const auto primals = joined(arguments, body.free_variables());
  std::vector<const at::Tensor*> pointers;
  for (const at::Tensor& primal : primals) pointers.push_back(&primal);
  return std::make_shared<ValuePath>(body.questions(), pointers, arguments.size());
}

std::vector<bool> gradients_of(const Body& body) {
  std::vector<bool> requires_grad;
  for (size_t i = 0; i < body.num_inputs(); ++i) requires_grad.push_back(body.input(i).requires_grad);
  return requires_grad;
}

bool is_differentiated(const Body& body) {
  const auto requires_grad = gradients_of(body);
  return std::find(requires_grad.begin(), requires_grad.end(), true) != requires_grad.end();
}

// A derivative of what autograd does not see is known for one order alone, and an outer transform may take another.
void check_history_is_seen(const Body& body) {
  DIPTYCH_CHECK(!body.rewrites_history() || !is_differentiated(body),
                "[aot] the function changes a tensor in place where autograd does not see it, and gradients flow "
                "through it, which a graph can't do inside of a transform");
}

// One that eager refuses, since what it reads was changed, is refused when it is traced.
void check_derivative(const Body& body) {
  check_history_is_seen(body);
  if (is_differentiated(body)) body.pair(gradients_of(body), 0, /*create_graph=*/false);
}

// A result that is another one detached has its memory, and that is no view that autograd knows of.
void check_no_detached_result(const Graph& graph) {
  const auto roots = storage_roots(graph);
  std::vector<bool> is_detached(graph.num_values());
  std::map<Value, size_t> results;  // by root
  for (const Value output : graph.outputs()) {
    if (output) ++results[roots[output.id]];
  }
  for (const Node& node : graph.nodes()) {
    if (!has_tag(node.op, Tag::kSharesStorage)) continue;
    for_each_operand_value(node, [&](Value base) {
      const bool detaches = has_tag(node.op, Tag::kStopsGradient) || is_detached[base.id];
      for (const Value output : node.outputs) is_detached[output.id] = is_detached[output.id] || (output && detaches);
    });
  }
  for (const Value output : graph.outputs()) {
    DIPTYCH_CHECK(!output || !is_detached[output.id] || results[roots[output.id]] == 1,
                  "[aot] the function returns a tensor and what detach() makes of it, which a graph can't do inside of "
                  "a transform");
  }
}

// Calls `run`, which draws as the entry's graph does. Where that throws, the function itself draws the same again.
template <class Run>
std::vector<at::Tensor> redrawn(const TransformedCalls::Entry& entry, const Run& run) {
  const Body& body = entry.hop->body(0);
  if (!body.draws()) return run();
  std::vector<at::Generator> generators = generators_of(*body.graph());
  const std::vector<at::Tensor> states = save_generator_states(*body.graph());
  try {
    return run();
  } catch (...) {
    for (size_t i = 0; i < generators.size(); ++i) set_state_unseen(generators[i], states[i]);
    throw;
  }
}

bool is_pure(const Body& body) {
  return body.mutations().empty() && find_aliases(*body.graph(), body.num_results()).empty();
}

// Captures the function again, as what it computes and what it does besides: see Note [Effects inside of transforms].
std::shared_ptr<const Body> split_effects(TransformedCalls::Entry& entry, std::shared_ptr<const Body> whole,
                                          const Flattened& arguments, const FlatFunction& function,
                                          const AotOptions& options, bool asks) {
  const auto paths = arguments.spec.tensor_paths();
  std::shared_ptr<CallEffects> effects;
  {
    const JointCapture capture(function, arguments.tensors, paths,
                               {.name = options.name, .answers_questions = asks, .takes_wrapped = true});
    effects = std::make_shared<CallEffects>(capture, arguments.tensors.size());
  }
  if (effects->has_results()) {
    whole = std::make_shared<const Body>(effects->pure(function), arguments.tensors, paths, options.name, asks);
    check_derivative(*whole);
  }
  DIPTYCH_CHECK(effects->has_results() || !whole->draws(),
                "[aot] the function draws random numbers and returns none of them, which a graph can't do inside of a "
                "transform");
  effects->set_free_variables(whole->free_variables());
  entry.effects = std::move(effects);
  return whole;
}

}  // namespace

std::shared_ptr<const TransformedCalls::Entry> TransformedCalls::find(const Flattened& arguments,
                                                                      const std::type_info& result_type,
                                                                      size_t path_limit) const {
  const auto wanted = describe(arguments);
  wanted->result_type = &result_type;
  std::vector<std::shared_ptr<const Entry>> alike;
  {
    const std::shared_lock lock(mutex_);
    const auto is_wanted = [&](const auto& entry) {
      return are_alike(*entry, *wanted) && !gets_captured(*entry, arguments);
    };
    std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(alike), is_wanted);
  }
  FoundAnswers answers;
  size_t num_paths = 0;
  for (const auto& entry : alike) {
    if (!entry->path) return entry;
    if (holds(*entry, arguments, answers)) return entry;
    ++num_paths;
  }
  if (num_paths < std::max<size_t>(path_limit, 1)) return nullptr;
  wanted->why = fmt::format("[aot] the function asks for values in more ways than path_limit={}", path_limit);
  return wanted;
}

std::shared_ptr<TransformedCalls::Entry> TransformedCalls::describe(const Flattened& arguments) {
  auto entry = std::make_shared<Entry>(Entry{arguments.spec, GlobalState::current(), metas_of(arguments)});
  entry->has_batch = std::any_of(arguments.tensors.begin(), arguments.tensors.end(),
                                 [](const at::Tensor& tensor) { return !known_value(tensor).defined(); });
  return entry;
}

std::shared_ptr<TransformedCalls::Entry> TransformedCalls::make(const Flattened& arguments,
                                                                const FlatFunction& function,
                                                                const AotOptions& options) {
  auto entry = describe(arguments);
  // The arguments themselves: a module's tensors are known by identity, and some arguments may be one tensor.
  const bool asks = options.path_limit > 0 && !entry->has_batch;
  bool captures_argument = false;
  const FlatFunction noted = [&](const std::vector<at::Tensor>& stand_ins) {
    const uint64_t reads = data_reads();
    FlatResult result = function(stand_ins);
    DIPTYCH_CHECK(
        data_reads() == reads,
        "[aot] the function reads or writes .data of a tensor, which keeps the history of outer levels, inside "
        "of a transform; use detach()");
    captures_argument |= !Recorder::current()->primal_table().captured_arguments().empty();
    return result;
  };
  auto body = std::make_shared<const Body>(noted, arguments.tensors, arguments.spec.tensor_paths(), options.name, asks);
  check_no_detached_result(*body->graph());
  check_history_is_seen(*body);
  if (!is_pure(*body)) body = split_effects(*entry, std::move(body), arguments, noted, options, asks);
  entry->path = path_of(*body, arguments.tensors);
  entry->free_variables = body->free_variables();
  // An argument that the function captures as well is one input of the body, which it is not in a later call.
  entry->is_kept =
      !captures_argument && std::none_of(entry->free_variables.begin(), entry->free_variables.end(),
                                         [](const at::Tensor& tensor) { return transform_of(tensor).has_value(); });
  if (entry->effects && !entry->effects->has_results()) return entry;
  entry->hop = make_hop(CompiledOperator::get(), {body}, {arguments.tensors.size(), entry->free_variables.size()},
                        {{"compiler", compiler_number(heed_questions(*body, options))}});
  return entry;
}

void TransformedCalls::insert(std::shared_ptr<Entry> entry) {
  const std::unique_lock lock(mutex_);
  for (const auto& other : entries_) {
    if (entry->path && other->path && are_alike(*entry, *other)) entry->path->share(*other->path);
  }
  entries_.insert(entries_.begin(), std::move(entry));
  if (entries_.size() > kLimit) entries_.pop_back();
}

std::vector<at::Tensor> TransformedCalls::call(const Entry& entry, const Flattened& arguments) {
  const auto primals = joined(arguments.tensors, entry.free_variables);
  if (!entry.effects) return redrawn(entry, [&] { return diptych::call(entry.hop, primals); });
  entry.effects->check(primals);
  const auto operands = entry.effects->operands(primals);
  if (!entry.hop) return entry.effects->apply(primals, operands, {});
  return redrawn(entry, [&] { return entry.effects->apply(primals, operands, diptych::call(entry.hop, operands)); });
}

std::vector<at::Tensor> TransformedCalls::written(const Entry& entry, const Flattened& arguments) {
  if (!entry.effects) return {};
  return entry.effects->written(joined(arguments.tensors, entry.free_variables));
}

void TransformedCalls::clear() {
  const std::unique_lock lock(mutex_);
  entries_.clear();
}

}  // namespace diptych::detail
