#include "diptych/hops/loop_body.h"

#include <ATen/ops/clone.h>

#include <algorithm>
#include <map>

#include "diptych/base/check.h"
#include "diptych/hops/same_flow.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/transformed_call.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/placeholder.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Layouts = std::vector<Sizes>;

Layouts layouts(const std::vector<TensorMeta>& metas) {
  Layouts found;
  for (const TensorMeta& meta : metas) found.push_back(meta.strides);
  return found;
}

// Whether two captures of a body, for carries of different layouts, draw the same numbers for the same elements. A draw
// into a tensor that is not contiguous is a draw into a contiguous one with views around it.
bool draw_alike(const Graph& a, const Graph& b) {
  const auto are_alike = [](const auto& x, const auto& y) { return draw_alike(*x, *y); };
  const auto is_alike = [&](const Node& x, const Node& y) {
    const bool is_same_op = x.op == y.op && x.outputs.size() == y.outputs.size();
    const bool is_same_inside =
        std::equal(x.subgraphs.begin(), x.subgraphs.end(), y.subgraphs.begin(), y.subgraphs.end(), are_alike);
    return is_same_op && is_same_inside &&
           (x.outputs.empty() || !draws_random(x) || a.meta(x.outputs[0]).strides == b.meta(y.outputs[0]).strides);
  };
  return std::equal(a.nodes().begin(), a.nodes().end(), b.nodes().begin(), b.nodes().end(), is_alike);
}

// How often the graph copies what requires grad where gradients are not recorded.
int64_t count_unseen_copies(const Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    const auto* source = node.operands.empty() ? nullptr : std::get_if<Value>(&node.operands[0]);
    return !node.grad_enabled && has_tag(node.op, Tag::kCopy) && source && graph.meta(*source).requires_grad;
  });
}

void check_defined(const char* who, const Flattened& tensors, size_t index) {
  DIPTYCH_CHECK(tensors.tensors[index].defined(),
                "[{}] '{}' is an undefined tensor; pass a defined one, or an absent optional", who,
                tensors.spec.tensor_path(index));
}

/// Captures a body, one attempt after the other, until its carries and buffers are known.
class Capturer {
 public:
  Capturer(const char* who, const FlatFunction& step, const Flattened& init, const LoopInputs& inputs)
      : who_(who),
        step_(step),
        init_(init),
        inputs_(inputs),
        buffers_(inputs.buffers),
        seen_buffers_(inputs.seen_buffers),
        writes_(inputs.writes) {
    for (size_t i = 0; i < init.tensors.size(); ++i) {
      const at::Tensor& tensor = init.tensors[i];
      check_defined(who, init, i);
      carries_.push_back(contiguous(meta_of_argument(tensor)));
    }
  }

  LoopBody run() {
    while (true) {
      auto body = capture(carries_);
      check_carries(*body);
      const bool more_grad = settle_requires_grad(*body);
      const bool more_writes = find_writes(*body);
      if (more_grad || more_writes) continue;
      if (body->draws() || body->writes() || any_carry_requires_grad()) check_layouts(body);
      for (ArgumentWrite& write : writes_) {
        const bool is_of_first_step = write.argument < carries_.size() && !write.is_next_carry;
        if (is_of_first_step) write.under_no_grad = first_under_no_grad_[write.argument];
      }
      return {std::move(body), buffers_, seen_buffers_, writes_};
    }
  }

 private:
  std::shared_ptr<const Body> capture(const std::vector<TensorMeta>& carries);
  FlatResult run_step(const Tensors& stand_ins, const std::vector<std::string>& paths);
  void check_carries_are_no_buffers(const Tensors& stand_ins, const Tensors& returned) const;
  void check_carries(const Body& body) const;
  bool settle_requires_grad(const Body& body);
  bool find_writes(const Body& body);
  bool add_buffer(const Body& body, const MutationPlan& mutation);
  bool add_argument(const Body& body, const MutationPlan& mutation, size_t argument);
  bool any_carry_requires_grad() const {
    return std::any_of(carries_.begin(), carries_.end(), [](const TensorMeta& meta) { return meta.requires_grad; });
  }
  void check_layouts(const std::shared_ptr<const Body>& body);
  void check_memory_is_its_own(const at::Tensor& written, const std::string& path, const Body& body,
                               std::optional<size_t> argument) const;

  const char* who_;
  const FlatFunction& step_;
  const Flattened& init_;
  const LoopInputs& inputs_;
  std::vector<TensorMeta> carries_;
  Tensors buffers_;
  std::vector<bool> seen_buffers_;  ///< see LoopBody::seen_buffers
  std::vector<ArgumentWrite> writes_;
  std::map<size_t, bool> first_under_no_grad_;  ///< per written argument: what its first step does with init as it is
};

// The code captures its buffers. They are arguments of the capture as well, and each is then one input.
std::shared_ptr<const Body> Capturer::capture(const std::vector<TensorMeta>& carries) {
  Tensors arguments;
  std::vector<std::string> paths;
  const auto add = [&](at::Tensor tensor, std::string path) {
    arguments.push_back(std::move(tensor));
    paths.push_back(std::move(path));
  };
  for (size_t i = 0; i < carries.size(); ++i) add(make_placeholder(carries[i]), init_.spec.tensor_path(i));
  for (size_t i = 0; i < buffers_.size(); ++i) add(buffers_[i], fmt::format("buffer.{}", i));
  for (size_t i = 0; i < inputs_.metas.size(); ++i) {
    add(inputs_.examples.empty() ? make_placeholder(inputs_.metas[i]) : inputs_.examples[i], inputs_.paths[i]);
  }
  const auto step = [&](const Tensors& stand_ins) { return run_step(stand_ins, paths); };
  return std::make_shared<const Body>(step, arguments, paths, inputs_.name);
}

// Runs the code on stand-ins for carries, buffers and inputs. Adds what else leaves the body: buffers and arguments.
FlatResult Capturer::run_step(const Tensors& stand_ins, const std::vector<std::string>& paths) {
  const auto buffers_begin = stand_ins.begin() + static_cast<int64_t>(carries_.size());
  const auto buffers_end = buffers_begin + static_cast<int64_t>(buffers_.size());
  Tensors given(stand_ins.begin(), buffers_begin);
  given.insert(given.end(), buffers_end, stand_ins.end());
  FlatResult result = step_(given);
  const auto place = static_cast<int64_t>(carries_.size());
  for (size_t i = 0; i < carries_.size(); ++i) result.paths[i] = paths[i];
  check_carries_are_no_buffers({buffers_begin, buffers_end}, result.tensors);
  if (!writes_.empty()) {
    check_next_carries_are_their_own(who_, writes_, given, result.tensors, result.paths, carries_.size());
  }
  for (ArgumentWrite& write : writes_) {
    const size_t argument = write.argument;
    write.is_next_carry = argument < carries_.size() && result.tensors[argument].is_same(given[argument]);
    if (write.is_next_carry) continue;
    result.tensors.push_back(given[argument]);
    result.paths.push_back(paths[argument + (argument < carries_.size() ? 0 : buffers_.size())]);
  }
  result.tensors.insert(result.tensors.begin() + place, buffers_begin, buffers_end);
  result.paths.insert(result.paths.begin() + place, paths.begin() + place,
                      paths.begin() + place + static_cast<int64_t>(buffers_.size()));
  return result;
}

// A later step would change such a carry before it reads it, which values can't say. What is returned is a buffer's
// stand-in or a view of it, or the captured tensor itself.
void Capturer::check_carries_are_no_buffers(const Tensors& stand_ins, const Tensors& returned) const {
  for (size_t i = 0; i < carries_.size(); ++i) {
    const auto is_shared = [&](const at::Tensor& buffer) { return may_share_memory(returned[i], buffer); };
    const bool is_buffer = returned[i].defined() && (std::any_of(stand_ins.begin(), stand_ins.end(), is_shared) ||
                                                     std::any_of(buffers_.begin(), buffers_.end(), is_shared));
    DIPTYCH_CHECK(!is_buffer,
                  "[{}] the body changes a captured tensor in place, and returns what shares its memory as the carry "
                  "'{}', which a later step would change; return clone() of it",
                  who_, init_.spec.tensor_path(i));
  }
}

void Capturer::check_carries(const Body& body) const {
  for (size_t i = 0; i < carries_.size(); ++i) {
    check_carry(who_, init_.spec.tensor_path(i), carries_[i], body.result(i));
  }
}

// A carry requires grad in every step if it does in one.
bool Capturer::settle_requires_grad(const Body& body) {
  bool changed = false;
  for (size_t i = 0; i < carries_.size(); ++i) {
    if (carries_[i].requires_grad || !body.result_requires_grad(i)) continue;
    carries_[i].requires_grad = changed = true;
  }
  return changed;
}

// Whether the code changes something in place that the capture has not expected.
bool Capturer::find_writes(const Body& body) {
  const size_t num_arguments = body.num_inputs() - body.free_variables().size();
  const size_t buffers_begin = carries_.size(), buffers_end = buffers_begin + buffers_.size();
  bool found = false;
  for (const MutationPlan& mutation : body.mutations()) {
    if (mutation.primal >= num_arguments) {
      found = add_buffer(body, mutation) || found;
    } else if (mutation.primal >= buffers_begin && mutation.primal < buffers_end) {
      if (mutation.under_no_grad) continue;
      seen_buffers_[mutation.primal - buffers_begin] = true;
      // From the second step on it has a history, which the trace does not know.
      DIPTYCH_CHECK(!mutation.partly_unseen || !body.result_requires_grad(mutation.primal),
                    "[{}] the body changes a captured tensor ({}) in place where autograd sees it and where it does "
                    "not (under no_grad or through detach()), and gradients flow through it; make it a part of the "
                    "carry",
                    who_, body.graph()->input_slots()[mutation.primal].path);
    } else if (inputs_.examples.empty() || mutation.primal < buffers_begin) {
      const size_t argument = mutation.primal - (mutation.primal < buffers_begin ? 0 : buffers_.size());
      found = add_argument(body, mutation, argument) || found;
    }
  }
  return found;
}

bool Capturer::add_buffer(const Body& body, const MutationPlan& mutation) {
  const std::string& path = body.graph()->input_slots()[mutation.primal].path;
  DIPTYCH_CHECK(!mutation.geometry,
                "[{}] the body changes the shape of a captured tensor ({}) in place; carry it, or reshape a view of it",
                who_, path);
  const at::Tensor& buffer = body.free_variables()[mutation.primal + body.free_variables().size() - body.num_inputs()];
  DIPTYCH_CHECK(inputs_.may_write || (!buffer.requires_grad() && mutation.under_no_grad),
                "[{}] the body changes a captured tensor ({}) in place, and gradients flow through it; make it a part "
                "of the carry",
                who_, path);
  check_memory_is_its_own(buffer, path, body, std::nullopt);
  buffers_.push_back(buffer);
  seen_buffers_.push_back(!mutation.under_no_grad);
  return true;
}

bool Capturer::add_argument(const Body& body, const MutationPlan& mutation, size_t argument) {
  const bool is_carry = argument < carries_.size();
  const std::string& path = is_carry ? init_.spec.tensor_path(argument) : inputs_.paths[argument - carries_.size()];
  DIPTYCH_CHECK(inputs_.may_write,
                "[{}] the body changes its argument '{}' in place; use an out-of-place operator, or clone it first",
                who_, path);
  DIPTYCH_CHECK(!mutation.geometry,
                "[{}] the body changes the shape of its argument '{}' in place; reshape a view of it", who_, path);
  const auto known = std::find_if(writes_.begin(), writes_.end(),
                                  [&](const ArgumentWrite& write) { return write.argument == argument; });
  if (known != writes_.end()) {
    known->under_no_grad = known->under_no_grad && mutation.under_no_grad;
    return false;
  }
  check_memory_is_its_own(is_carry ? init_.tensors[argument] : inputs_.given.at(argument - carries_.size()), path, body,
                          argument);
  writes_.push_back({.argument = argument, .under_no_grad = mutation.under_no_grad});
  first_under_no_grad_.emplace(argument, mutation.under_no_grad);
  return true;
}

// The body runs on contiguous carries. In the same loop written out, carries are laid out as they come, and a draw for
// a tensor like a carry fills it in memory order: the same numbers, but for other elements. A write to reshape() of a
// carry reaches the carry if that is a view, and does not if it is a copy. So it is with gradients under no_grad, where
// a copy has none.
void Capturer::check_layouts(const std::shared_ptr<const Body>& body) {
  std::vector<TensorMeta> carries = carries_;
  // Where there are no elements, strides say nothing, and may grow from step to step.
  const auto lay_out = [&](size_t i, const TensorMeta& meta) {
    if (meta.numel() != 0) carries[i].strides = meta.strides;
  };
  for (size_t i = 0; i < carries.size(); ++i) lay_out(i, meta_of_argument(init_.tensors[i]));
  for (std::vector<Layouts> seen; std::find(seen.begin(), seen.end(), layouts(carries)) == seen.end();) {
    seen.push_back(layouts(carries));
    const bool is_body = seen.back() == layouts(carries_);
    const auto as_they_come = is_body ? body : capture(carries);
    DIPTYCH_CHECK(
        is_body || !body->draws() || draw_alike(*as_they_come->graph(), *body->graph()),
        "[{}] the body draws random numbers into the layout of a carry that is not contiguous, so they would differ "
        "from those of the loop written out; start with contiguous(), and have the body return contiguous carries",
        who_);
    DIPTYCH_CHECK(
        is_body || !body->writes() || have_same_flow(*as_they_come->graph(), *body->graph()),
        "[{}] the body writes to what is a view of a contiguous carry and a copy of one that is not, as reshape() and "
        "flatten() return; start with contiguous(), and have the body return contiguous carries",
        who_);
    DIPTYCH_CHECK(
        is_body || count_unseen_copies(*as_they_come->graph()) == count_unseen_copies(*body->graph()),
        "[{}] the body copies a carry under no_grad that is not contiguous, where a contiguous one is itself and keeps "
        "its gradient, as contiguous() and reshape() do; start with contiguous(), and have the body return contiguous "
        "carries",
        who_);
    for (size_t i = 0; i < carries.size(); ++i) lay_out(i, as_they_come->result(i));
  }
}

// What is written is a value inside of the loop, so another tensor that shares its memory would not see it change. Of
// captured tensors, real ones that share memory are captured as views of one another; those of another trace are not.
void Capturer::check_memory_is_its_own(const at::Tensor& written, const std::string& path, const Body& body,
                                       std::optional<size_t> argument) const {
  const auto check = [&](const at::Tensor& other, const std::string& other_path) {
    if (!share_memory_in_traces(other, written)) return;
    throw_user_error(
        argument
            ? fmt::format("[{}] the body changes its argument '{}' in place, whose memory '{}' shares; pass clone() of "
                          "one of them",
                          who_, path, other_path)
            : fmt::format("[{}] the body changes a captured tensor ({}) in place, whose memory '{}' shares; capture "
                          "one of them, and take views of it in the body",
                          who_, path, other_path));
  };
  for (size_t i = 0; i < init_.tensors.size(); ++i) {
    if (argument != i) check(init_.tensors[i], init_.spec.tensor_path(i));
  }
  for (size_t i = 0; i < inputs_.given.size(); ++i) {
    if (argument != carries_.size() + i) check(inputs_.given[i], inputs_.paths[i]);
  }
  const size_t num_arguments = body.num_inputs() - body.free_variables().size();
  for (size_t i = 0; i < body.free_variables().size(); ++i) {
    const at::Tensor& other = body.free_variables()[i];
    if (!argument && (other.is_same(written) || (!is_stand_in(written) && !is_stand_in(other)))) continue;
    check(other, body.graph()->input_slots()[num_arguments + i].path);
  }
}

}  // namespace

void check_carry(const char* who, const std::string& path, const TensorMeta& before, const TensorMeta& after) {
  const bool fits = before.dtype == after.dtype && before.sizes == after.sizes && before.device == after.device;
  DIPTYCH_CHECK(fits,
                "[{}] '{}' is {} at first, but the body returns it as {}; a carry must keep its sizes, dtype and "
                "device, so start with such a tensor, or convert what the body returns",
                who, path, type_string(contiguous(before)), type_string(contiguous(after)));
}

LoopInputs inputs_of_call(const char* who, const Flattened& arguments) {
  LoopInputs inputs;
  inputs.may_write = true;
  inputs.given = arguments.tensors;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    check_defined(who, arguments, i);
    inputs.metas.push_back(meta_of_argument(arguments.tensors[i]));
    inputs.paths.push_back(arguments.spec.tensor_path(i));
  }
  return inputs;
}

LoopBody capture_loop_body(const char* who, const FlatFunction& step, const Flattened& init, const LoopInputs& inputs) {
  return Capturer(who, step, init, inputs).run();
}

Tensors LoopBody::operands(const Tensors& arguments, size_t num_carries) const {
  Tensors all = operands_before(writes, arguments);
  const Tensors copies = buffer_operands();
  all.insert(all.begin() + static_cast<int64_t>(num_carries), copies.begin(), copies.end());
  all.insert(all.end(), body->free_variables().begin(), body->free_variables().end());
  return all;
}

Tensors LoopBody::buffer_operands() const {
  Tensors copies;
  for (const at::Tensor& buffer : buffers) copies.push_back(buffer.clone());
  return copies;
}

Tensors LoopBody::write_buffers(Tensors results, size_t num_carries) const {
  const auto begin = results.begin() + static_cast<int64_t>(num_carries);
  for (size_t i = 0; i < buffers.size(); ++i) {
    write_back(buffers[i], *(begin + static_cast<int64_t>(i)), !seen_buffers[i]);
  }
  results.erase(begin, begin + static_cast<int64_t>(buffers.size()));
  return results;
}

}  // namespace diptych::detail
