#include "diptych/autodiff/task_key.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <typeinfo>

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;
namespace ca = torch::dynamo::autograd;

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void append(std::string& bytes, const ca::CompiledNodeArgs& args) {
  const ca::CacheKey key = args.key();
  append(bytes, key.key_size);
  bytes.append(reinterpret_cast<const char*>(key.key), key.key_size);
}

}  // namespace

bool accumulates(const ag::Node& node) { return typeid(node) == typeid(ag::AccumulateGrad); }

TaskContents::TaskContents(const std::vector<TaskCall>& calls, bool records_gradients, PassEnding* ending)
    : compiler_(ca::SizeInput::STATIC), is_live_(calls.size()), ending_(ending) {
  append(key_.structure, records_gradients);
  key_.parts.reserve(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    collect(i, calls[i]);
    append_sizes(i);
    key_.parts.push_back({static_cast<uint32_t>(key_.structure.size()), static_cast<uint32_t>(key_.sizes.size())});
  }
  if (ending_ != nullptr) append_ending();
}

void TaskContents::append_ending() {
  key_.ending = ending_->key() + '\n';
  ending_inputs_ = ending_->inputs();
  for (const auto& [path, tensor] : ending_inputs_) {
    append(key_.ending, tensor.scalar_type());
    append(key_.ending, tensor.dim());
    for (const auto& list : {tensor.sizes(), tensor.strides()}) {
      for (const int64_t size : list) append(key_.ending, size);
    }
  }
}

void TaskContents::collect(size_t index, const TaskCall& call) {
  ag::Node& node = *call.node;
  append(key_.structure, &typeid(node));
  append(key_.structure, call.needed);
  for (const auto& capture : call.captures) append(key_.structure, capture);
  for (const size_t count : {node.tensor_pre_hooks().size(), node.retains_grad_hooks().size(), node.pre_hooks().size(),
                             node.post_hooks().size(), call.captures.size()}) {
    append(key_.structure, static_cast<uint8_t>(count));
  }
  ca::NodeCall& node_call = compiler_.node_calls.lookup(call.node);
  // Which of those that edges lead to: of two leaves, one may be asked for.
  append(key_.structure, node_call.id);
  if (!call.needed) return;
  is_live_[index] = accumulates(node) || !collect_node(call, node_call);
  append(key_.structure, static_cast<bool>(is_live_[index]));
  ca::CompiledNodeArgs edges(compiler_, node_call);
  edges.collect(node.next_edges());
  append(key_.structure, edges);
}

// A node that can't say what it holds may have said some of it; what it added is not used.
bool TaskContents::collect_node(const TaskCall& call, ca::NodeCall& node_call) {
  const size_t num_lifted = compiler_.lifted_ivalue_args.args.size();
  try {
    ca::CompiledNodeArgs args(compiler_, node_call);
    call.node->compiled_args(args);
    append(key_.structure, args);
    return true;
  } catch (const std::exception&) {
    auto& lifted = compiler_.lifted_ivalue_args.args;
    lifted.erase(lifted.begin() + static_cast<std::ptrdiff_t>(num_lifted), lifted.end());
    return false;
  }
}

void TaskContents::append_sizes(size_t index) {
  for (; num_sizes_ < compiler_.all_size_inputs.size(); ++num_sizes_) {
    key_.sizes.push_back(compiler_.all_size_inputs[num_sizes_].value);
  }
  for (; num_tensors_ < compiler_.tensor_args.inputs.size(); ++num_tensors_) {
    const at::Tensor& tensor = compiler_.tensor_args.inputs[num_tensors_];
    owners_.push_back(index);
    key_.sizes.push_back(tensor.dim());
    key_.sizes.insert(key_.sizes.end(), tensor.sizes().begin(), tensor.sizes().end());
    if (tensor.layout() != at::kStrided) continue;
    key_.sizes.insert(key_.sizes.end(), tensor.strides().begin(), tensor.strides().end());
  }
  auto& lifted = compiler_.lifted_ivalue_args.args;
  for (; num_lifted_ < lifted.size(); ++num_lifted_) {
    const c10::IValue& value = *lifted[num_lifted_].actual_ptr;
    int64_t bits = 0;
    if (value.isDouble()) {
      const double number = value.toDouble();
      std::memcpy(&bits, &number, sizeof(bits));
    } else {
      bits = value.toInt();
    }
    key_.sizes.push_back(bits);
    lifted[num_lifted_].proxy = value;
  }
}

}  // namespace diptych::detail
