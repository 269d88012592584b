#include "diptych/compile/check.h"

#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "diptych/backends/builtin_backends.h"
#include "diptych/base/check.h"
#include "diptych/base/switches.h"
#include "diptych/compile/backward_node.h"
#include "diptych/compile/check_backward.h"
#include "diptych/compile/check_explain.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

int64_t version_of(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_inference() ? static_cast<int64_t>(tensor._version()) : 0;
}

std::vector<int64_t> versions_of(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> versions;
  for (const at::Tensor& tensor : tensors) versions.push_back(version_of(tensor));
  return versions;
}

// Whether an error says that a saved tensor was changed before the backward. Only eager throws it: the compiled
// function has kept what it needs.
bool is_about_versions(const std::string& text) {
  return text.find("modified by an inplace operation") != text.npos ||
         text.find("has been modified inplace") != text.npos;
}

std::string first_lines(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() > 200 ? line.substr(0, 200) + "..." : line;
}

// Returns the first lines in which two descriptions differ.
std::optional<Difference> compare_lines(const std::string& original, const std::string& compiled) {
  if (original == compiled) return std::nullopt;
  const auto line_at = [](const std::string& text, size_t begin) {
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    return line.empty() ? std::string("nothing") : line;
  };
  const size_t same = static_cast<size_t>(
      std::mismatch(original.begin(), original.end(), compiled.begin(), compiled.end()).first - original.begin());
  const size_t before = same == 0 ? original.npos : original.rfind('\n', same - 1);
  const size_t begin = before == original.npos ? 0 : before + 1;
  return Difference{"its structure and numbers", line_at(original, begin), line_at(compiled, begin)};
}

// Returns which results of a graph hold uninitialized memory.
std::vector<bool> unset_outputs(const Graph& graph) {
  const auto roots = storage_roots(graph);
  std::vector<bool> unset;
  for (const Value output : graph.outputs()) {
    const Node* producer = output ? graph.producer(roots[output.id]) : nullptr;
    unset.push_back(producer != nullptr && leaves_values_unset(producer->op));
  }
  return unset;
}

// Numbers tensors by the memory that they share: the memories of primals have negative numbers, and any other memory
// has the number of the first result in it.
class Sharing {
 public:
  explicit Sharing(const TensorCopies& copies) : copies_(copies) {}
  /// Returns the number of the memory that `tensor` is in; `number` if no earlier tensor is in it.
  int64_t enter(const at::Tensor& tensor, int64_t number) {
    if (const auto memory = copies_.memory_of(tensor)) return -1 - static_cast<int64_t>(*memory);
    if (!tensor.has_storage()) return number;
    return known_.try_emplace(tensor.storage().unsafeGetStorageImpl(), number).first->second;
  }

 private:
  const TensorCopies& copies_;
  std::unordered_map<const c10::StorageImpl*, int64_t> known_;
};

}  // namespace

CheckSchedule::CheckSchedule(size_t every) : every_(every == 0 ? calls_per_check() : every) {}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& thrown) {
    return thrown.what_without_backtrace();
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return "an exception without text";
  }
}

void report_difference(const std::string& function, const std::string& whose, const Difference& difference,
                       const std::string& where) {
  throw_user_error(
      fmt::format("[check {}] {} differs from the original function's: {}: {} originally, {} compiled; something that "
                  "the function reads may have changed where no guard looks (pass it as an argument), or Diptych has a "
                  "fault (please report it){}",
                  function, whose, difference.what, difference.original, difference.compiled, where));
}

CheckedCall::CheckedCall(std::shared_ptr<const CompiledFunction> code, c10::ArrayRef<const at::Tensor*> arguments)
    : code_(std::move(code)), generators_(code_->forward_graph()) {
  DIPTYCH_CHECK(
      !code_->captured().draws_random() || !draws_on_device(code_->options().draws, code_->options().name),
      "[check {}] got draws 'device', so this call draws other numbers than the original function, with which "
      "it would be compared; use draws 'host' or check = 0",
      code_->options().name);
  std::vector<const at::Tensor*> all(arguments.begin(), arguments.end());
  code_->captured().append_free_variables(all);
  all.resize(arguments.size() + code_->captured().free_variables().size());  // captured arguments are there already
  for (const at::Tensor* tensor : all) reals_.push_back(*tensor);
  // The call takes our own handles, since the original function may drop what holds an argument.
  for (size_t i = 0; i < arguments.size(); ++i) arguments_.push_back(&reals_[i]);
  for (const at::Tensor& real : reals_) {
    real_edges_.push_back(real.defined() && real.requires_grad() ? ag::impl::gradient_edge(real) : ag::Edge());
  }
  copies_ = std::make_shared<TensorCopies>(reals_);
  shadow_ = std::make_shared<Shadow>();
  copies_->enter(*shadow_);
  real_versions_ = versions_of(reals_);
  copy_versions_ = versions_of(copies_->copies());
  pristine_ = reals_;
  const RunBelowAutograd below;
  for (const auto& mutation : code_->plan().mutations) pristine_[mutation.primal] = reals_[mutation.primal].clone();
  states_before_ = generators_.states();
}

CheckedCall::~CheckedCall() = default;

void CheckedCall::run_original(const FlatFunction& function) {
  const auto host = keep_host_state();
  {
    const ShadowGuard guard(*shadow_, /*lends_memory=*/true);
    try {
      const auto& copies = copies_->copies();
      const FlatResult result = function({copies.begin(), copies.begin() + static_cast<int64_t>(arguments_.size())});
      for (const at::Tensor& tensor : result.tensors) originals_.push_back(shadow_->copy_of(tensor));
      has_original_ = true;
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  records_ = shadow_->take_records();
  writes_ = shadow_->take_writes();
  states_after_ = generators_.states();
  generators_.set(states_before_);
}

std::vector<at::Tensor> CheckedCall::run_compiled() {
  auto outputs = code_->call(arguments_);
  if (!error_) return outputs;
  const std::string text = text_of(error_);
  if (!is_about_versions(text))
    report("the call", {"what it gives", "an error (" + first_lines(text) + ")", "results"});
  return outputs;
}

void CheckedCall::report(const std::string& whose, const Difference& difference) const {
  report_difference(code_->options().name, whose, difference, difference.comes_of_a_node ? where() : "");
}

void CheckedCall::compare_structure(const TreeSpec& original, const TreeSpec& compiled) const {
  if (const auto found = compare_lines(original.str(), compiled.str())) report("the result", *found);
}

void CheckedCall::compare(const std::vector<at::Tensor>& outputs) {
  if (!has_original_) return;
  compare_outputs(outputs);
  compare_inputs();
  compare_sharing(outputs);
  compare_draws();
  compare_other_writes();
  attach(outputs);
}

std::string CheckedCall::path_of_output(size_t index) const {
  return fmt::format("result '{}'", code_->plan().output_paths[index]);
}

std::string CheckedCall::path_of_input(size_t index) const {
  const Slot& slot = code_->forward_graph().input_slots()[index];
  return fmt::format("{} '{}'", slot.kind == SlotKind::kArgument ? "argument" : "the captured tensor", slot.path);
}

void CheckedCall::compare_outputs(const std::vector<at::Tensor>& outputs) const {
  if (originals_.size() != outputs.size()) {
    report("the result",
           {"the number of its tensors", std::to_string(originals_.size()), std::to_string(outputs.size())});
  }
  const std::vector<bool> unset = unset_outputs(code_->forward_graph());
  const auto& plans = code_->plan().outputs;
  const bool any_unset = std::find(unset.begin(), unset.end(), true) != unset.end();
  using Kind = OutputPlan::Kind;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Kind kind = plans[i].kind;
    const bool is_unset = (kind == Kind::kSlot && unset[i]) || (kind == Kind::kOfSlot && unset[plans[i].index]) ||
                          ((kind == Kind::kRegenerated || kind == Kind::kSame) && any_unset);
    auto found = compare_tensors(originals_[i], outputs[i], code_->options().check_tolerance, !is_unset);
    if (!found) found = compare_history(originals_[i], outputs[i]);
    if (found) report(path_of_output(i), *found);
  }
}

void CheckedCall::compare_inputs() const {
  for (size_t i = 0; i < reals_.size(); ++i) {
    const at::Tensor& copy = copies_->copies()[i];
    if (!copy.defined()) continue;
    auto found = compare_tensors(copy, reals_[i], code_->options().check_tolerance);
    if (!found) found = compare_history(copy, reals_[i]);
    // The reverse is no difference: some kernels write to statistics without autograd knowing, and these count as
    // written to in the compiled function.
    const bool was_written = version_of(copy) != copy_versions_[i];
    if (!found && was_written && version_of(reals_[i]) == real_versions_[i]) {
      found = Difference{"its version", "it is written to", "it is left alone"};
    }
    if (found) report(path_of_input(i) + " after the call", *found);
  }
}

void CheckedCall::compare_sharing(const std::vector<at::Tensor>& outputs) const {
  Sharing there(*copies_), here(*copies_);
  std::map<const c10::TensorImpl*, std::string> names_there, names_here;
  for (size_t i = 0; i < reals_.size(); ++i) {
    if (!reals_[i].defined()) continue;
    names_there.emplace(copies_->copies()[i].unsafeGetTensorImpl(), path_of_input(i));
    names_here.emplace(reals_[i].unsafeGetTensorImpl(), path_of_input(i));
  }
  const auto identity = [&](auto& names, const at::Tensor& tensor, size_t index) {
    return names.emplace(tensor.unsafeGetTensorImpl(), path_of_output(index)).first->second;
  };
  const auto name = [&](int64_t number) {
    if (number >= 0) return path_of_output(static_cast<size_t>(number));
    for (size_t i = 0; i < reals_.size(); ++i) {
      if (copies_->memory_of(reals_[i]) == static_cast<size_t>(-1 - number)) return path_of_input(i);
    }
    return std::string("an argument");
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !originals_[i].defined()) continue;
    const std::string is_there = identity(names_there, originals_[i], i), is_here = identity(names_here, outputs[i], i);
    if (is_there != is_here) report(path_of_output(i), {"which tensor it is", is_there, is_here, false});
    if (outputs[i].numel() == 0) continue;
    const auto number = static_cast<int64_t>(i);
    const int64_t a = there.enter(originals_[i], number), b = here.enter(outputs[i], number);
    if (a != b) report(path_of_output(i), {"which tensors it shares memory with", name(a), name(b), false});
  }
}

void CheckedCall::compare_draws() const {
  const auto states = generators_.states();
  for (size_t i = 0; i < states.size(); ++i) {
    if (at::equal(states[i], states_after_[i])) continue;
    report("the generator of random numbers after the call", {"its state", "other draws", "these draws", false});
  }
}

void CheckedCall::compare_other_writes() const {
  for (const auto& [real, written] : writes_) {
    const auto* bytes = static_cast<const char*>(real.storage().data());
    if (std::memcmp(bytes, written.const_data_ptr(), written.nbytes()) == 0) continue;
    report("a tensor that is not an argument",
           {"its values (" + ValueSketch::of(real).str() + " compiled)", "written to", "left alone", false});
  }
}

std::string CheckedCall::where() const {
  if (records_.empty()) return "";
  Generators generators = generators_;
  const auto now = generators.states();
  const auto& tolerance = code_->options().check_tolerance;
  const auto search = [&](const Graph& graph) {
    generators.set(states_before_);
    return first_differing_node(graph, pristine_, records_, tolerance);
  };
  // The graph before the later passes tells a reader more than what they make of it.
  std::string text = code_->is_dynamic() ? "" : search(code_->captured().split_forward());
  if (text.empty()) text = search(code_->forward_graph());
  generators.set(now);
  if (!text.empty()) return text;
  return fmt::format("\n  no node's value differs when the interpreter runs the graph; the backend is '{}'",
                     code_->options().backend);
}

// Attaches the original results to the backward nodes of the call. A view that has no such node is a view of a node's
// result, in eager as well as here, so its base is taken.
void CheckedCall::attach(const std::vector<at::Tensor>& outputs) {
  // If arguments are views of memory that the call writes to, gradients arrive at the bases of these views.
  if (!code_->plan().parts.empty() || !code_->plan().derived.empty()) return;
  // If results are computed from other results, each node returns only a part of the gradients.
  if (code_->plan().num_stages > 1 || !code_->plan().crossings.empty()) return;
  std::map<BackwardNode*, std::vector<at::Tensor>> found;
  std::vector<BackwardNode*> order;
  const auto node_of = [&](const at::Tensor& tensor) -> BackwardNode* {
    if (!tensor.requires_grad()) return nullptr;
    auto* node = dynamic_cast<BackwardNode*>(tensor.grad_fn().get());
    const auto is_older = [&](const ag::Edge& edge) { return edge.function.get() == node; };
    return std::any_of(real_edges_.begin(), real_edges_.end(), is_older) ? nullptr : node;
  };
  const auto enter = [&](at::Tensor compiled, at::Tensor original) {
    if (!compiled.defined() || !original.defined()) return;
    BackwardNode* node = node_of(compiled);
    if (node == nullptr) {
      compiled = autograd_base(compiled), original = autograd_base(original);
      node = node_of(compiled);
    }
    if (node == nullptr) return;
    const auto [entry, is_new] = found.try_emplace(node, node->num_inputs());
    if (is_new) order.push_back(node);
    entry->second[compiled.output_nr()] = original;
  };
  for (size_t i = 0; i < outputs.size(); ++i) enter(outputs[i], originals_[i]);
  for (size_t i = 0; i < reals_.size(); ++i) enter(reals_[i], copies_->copies()[i]);
  std::vector<std::string> paths;
  for (size_t i = 0; i < reals_.size(); ++i) paths.push_back(path_of_input(i));
  for (BackwardNode* node : order) {
    node->set_check(std::make_shared<CheckedBackward>(
        code_->options().name, code_->options().check_tolerance,
        CheckedBackward::Inputs{paths, reals_, real_edges_, copies_, shadow_}, std::move(found[node])));
  }
}

}  // namespace diptych::detail
