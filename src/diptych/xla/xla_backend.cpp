#include "diptych/xla/xla_backend.h"

#include <ATen/ops/empty_strided.h>
#include <fmt/ranges.h>

#include "diptych/backend/compile_per_sizes.h"
#include "diptych/backend/fallback.h"
#include "diptych/base/check.h"
#include "diptych/base/log.h"
#include "diptych/interpreter/symbols.h"
#include "diptych/passes/draw_first.h"
#include "diptych/passes/draw_on_device.h"
#include "diptych/passes/run_pass.h"
#include "diptych/xla/hlo/lower_body.h"
#include "diptych/xla/hlo/lower_graph.h"
#include "diptych/xla/pjrt/pjrt_program.h"
#include "diptych/xla/shared_results.h"
#include "diptych/xla/slot_tensor.h"

namespace diptych::detail {
namespace {

// Whether elements with these strides, those of stride 0 aside, have a place each.
bool is_injective(const HloSlot& slot) {
  int64_t reached = 0;
  for (auto dim = slot.order.rbegin(); dim != slot.order.rend(); ++dim) {
    if (slot.sizes[*dim] == 1 || slot.strides[*dim] == 0) continue;
    if (slot.strides[*dim] <= reached) return false;
    reached += (slot.sizes[*dim] - 1) * slot.strides[*dim];
  }
  return true;
}

// Returns a copy with gaps, or with dimensions of stride 0, as the graph has the tensor.
at::Tensor with_gaps(const at::Tensor& dense, const HloSlot& slot) {
  at::Tensor result = at::empty_strided(slot.sizes, slot.strides, dense.options());
  at::Tensor from = dense, to = result;
  for (size_t i = 0; i < slot.sizes.size(); ++i) {
    if (slot.strides[i] != 0 || slot.sizes[i] < 2) continue;
    from = from.narrow(static_cast<int64_t>(i), 0, 1);
    to = to.narrow(static_cast<int64_t>(i), 0, 1);
  }
  to.copy_(from);
  return result;
}

// Returns a result, which came in the order of its memory, as the graph has it: the interpreter may take it next, whose
// kernels choose layouts by those of their operands, and some of whose views are legal for no other strides.
at::Tensor from_memory_order(std::shared_ptr<PjrtBuffer> buffer, const HloSlot& slot) {
  const at::Tensor tensor = PjrtBuffer::to_tensor(std::move(buffer), slot.passed, slot.dtype);
  if (tensor.numel() == 0 || is_dense(slot.sizes, slot.strides)) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(slot.sizes, slot.strides);
    return tensor;
  }
  std::vector<int64_t> strides(slot.sizes.size());
  for (size_t i = 0; i < slot.order.size(); ++i) strides[slot.order[i]] = tensor.stride(static_cast<int64_t>(i));
  const at::Tensor dense = tensor.as_strided(slot.sizes, strides);
  return is_injective(slot) ? with_gaps(dense, slot) : dense;
}

std::string kind_of(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) return fmt::format("a tensor of layout {}", c10::str(tensor.layout()));
  const std::string_view dtype = find_dtype_name(tensor.scalar_type());
  if (dtype.empty()) return fmt::format("a tensor of dtype {}", c10::toString(tensor.scalar_type()));
  const std::string type = fmt::format("{}[{}]", dtype, fmt::join(tensor.sizes(), ","));
  return tensor.device().is_cpu() ? type : fmt::format("{} on {}", type, tensor.device().str());
}

// The plugin looks at no more than the number of bytes, and would read the elements as others.
void check_input(const at::Tensor& tensor, const HloSlot& slot, const std::string& graph) {
  DIPTYCH_CHECK(tensor.defined(), "[xla] input {} of graph '{}' is undefined; pass a tensor", slot.index, graph);
  const bool fits = tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.scalar_type() == slot.dtype &&
                    tensor.sizes() == slot.sizes;
  DIPTYCH_CHECK(fits,
                "[xla] input {} of graph '{}' is {}, expected {}[{}], for which the program was compiled; pass such a "
                "tensor, or compile a graph of this one",
                slot.index, graph, kind_of(tensor), dtype_name(slot.dtype), fmt::join(slot.sizes, ","));
}

// A graph without dynamic sizes, compiled.
class StaticProgram final : public Executable {
 public:
  // `graph` holds only operators that have lowerings.
  StaticProgram(const Graph& graph, const std::shared_ptr<const PjrtClient>& client)
      : name_(graph.name()),
        num_inputs_(graph.inputs().size()),
        outputs_(graph.outputs().size()),
        module_(lower_graph(graph)),
        client_(client) {
    log(Log::kGraphs, "xla: graph '{}':\n{}", name_, module_.text);
    if (!module_.outputs.empty()) program_ = std::make_unique<const PjrtProgram>(client, module_.text);
    module_.text.clear();
    for (const HloSlot& slot : module_.constants) {
      constants_.push_back(PjrtBuffer::from_tensor(client, as_passed(graph.constants()[slot.index], slot)));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = origin_of(graph, graph.outputs()[i]);
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    DIPTYCH_CHECK(inputs.size() == num_inputs_,
                  "[xla] graph '{}' got {} inputs, expected {}; pass one tensor per input slot", name_, inputs.size(),
                  num_inputs_);
    // The program reads the arguments' memory until its results are there.
    std::vector<std::shared_ptr<PjrtBuffer>> arguments, results;
    if (program_ != nullptr) {
      arguments = arguments_of(inputs);
      results = program_->run(arguments);
    }
    std::vector<at::Tensor> outputs(outputs_.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs_[i].input >= 0) outputs[i] = inputs[outputs_[i].input];
      if (outputs_[i].constant.defined()) outputs[i] = outputs_[i].constant;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      outputs[module_.outputs[i].index] = from_memory_order(std::move(results[i]), module_.outputs[i]);
    }
    return outputs;
  }

 private:
  std::vector<std::shared_ptr<PjrtBuffer>> arguments_of(const std::vector<at::Tensor>& inputs) const {
    std::vector<std::shared_ptr<PjrtBuffer>> arguments;
    arguments.reserve(module_.inputs.size() + constants_.size());
    for (const HloSlot& slot : module_.inputs) {
      check_input(inputs[slot.index], slot, name_);
      arguments.push_back(PjrtBuffer::from_tensor(client_, as_passed(inputs[slot.index], slot)));
    }
    arguments.insert(arguments.end(), constants_.begin(), constants_.end());
    return arguments;
  }

  // An output that no node makes.
  struct Origin {
    int32_t input = -1;
    at::Tensor constant;
  };
  static Origin origin_of(const Graph& graph, Value value) {
    if (!value) return {};
    const ValueInfo& info = graph.info(value);
    if (info.kind == ValueInfo::Kind::kInput) return {info.index, {}};
    if (info.kind == ValueInfo::Kind::kConstant) return {-1, graph.constants()[info.index]};
    return {};
  }

  std::string name_;
  size_t num_inputs_;
  std::vector<Origin> outputs_;
  HloModule module_;
  std::shared_ptr<const PjrtClient> client_;
  std::unique_ptr<const PjrtProgram> program_;  // null if no node makes a result
  std::vector<std::shared_ptr<PjrtBuffer>> constants_;
};

}  // namespace

// What the interpreter draws stays eager's, number for number, and programs take it: all draws, or the seed and those
// that no program makes.
Graph XlaBackend::prepare(const Graph& graph) const {
  const Graph seeded = draws_on_device_ ? run_pass("draw_on_device", graph, draw_on_device) : graph;
  return in_lowered_operators_if_whole(run_pass("draw_first", seeded, draw_first));
}

bool XlaBackend::takes_whole(const Graph& graph) const { return SymbolBinder(graph).has_symbols(); }

bool XlaBackend::supports(const Graph& graph, const Node& node) const { return is_lowered(graph, node); }

std::shared_ptr<const Executable> XlaBackend::compile(const Graph& graph) const {
  // A node that has a lowering for the traced sizes may have none for others, and is then left to the interpreter.
  if (takes_whole(graph)) {
    return compile_per_sizes(graph,
                             [backend = *this](const Graph& sized) { return compile_with_fallback(backend, sized); });
  }
  return compile_shared_results(graph, [](const Graph& own_results) {
    return std::make_shared<StaticProgram>(in_lowered_operators(own_results), PjrtClient::shared());
  });
}

}  // namespace diptych::detail
