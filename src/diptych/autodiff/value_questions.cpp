#include "diptych/autodiff/value_questions.h"

#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "diptych/autodiff/generator_states.h"
#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"
#include "diptych/interpreter/evaluate.h"
#include "diptych/interpreter/program.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/fold_constants.h"
#include "diptych/passes/merge_common_nodes.h"
#include "diptych/passes/remove_dead_nodes.h"
#include "diptych/trace/outer_levels.h"

namespace diptych::detail {
namespace {

bool any_draws(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return draws_random(node); });
}

std::vector<Slot> slots_of(size_t count, SlotKind kind, const std::string& name) { return {count, Slot{kind, name}}; }

// Returns the graph that computes `wanted` from `inputs`. If it draws, all draws before the last one take place as
// well, in order, so that each draws what it does in the call.
Graph graph_of(const Graph& source, const std::vector<Value>& inputs, const std::vector<Value>& wanted) {
  const auto slots = slots_of(inputs.size(), SlotKind::kArgument, "input");
  const auto outputs = slots_of(wanted.size(), SlotKind::kOutput, "value");
  Graph graph = extract(source, "question", inputs, slots, wanted, outputs);
  if (!any_draws(graph)) return graph;
  std::vector<size_t> before = random_nodes(source);
  size_t last = 0;
  for (const Value value : wanted) last = std::max(last, static_cast<size_t>(source.info(value).node));
  before.erase(std::upper_bound(before.begin(), before.end(), last), before.end());
  return extract(source, "question", inputs, slots, wanted, outputs, before);
}

// An answer as it is kept, which must hold no memory of the call.
at::Tensor kept(const AskedValue& asked) {
  const at::Tensor& answer = asked.answer;
  if (asked.question != Question::kSizes) return answer.detach().clone();
  return at::detail::empty_strided_meta(answer.sizes(), answer.strides(), answer.scalar_type());
}

// Which inputs of a graph are read, or returned.
std::vector<bool> used_inputs(const Graph& graph) {
  std::set<Value> used(graph.outputs().begin(), graph.outputs().end());
  for (const Node& node : graph.nodes()) for_each_operand_value(node, [&](Value value) { used.insert(value); });
  std::vector<bool> found;
  for (const Value input : graph.inputs()) found.push_back(used.count(input) != 0);
  return found;
}

// The trace's graph, tidied, and what its questions ask for in it. Each is read by a copy of its own, which is an
// output: values that leave a graph are never merged.
struct Tidied {
  Graph graph;
  std::vector<Value> asked;  ///< per question; none if it is known beforehand
};

Tidied tidy(const Recorder& recorder) {
  Graph graph = recorder.graph();
  std::vector<Value> copies;
  std::vector<Slot> slots;
  for (const AskedValue& asked : recorder.asked_values().all()) {
    const TensorMeta meta = graph.meta(asked.value);
    Node copy{Op::find("aten.clone"), {asked.value, c10::IValue()}, {}, {-1}, {}, {}};
    const size_t index = graph.add_node(std::move(copy), {meta});
    copies.push_back(graph.nodes()[index].outputs[0]);
    slots.push_back({SlotKind::kOutput, "asked"});
  }
  graph.set_outputs(std::move(copies), std::move(slots));
  graph = fold_constants(merge_common_nodes(remove_dead_nodes(graph)), evaluate);
  Tidied tidied{graph, {}};
  for (const Value output : graph.outputs()) {
    const Node* copy = graph.producer(output);
    const Value asked = copy == nullptr ? Value{} : std::get<Value>(copy->operands[0]);
    const bool is_known = !asked || graph.info(asked).kind == ValueInfo::Kind::kConstant;
    tidied.asked.push_back(is_known ? Value{} : asked);
  }
  return tidied;
}

// Whether an operator's results may depend on how it rounds: they are floats that are not just moved.
bool may_round(const Graph& graph, const Node& node) {
  constexpr Tag kMoves[] = {Tag::kSharesStorage, Tag::kView, Tag::kCopy, Tag::kGather, Tag::kFactory};
  if (std::any_of(std::begin(kMoves), std::end(kMoves), [&](Tag tag) { return has_tag(node.op, tag); })) return false;
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](Value output) {
    return output && !c10::isIntegralType(graph.meta(output).dtype, /*includeBool=*/true);
  });
}

}  // namespace

bool sizes_depend_on_rounding(const std::vector<ValueQuestion>& questions) {
  return std::any_of(questions.begin(), questions.end(), [](const ValueQuestion& asked) {
    const Graph& graph = asked.graph;
    return asked.question == Question::kSizes && std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                                             [&](const Node& node) { return may_round(graph, node); });
  });
}

bool any_draws(const std::vector<ValueQuestion>& questions) {
  return std::any_of(questions.begin(), questions.end(),
                     [](const ValueQuestion& asked) { return any_draws(asked.graph); });
}

at::Tensor PrefixValues::operator()(Value value) {
  const auto known = known_.find(value);
  if (known != known_.end()) return known->second;
  const PauseTraceGuard real;
  const Graph& graph = recorder_.graph();
  std::vector<Value> inputs;
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < recorder_.primals().size(); ++i) {
    inputs.push_back(graph.inputs()[i]);
    const at::Tensor known = known_value(recorder_.primals()[i].outside());
    DIPTYCH_CHECK(!known.defined() || !at::functionalization::impl::isFunctionalTensor(known),
                  "[aot] the function asks for a value inside of a transform of its own, which a graph can't do inside "
                  "of another transform");
    tensors.push_back(known.defined() ? known.tensor_data() : known);  // an active level would wrap what detach() gives
  }
  for (const auto& [asked, answer] : known_) {
    inputs.push_back(asked);
    tensors.push_back(answer);
  }
  const Graph question = graph_of(graph, inputs, {value});
  const Rewind rewind(generators_of(question));
  const RunBelowAutograd below;
  at::Tensor answer = Program(question, {.is_checked = false}).run(std::move(tensors))[0];
  known_.emplace(value, answer);
  return answer;
}

namespace {

// Which values depend on a draw.
std::vector<bool> drawn_values(const Graph& graph) {
  std::vector<bool> drawn(graph.num_values());
  for (const Node& node : graph.nodes()) {
    bool is_drawn = draws_random(node);
    for_each_operand_value(node, [&](Value value) { is_drawn = is_drawn || drawn[value.id]; });
    if (!is_drawn) continue;
    for (const Value output : node.outputs) {
      if (output) drawn[output.id] = true;
    }
  }
  return drawn;
}

// What an operator of a library costs is unknown.
bool is_costly(const Node& node) {
  const bool may_be = node.op.is_hop() || has_tag(node.op, Tag::kComputeHeavy) || !has_tag(node.op, Tag::kNative);
  return may_be && !has_effect(node);
}

// Cuts the questions out of a trace one after the other.
class QuestionCutter {
 public:
  QuestionCutter(const Tidied& tidied, size_t num_primals)
      : graph_(tidied.graph), drawn_(drawn_values(graph_)), is_known_(graph_.num_values()) {
    for (size_t i = 0; i < num_primals; ++i) add_known(graph_.inputs()[i], {true, i, 0});
  }

  ValueQuestion cut(const AskedValue& asked, Value value) {
    std::vector<Value> wanted = costly_before(value);
    wanted.insert(wanted.begin(), value);
    const Graph whole = graph_of(graph_, known_, wanted);
    ValueQuestion question{Graph(), {}, asked.question, kept(asked), asked.place};
    const auto uses = used_inputs(whole);
    std::vector<Value> used;
    for (size_t i = 0; i < known_.size(); ++i) {
      if (!uses[i]) continue;
      used.push_back(known_[i]);
      question.inputs.push_back(places_[i]);
    }
    question.graph = graph_of(graph_, used, wanted);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!is_known_[wanted[i].id]) add_known(wanted[i], {false, num_questions_, i});
      if (i > 0) handed_on_.push_back(wanted[i]);
    }
    ++num_questions_;
    return question;
  }

  Graph handed_on(size_t num_primals) const {
    const std::vector<Value> primals(known_.begin(), known_.begin() + static_cast<std::ptrdiff_t>(num_primals));
    return graph_of(graph_, primals, handed_on_);
  }

 private:
  void add_known(Value value, ValueQuestion::Input place) {
    known_.push_back(value);
    places_.push_back(place);
    is_known_[value.id] = true;
  }

  // The results of costly operators that lead to a value and are not known yet, in order; the value may be among them.
  std::vector<Value> costly_before(Value wanted) const {
    std::vector<bool> needed(graph_.num_values());
    needed[wanted.id] = !is_known_[wanted.id];
    std::vector<Value> found;
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node) {
      const auto is_needed = [&](Value output) { return output && needed[output.id] && !is_known_[output.id]; };
      if (std::none_of(node->outputs.begin(), node->outputs.end(), is_needed)) continue;
      for_each_operand_value(*node, [&](Value value) { needed[value.id] = true; });
      if (!is_costly(*node)) continue;
      for (const Value output : node->outputs) {
        if (output && !is_known_[output.id] && !drawn_[output.id]) found.push_back(output);
      }
    }
    return {found.rbegin(), found.rend()};
  }

  const Graph& graph_;
  std::vector<bool> drawn_;
  std::vector<bool> is_known_;
  std::vector<Value> known_;                  ///< the primals, then results of questions
  std::vector<ValueQuestion::Input> places_;  ///< where they come from
  std::vector<Value> handed_on_;
  size_t num_questions_ = 0;
};

}  // namespace

AskedQuestions find_questions(const Recorder& recorder) {
  AskedQuestions found;
  const auto& all = recorder.asked_values().all();
  if (all.empty()) return found;
  const PauseTraceGuard real;
  for (const AskedValue& asked : all) found.answers.push_back({asked.question, kept(asked)});
  const Tidied tidied = tidy(recorder);
  QuestionCutter cutter(tidied, recorder.primals().size());
  std::set<std::pair<Value, Question>> asked_before;
  for (size_t i = 0; i < all.size(); ++i) {
    const Value asked = tidied.asked[i];
    if (!asked || asked_before.count({asked, Question::kElements}) != 0) continue;
    if (!asked_before.insert({asked, all[i].question}).second) continue;
    found.questions.push_back(cutter.cut(all[i], asked));
  }
  found.handed_on = cutter.handed_on(recorder.primals().size());
  return found;
}

}  // namespace diptych::detail
