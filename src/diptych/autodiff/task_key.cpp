#include "diptych/autodiff/task_key.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <typeinfo>

#include "diptych/autodiff/custom_function.h"

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

// Differentiated again, the copy of a slice must be autograd's own: the graph's nodes know nothing of the base's
// history.
bool is_copy_of_a_slice(const ag::Node& node) { return typeid(node) == typeid(ag::CopySlices); }

}  // namespace

bool accumulates(const ag::Node& node) { return typeid(node) == typeid(ag::AccumulateGrad); }

TaskContents::TaskContents(const std::vector<TaskCall>& calls, size_t num_results, bool records_gradients,
                           PassEnding* ending)
    : compiler_(ca::SizeInput::STATIC), is_live_(calls.size()), records_gradients_(records_gradients), ending_(ending) {
  key_.num_results = num_results;
  append(key_.structure, records_gradients);
  key_.parts.reserve(calls.size());
  calls_.reserve(calls.size());
  key_.structure.reserve(calls.size() * 128);
  key_.sizes.reserve(calls.size() * 8);
  for (size_t i = 0; i < calls.size(); ++i) {
    calls_.push_back({{key_.sizes.size(), key_.sizes.size()}, 0});
    collect(i, calls[i]);
    append_tensors(i);
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
  // By which edges lead to it: of two leaves, one may be asked for.
  append(key_.structure, call.id);
  if (!call.needed) return;
  is_live_[index] = accumulates(node) || (records_gradients_ && is_copy_of_a_slice(node)) || !collect_node(index, call);
  append(key_.structure, static_cast<bool>(is_live_[index]));
  calls_[index].edges = key_.sizes.size();
  collect_edges(call);
}

// What edges lead to, and what is expected there.
void TaskContents::collect_edges(const TaskCall& call) {
  const ag::edge_list& edges = call.node->next_edges();
  append(key_.structure, static_cast<uint32_t>(edges.size()));
  for (size_t i = 0; i < edges.size(); ++i) {
    append(key_.structure, call.next[i]);
    if (!edges[i].is_valid()) continue;
    append(key_.structure, edges[i].input_nr);
    const ag::InputMetadata& expected = edges[i].function->input_metadata(edges[i].input_nr);
    if (expected.is_nested_tensor()) {
      can_be_captured_ = false;
      continue;
    }
    const auto sizes = expected.shape_as_dim_vector();
    append(key_.structure, expected.dtype());
    append(key_.structure, expected.device());
    append(key_.structure, expected.layout());
    append(key_.structure, expected.is_tensor_subclass());
    append(key_.structure, static_cast<uint32_t>(sizes.size()));
    for (const c10::SymInt& size : sizes) key_.sizes.push_back(size.expect_int());
  }
}

// A node that can't say what it holds may have said some of it; what it added is not used. One of Python's would ask a
// compiler in Python.
bool TaskContents::collect_node(size_t index, const TaskCall& call) {
  if (is_python_function(*call.node)) return false;
  const size_t num_lifted = compiler_.lifted_ivalue_args.args.size();
  bool says_all = true;
  try {
    ca::NodeCall node_call(call.id, call.node);
    ca::CompiledNodeArgs args(compiler_, node_call);
    call.node->compiled_args(args);
    append(key_.structure, args);
  } catch (const std::exception&) {
    auto& lifted = compiler_.lifted_ivalue_args.args;
    lifted.erase(lifted.begin() + static_cast<std::ptrdiff_t>(num_lifted), lifted.end());
    says_all = false;
  }
  for (; num_sizes_ < compiler_.all_size_inputs.size(); ++num_sizes_) {
    key_.sizes.push_back(compiler_.all_size_inputs[num_sizes_].value);
  }
  calls_[index].own.end = key_.sizes.size();
  return says_all;
}

void TaskContents::append_tensors(size_t index) {
  while (tensors_.size() < compiler_.tensor_args.inputs.size()) {
    const at::Tensor& tensor = compiler_.tensor_args.inputs[tensors_.size()];
    key_.sizes.push_back(tensor.dim());
    tensors_.push_back({index, key_.sizes.size()});
    key_.sizes.insert(key_.sizes.end(), tensor.sizes().begin(), tensor.sizes().end());
    if (tensor.layout() != at::kStrided) {
      can_be_captured_ = false;
      continue;
    }
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
