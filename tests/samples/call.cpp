#include "samples/call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <map>

#include "diptych/ops/tags.h"
#include "testing/run_graph.h"

namespace diptych::test {

using namespace detail;

namespace {

// Writes arguments as operands of a graph, whose inputs it collects.
struct OperandWriter {
  Tensors inputs;

  Value value_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    const auto found =
        std::find_if(inputs.begin(), inputs.end(), [&](const at::Tensor& known) { return known.is_same(tensor); });
    const auto index = static_cast<int32_t>(found - inputs.begin());
    if (found == inputs.end()) inputs.push_back(tensor);
    return Value{index};
  }
  Operand operand_of(const c10::IValue& argument, const c10::TypePtr& type) {
    if (argument.isTensor()) {
      const at::Tensor tensor = argument.toTensor();
      if (!is_number(tensor)) return value_of(tensor);
      return WrappedNumber{tensor.item(), tensor.scalar_type()};
    }
    const bool is_optional = type->kind() == c10::TypeKind::OptionalType;
    if (argument.isNone() && is_optional &&
        type->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::TensorType) {
      return Value{};
    }
    if (!argument.isTensorList() && !argument.isOptionalTensorList()) return argument;
    ValueList values;
    const auto list = argument.toListRef();
    for (const c10::IValue& each : list) values.push_back(each.isTensor() ? value_of(each.toTensor()) : Value{});
    return values;
  }
};

}  // namespace

SampledCall::SampledCall(OpSample sample, const std::string& family, int number)
    : name_(fmt::format("{} {}", sample.op, number)),
      family_(family),
      sample_(std::move(sample)),
      op_(Op::find(sample_.op)) {
  OperandWriter writer;
  const auto& arguments = op_.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    operands_.push_back(writer.operand_of(sample_.arguments[i], arguments[i].real_type()));
  }
  inputs_ = std::move(writer.inputs);
  results_ = results_of(fresh_inputs());
  for (at::Tensor& result : results_) {
    // A result may be a view of what it was called with.
    if (result.defined()) result = result.detach();
  }
  Graph graph;
  std::vector<Value> inputs;
  for (const at::Tensor& input : inputs_) inputs.push_back(graph.add_input(TensorMeta::of(input), {}));
  write_into(graph, inputs);
  is_random_ = draws_random(graph.nodes()[0]);
}

std::string SampledCall::where() const {
  return fmt::format("{} ({}) of {}\nagain: DIPTYCH_SAMPLE='{}' build/ci/bin/test_samples --gtest_filter='*/{}'\n",
                     name_, sample_.note, described(inputs_), name_, family_);
}

Tensors SampledCall::fresh_inputs() const {
  Tensors fresh;
  for (const at::Tensor& input : inputs_) {
    const bool copies = input.is_non_overlapping_and_dense() && !input.is_conj() && !input.is_neg() &&
                        input.storage().nbytes() == input.nbytes();
    fresh.push_back(copies ? input.clone() : input);
  }
  return fresh;
}

std::shared_ptr<const SampledCall> SampledCall::with_inputs(Tensors inputs) const {
  auto other = std::make_shared<SampledCall>(*this);
  other->inputs_ = std::move(inputs);
  other->results_ = other->results_of(other->fresh_inputs());
  return other;
}

Tensors SampledCall::results_of(const Tensors& inputs) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::manual_seed(kDrawSeed);
  return testing::call_boxed(op_, operands_, [&](Value value) { return inputs.at(value.id); });
}

bool SampledCall::is_whole(size_t index) const {
  // The table of paths holds what memory held where there is none, and so does the layer's own memory.
  static const std::map<std::string, size_t> partly = {{"aten._ctc_loss", 1}, {"aten.mkldnn_rnn_layer", 3}};
  const auto found = partly.find(sample_.op);
  return found == partly.end() || found->second != index;
}

bool SampledCall::is_functional() const {
  const auto is_defined = [](const at::Tensor& result) { return result.defined(); };
  return !op_.schema().is_mutable() && std::any_of(results_.begin(), results_.end(), is_defined);
}

std::vector<Value> SampledCall::write_into(Graph& graph, const std::vector<Value>& inputs) const {
  const auto renamed = [&](Value value) { return value ? inputs[value.id] : value; };
  Node node{op_, {}, {}, {}, {}, {}};
  for (Operand operand : operands_) {
    if (auto* value = std::get_if<Value>(&operand)) *value = renamed(*value);
    if (auto* list = std::get_if<ValueList>(&operand))
      std::transform(list->begin(), list->end(), list->begin(), renamed);
    node.operands.push_back(std::move(operand));
  }
  for (const auto& returned : op_.schema().returns()) {
    const auto kind = returned.type()->kind();
    node.returns.push_back(kind == c10::TypeKind::TensorType ? -1
                           : kind == c10::TypeKind::ListType ? static_cast<int32_t>(results_.size())
                                                             : -2);
  }
  std::vector<std::optional<TensorMeta>> metas;
  for (const at::Tensor& result : results_) {
    metas.push_back(result.defined() ? std::optional(TensorMeta::of(result)) : std::nullopt);
  }
  const size_t index = graph.add_node(std::move(node), metas);
  const auto& outputs = graph.nodes()[index].outputs;
  return {outputs.begin(), outputs.end()};
}

std::string described(const Tensors& tensors) {
  std::string text;
  for (const at::Tensor& t : tensors) {
    text += t.defined() ? c10::str(t.scalar_type(), t.sizes(), "{", t.strides(), "} ") : "undefined ";
  }
  return text;
}

CallGraph::CallGraph(const std::vector<SharedCall>& calls) {
  std::map<const c10::TensorImpl*, Value> known;
  for (const SharedCall& call : calls) {
    const Tensors fresh = call->fresh_inputs();
    std::vector<Value> values;
    for (size_t i = 0; i < fresh.size(); ++i) {
      const at::Tensor& input = call->inputs()[i];
      const auto [value, is_new] = known.try_emplace(input.unsafeGetTensorImpl());
      if (is_new) {
        const Slot slot{SlotKind::kArgument, fmt::format("x{}", inputs.size())};
        value->second = graph.add_input(TensorMeta::of(input), slot);
        inputs.push_back(fresh[i]);
      }
      values.push_back(value->second);
    }
    outputs.push_back(call->write_into(graph, values));
  }
}

void CallGraph::copy_sparse_results(const std::vector<SharedCall>& calls) {
  for (size_t i = 0; i < calls.size(); ++i) {
    for (size_t k = 0; k < outputs[i].size(); ++k) {
      const at::Tensor& result = calls[i]->results()[k];
      if (!outputs[i][k] || result.is_non_overlapping_and_dense()) continue;
      Node copy{Op::find("aten.clone"), {outputs[i][k], c10::IValue(at::MemoryFormat::Contiguous)}, {}, {-1}, {}, {}};
      const size_t node = graph.add_node(std::move(copy), {TensorMeta::of(result.contiguous())});
      outputs[i][k] = graph.nodes()[node].outputs[0];
    }
  }
}

void CallGraph::finish() {
  std::vector<Value> all;
  std::vector<Slot> slots;
  for (const auto& list : outputs) {
    for (const Value output : list) {
      if (!output) continue;
      slots.push_back({SlotKind::kOutput, fmt::format("y{}", all.size())});
      all.push_back(output);
    }
  }
  graph.set_outputs(all, slots);
}

}  // namespace diptych::test
