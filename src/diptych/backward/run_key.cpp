#include "diptych/backward/run_key.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <cstring>
#include <type_traits>
#include <typeinfo>

#include "diptych/backward/current_node.h"
#include "diptych/backward/run_limits.h"
#include "diptych/trace/custom_function.h"

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

// If it is differentiated again, the copy of a slice must be autograd's own: the graph's nodes know nothing of the
// base's history.
bool is_copy_of_a_slice(const ag::Node& node) { return typeid(node) == typeid(ag::CopySlices); }

// Whether only the node itself can say what it does. A Python node would ask a compiler in Python. The copy of a slice
// passes what it is asked on to the node of the operator that changed the slice, which may be a user's, or gone once it
// has run.
bool is_closed(const ag::Node& node) {
  if (is_python_function(node)) return true;
  if (!is_copy_of_a_slice(node)) return false;
  const auto& copy = static_cast<const ag::CopySlices&>(node);
  return copy.view_fn != nullptr || !copy.fn || is_custom_function(*copy.fn);
}

/// What is known of a call without asking its node. It has no padding, as it is compared as memory.
struct CallHead {
  const std::type_info* type;
  uint32_t id;  ///< by which edges lead to it: only some leaves may be requested
  uint32_t num_inputs, num_captures;
  uint32_t tensor_pre_hooks, retains_grad_hooks, pre_hooks, post_hooks;
  uint32_t flags;
};
static_assert(std::has_unique_object_representations_v<CallHead>);

CallHead head_of(const RunCall& call) {
  ag::Node& node = *call.node;
  const bool has_followers = node.tensor_post_acc_grad_hooks() != nullptr;
  return {&typeid(node),
          call.id,
          static_cast<uint32_t>(node.num_inputs()),
          static_cast<uint32_t>(call.captures.size()),
          static_cast<uint32_t>(node.tensor_pre_hooks().size()),
          static_cast<uint32_t>(node.retains_grad_hooks().size()),
          static_cast<uint32_t>(node.pre_hooks().size()),
          static_cast<uint32_t>(node.post_hooks().size()),
          (call.needed ? 1U : 0U) | (has_followers ? 2U : 0U)};
}

/// What an edge leads to, and what is expected there, without its sizes.
struct EdgeHead {
  uint32_t next, input_nr, num_dims;
  uint16_t dtype;
  c10::DeviceType device;
  c10::DeviceIndex device_index;
  int32_t grad_dtype;  ///< -1 for any
};
static_assert(std::has_unique_object_representations_v<EdgeHead>);

AskingGuard asking_guard = nullptr;

}  // namespace

void set_asking_guard(AskingGuard make) { asking_guard = make; }

bool accumulates(const ag::Node& node) { return typeid(node) == typeid(ag::AccumulateGrad); }

RunContents::RunContents(const std::vector<RunCall>& calls, size_t num_results, bool records_gradients,
                         std::string surroundings, const RunBackend& backend, RunEnding* ending)
    : compiler_(ca::SizeInput::STATIC),
      is_eager_(calls.size()),
      records_gradients_(records_gradients),
      backend_(backend),
      ending_(ending) {
  key_.backend = backend.name;
  key_.surroundings = std::move(surroundings);
  key_.num_results = num_results;
  append(key_.structure, records_gradients);
  key_.parts.reserve(calls.size());
  calls_.reserve(calls.size());
  key_.structure.reserve(calls.size() * 128);
  key_.sizes.reserve(calls.size() * 8);
  const std::shared_ptr<void> guard = asking_guard == nullptr ? nullptr : asking_guard();
  for (size_t i = 0; i < calls.size(); ++i) {
    calls_.push_back({{key_.sizes.size(), key_.sizes.size()}, 0, compiler_.lifted_ivalue_args.args.size()});
    collect(i, calls[i]);
    append_tensors(i);
    append_lifted();
    key_.parts.push_back({static_cast<uint32_t>(key_.structure.size()), static_cast<uint32_t>(key_.sizes.size())});
  }
  if (ending_ != nullptr) append_ending();
}

void RunContents::append_ending() {
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

void RunContents::collect(size_t index, const RunCall& call) {
  ag::Node& node = *call.node;
  append(key_.structure, head_of(call));
  for (const auto& capture : call.captures) append(key_.structure, capture);
  if (call.has_capture_hooks) note_obstacle("a hook on what the run returns");
  if (!call.needed) return;
  is_eager_[index] =
      accumulates(node) || (records_gradients_ && is_copy_of_a_slice(node)) || !collect_node(index, call);
  append(key_.structure, static_cast<bool>(is_eager_[index]));
  calls_[index].edges = key_.sizes.size();
  collect_edges(call);
}

void RunContents::collect_edges(const RunCall& call) {
  const ag::edge_list& edges = call.node->next_edges();
  append(key_.structure, static_cast<uint32_t>(edges.size()));
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i].is_valid()) {
      append(key_.structure, uint32_t{0});
      continue;
    }
    const ag::InputMetadata& expected = edges[i].function->input_metadata(edges[i].input_nr);
    if (const char* reason = why_not_plain(expected)) {
      note_obstacle(reason);
      continue;
    }
    const auto sizes = expected.shape_as_dim_vector();
    const auto gradient = expected.grad_dtype();
    append(key_.structure,
           EdgeHead{call.next[i], edges[i].input_nr, static_cast<uint32_t>(sizes.size()),
                    static_cast<uint16_t>(c10::typeMetaToScalarType(expected.dtype())), expected.device().type(),
                    expected.device().index(), gradient ? static_cast<int32_t>(*gradient) : -1});
    for (const c10::SymInt& size : sizes) key_.sizes.push_back(size.expect_int());
  }
}

// A node that can't say what it holds may have said some of it; what it added is not used. The same holds for a node
// whose saved tensors have hooks, which are called when the node unpacks them, and for a node that holds so much that
// LibTorch would truncate what it says.
bool RunContents::collect_node(size_t index, const RunCall& call) {
  if (is_closed(*call.node)) return false;
  constexpr size_t kMostHeld = 4096;
  const size_t num_lifted = compiler_.lifted_ivalue_args.args.size(), num_hooked = compiler_.sv_to_hooks.size(),
               num_tensors = compiler_.tensor_args.inputs.size();
  bool says_all = true;
  try {
    ca::NodeCall node_call(call.id, call.node);
    ca::CompiledNodeArgs args(compiler_, node_call);
    const CurrentNode current(call.node);
    call.node->compiled_args(args);
    append(key_.structure, args);
    says_all = compiler_.sv_to_hooks.size() == num_hooked &&
               compiler_.tensor_args.inputs.size() - num_tensors + call.node->num_outputs() < kMostHeld;
  } catch (const std::exception&) {
    says_all = false;
  }
  auto& lifted = compiler_.lifted_ivalue_args.args;
  if (!says_all) lifted.erase(lifted.begin() + static_cast<std::ptrdiff_t>(num_lifted), lifted.end());
  for (; num_sizes_ < compiler_.all_size_inputs.size(); ++num_sizes_) {
    key_.sizes.push_back(compiler_.all_size_inputs[num_sizes_].value);
  }
  calls_[index].own.end = key_.sizes.size();
  return says_all;
}

void RunContents::append_tensors(size_t index) {
  while (tensors_.size() < compiler_.tensor_args.inputs.size()) {
    const at::Tensor& tensor = compiler_.tensor_args.inputs[tensors_.size()];
    tensors_.push_back({index, key_.sizes.size()});
    if (const char* reason = why_not_plain(tensor)) {
      note_obstacle(reason);
      continue;
    }
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    append(key_.structure, impl.key_set().raw_repr());
    append(key_.structure, static_cast<uint32_t>(impl.dim()) * 2 + (impl.is_wrapped_number() ? 1 : 0));
    key_.sizes.insert(key_.sizes.end(), impl.sizes().begin(), impl.sizes().end());
    key_.sizes.insert(key_.sizes.end(), impl.strides().begin(), impl.strides().end());
  }
}

void RunContents::append_lifted() {
  auto& lifted = compiler_.lifted_ivalue_args.args;
  for (; num_lifted_ < lifted.size(); ++num_lifted_) {
    const c10::IValue& value = *lifted[num_lifted_].actual_ptr;
    append(key_.structure, value.isDouble());
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
