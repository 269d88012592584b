#include "diptych/hops/loop_body.h"

#include <ATen/ops/clone.h>

#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/hops/same_flow.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/transformed_call.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/fake_tensor.h"
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

/// Captures a body, one attempt after the other, until its carries and buffers are known.
class Capturer {
 public:
  Capturer(const char* who, const FlatFunction& step, const Flattened& init, const LoopInputs& inputs)
      : who_(who), step_(step), init_(init), inputs_(inputs) {
    for (size_t i = 0; i < init.tensors.size(); ++i) {
      const at::Tensor& tensor = init.tensors[i];
      DIPTYCH_CHECK(tensor.defined(), "[{}] '{}' is an undefined tensor; pass a defined one, or an absent optional",
                    who, init.spec.tensor_path(i));
      carries_.push_back(contiguous(meta_of_argument(tensor)));
    }
  }

  LoopBody run() {
    while (true) {
      auto body = capture(carries_);
      check_carries(*body);
      const bool more_grad = settle_requires_grad(*body);
      const bool more_buffers = find_buffers(*body);
      if (more_grad || more_buffers) continue;
      if (body->draws() || body->writes()) check_layouts(body);
      return {std::move(body), buffers_};
    }
  }

 private:
  std::shared_ptr<const Body> capture(const std::vector<TensorMeta>& carries) const;
  void check_carries(const Body& body) const;
  bool settle_requires_grad(const Body& body);
  bool find_buffers(const Body& body);
  void check_layouts(const std::shared_ptr<const Body>& body) const;
  void check_memory_is_its_own(const at::Tensor& buffer, const std::string& path, const Body& body) const;

  const char* who_;
  const FlatFunction& step_;
  const Flattened& init_;
  const LoopInputs& inputs_;
  std::vector<TensorMeta> carries_;
  Tensors buffers_;
};

// The code captures its buffers. They are arguments of the capture as well, and each is then one input.
std::shared_ptr<const Body> Capturer::capture(const std::vector<TensorMeta>& carries) const {
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
  const size_t num_carries = carries.size();
  const size_t num_buffers = buffers_.size();
  const auto with_buffers = [&](const Tensors& stand_ins) {
    const auto buffers_begin = stand_ins.begin() + static_cast<int64_t>(num_carries);
    const auto buffers_end = buffers_begin + static_cast<int64_t>(num_buffers);
    Tensors given(stand_ins.begin(), buffers_begin);
    given.insert(given.end(), buffers_end, stand_ins.end());
    FlatResult result = step_(given);
    const auto place = static_cast<int64_t>(num_carries);
    result.tensors.insert(result.tensors.begin() + place, buffers_begin, buffers_end);
    for (size_t i = 0; i < num_carries; ++i) result.paths[i] = paths[i];
    result.paths.insert(result.paths.begin() + place, paths.begin() + place,
                        paths.begin() + place + static_cast<int64_t>(num_buffers));
    return result;
  };
  return std::make_shared<const Body>(with_buffers, arguments, paths, "body");
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

bool Capturer::find_buffers(const Body& body) {
  const size_t num_arguments = body.num_inputs() - body.free_variables().size();
  bool found = false;
  for (const auto& mutation : body.mutations()) {
    const std::string& path = body.graph()->input_slots()[mutation.primal].path;
    const bool is_example = !inputs_.examples.empty() && mutation.primal >= carries_.size() + buffers_.size() &&
                            mutation.primal < num_arguments;
    const bool is_buffer = mutation.primal >= carries_.size() && mutation.primal < carries_.size() + buffers_.size();
    DIPTYCH_CHECK(is_buffer || is_example || mutation.primal >= num_arguments,
                  "[{}] the body changes its argument '{}' in place; use an out-of-place operator, or clone it first",
                  who_, path);
    DIPTYCH_CHECK(
        !mutation.geometry,
        "[{}] the body changes the shape of a captured tensor ({}) in place; carry it, or reshape a view of it", who_,
        path);
    if (is_buffer || is_example) continue;
    const at::Tensor& buffer = body.free_variables()[mutation.primal - num_arguments];
    DIPTYCH_CHECK(
        !buffer.requires_grad() && mutation.under_no_grad,
        "[{}] the body changes a captured tensor ({}) in place, and gradients flow through it; make it a part "
        "of the carry",
        who_, path);
    check_memory_is_its_own(buffer, path, body);
    buffers_.push_back(buffer);
    found = true;
  }
  return found;
}

// The body runs on contiguous carries. In the same loop written out, carries are laid out as they come, and a draw for
// a tensor like a carry fills it in memory order: the same numbers, but for other elements. A write to reshape() of a
// carry reaches the carry if that is a view, and does not if it is a copy.
void Capturer::check_layouts(const std::shared_ptr<const Body>& body) const {
  std::vector<TensorMeta> carries = carries_;
  for (size_t i = 0; i < carries.size(); ++i) carries[i].strides = meta_of_argument(init_.tensors[i]).strides;
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
    for (size_t i = 0; i < carries.size(); ++i) carries[i].strides = as_they_come->result(i).strides;
  }
}

// A carry is a value, so another tensor that shares the buffer's memory would not see the buffer change. Real tensors
// that share memory are captured as views of one another; those of another trace are not.
void Capturer::check_memory_is_its_own(const at::Tensor& buffer, const std::string& path, const Body& body) const {
  const auto check = [&](const at::Tensor& other, const std::string& other_path) {
    DIPTYCH_CHECK(!share_memory_in_traces(other, buffer),
                  "[{}] the body changes a captured tensor ({}) in place, whose memory '{}' shares; capture one of "
                  "them, and take views of it in the body",
                  who_, path, other_path);
  };
  for (size_t i = 0; i < init_.tensors.size(); ++i) check(init_.tensors[i], init_.spec.tensor_path(i));
  for (size_t i = 0; i < inputs_.given.size(); ++i) check(inputs_.given[i], inputs_.paths[i]);
  const size_t num_arguments = body.num_inputs() - body.free_variables().size();
  for (size_t i = 0; i < body.free_variables().size(); ++i) {
    const at::Tensor& other = body.free_variables()[i];
    if (other.is_same(buffer) || (!is_stand_in(buffer) && !is_stand_in(other))) continue;
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

LoopBody capture_loop_body(const char* who, const FlatFunction& step, const Flattened& init, const LoopInputs& inputs) {
  return Capturer(who, step, init, inputs).run();
}

Tensors LoopBody::buffer_operands() const {
  Tensors copies;
  for (const at::Tensor& buffer : buffers) copies.push_back(buffer.clone());
  return copies;
}

Tensors LoopBody::write_buffers(Tensors results, size_t num_carries) const {
  const auto begin = results.begin() + static_cast<int64_t>(num_carries);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers.size(); ++i) at::Tensor(buffers[i]).copy_(*(begin + static_cast<int64_t>(i)));
  results.erase(begin, begin + static_cast<int64_t>(buffers.size()));
  return results;
}

}  // namespace diptych::detail
