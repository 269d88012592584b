#include "diptych/native/call/call_shapes.h"

#include <algorithm>
#include <utility>

#include "diptych/base/error.h"
#include "diptych/native/call/overwritable_inputs.h"
#include "diptych/native/kernel/memory_extent.h"

namespace diptych::detail {
namespace {

// Reads values one after the other.
class Reader {
 public:
  explicit Reader(const std::vector<int64_t>& values) : next_(values.begin()) {}
  std::vector<int64_t> take(size_t count) {
    std::vector<int64_t> taken(next_, next_ + static_cast<std::ptrdiff_t>(count));
    next_ += static_cast<std::ptrdiff_t>(count);
    return taken;
  }

 private:
  std::vector<int64_t>::const_iterator next_;
};

CallShapes::Tensor tensor_of(const TensorMeta& meta, Reader& reader) {
  const size_t rank = meta.sizes.size();
  auto sizes = reader.take(rank), strides = reader.take(rank);
  return CallShapes::Tensor::of(meta.dtype, std::move(sizes), std::move(strides));
}

int64_t value_of(const SizeTerm& size, const std::vector<int64_t>& symbols) {
  return size.is_constant() ? size.factor : size.factor * symbols[size.symbol];
}

}  // namespace

CallShapes::Tensor CallShapes::Tensor::of(at::ScalarType dtype, std::vector<int64_t> sizes,
                                          std::vector<int64_t> strides) {
  const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  const bool fills = detail::is_dense(sizes, strides);
  return {dtype, std::move(sizes), std::move(strides), is_empty, fills};
}

BodyShapes::BodyShapes(const Graph& body, std::shared_ptr<const KernelCode> code)
    : code_(std::move(code)), sizes_(body), wanted_(sizes_of_call(body, code_->symbols)) {
  for (const Value input : body.inputs()) inputs_.push_back(body.meta(input));
  for (const Value output : body.outputs()) outputs_.push_back(body.meta(output));
  if (code_->code != nullptr && !sizes_.is_dynamic()) fixed_ = make(sizes_.values(wanted_, {}));
}

std::shared_ptr<const CallShapes> BodyShapes::find(const std::vector<at::Tensor>& inputs) const {
  if (fixed_ != nullptr) return fixed_;
  if (inputs.size() != inputs_.size()) return nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].dim() != static_cast<int64_t>(inputs_[i].sizes.size())) return nullptr;
  }
  auto observed = sizes_.observe(inputs);
  {
    const std::lock_guard lock(mutex_);
    if (observed == last_observed_) return last_;
  }
  std::shared_ptr<const CallShapes> found;
  try {
    found = make(sizes_.values(wanted_, observed));
  } catch (const UserError&) {
    // The interpreter tells what is wrong.
  }
  const std::lock_guard lock(mutex_);
  last_observed_ = std::move(observed);
  last_ = found;
  return found;
}

std::shared_ptr<const CallShapes> BodyShapes::make(const std::vector<int64_t>& values) const {
  auto shapes = std::make_shared<CallShapes>();
  Reader reader(values);
  shapes->symbols = reader.take(code_->symbols.size());
  for (const TensorMeta& meta : inputs_) shapes->inputs.push_back(tensor_of(meta, reader));
  for (const TensorMeta& meta : outputs_) shapes->outputs.push_back(tensor_of(meta, reader));
  const auto is_empty = [](const CallShapes::Tensor& tensor) { return tensor.is_empty; };
  shapes->is_empty = std::all_of(shapes->outputs.begin(), shapes->outputs.end(), is_empty);
  shapes->overwrites.resize(shapes->outputs.size());
  if (shapes->is_empty) return shapes;
  if (sizes_.is_dynamic()) {
    const bool any_empty = std::any_of(shapes->inputs.begin(), shapes->inputs.end(), is_empty) ||
                           std::any_of(shapes->outputs.begin(), shapes->outputs.end(), is_empty);
    if (any_empty || !stays_inside(*shapes)) return nullptr;
  }
  find_overwrites(*shapes);
  return shapes;
}

// Reads at other places than the point's are right where the body's sizes are, which the symbols do not promise.
bool BodyShapes::stays_inside(const CallShapes& shapes) const {
  const Kernel& kernel = *code_->kernel;
  const auto is_size = [](int64_t size) { return size >= 0; };
  for (const auto* tensors : {&shapes.inputs, &shapes.outputs}) {
    for (const CallShapes::Tensor& tensor : *tensors) {
      if (!std::all_of(tensor.sizes.begin(), tensor.sizes.end(), is_size)) return false;
      if (!std::all_of(tensor.strides.begin(), tensor.strides.end(), is_size)) return false;
    }
  }
  return std::all_of(kernel.values.begin(), kernel.values.end(), [&](const KernelValue& value) {
    const auto* load = std::get_if<KernelLoad>(&value.made_by);
    if (load == nullptr || load->mask) return true;
    int64_t first = 0, last = 0;
    for (const IndexTerm& term : load->map.terms()) {
      if (term.factor == IndexFactor::kValue) return true;  // what it counts along is checked by the kernel
      const int64_t step = value_of(term.coefficient, shapes.symbols);
      const int64_t most = term.factor == IndexFactor::kOne ? 1 : value_of(kernel.extents[term.id], shapes.symbols) - 1;
      if (term.factor == IndexFactor::kOne) {
        first += step;
        last += step;
      } else {
        (step < 0 ? first : last) += step * most;
      }
    }
    const CallShapes::Tensor& input = shapes.inputs[load->input];
    return first >= 0 && last < span_of(input.sizes, input.strides);
  });
}

void BodyShapes::find_overwrites(CallShapes& shapes) const {
  // Where the check fails, the interpreter needs the inputs.
  if (code_->has_check) return;
  const auto inputs = overwritable_inputs(*code_->kernel);
  for (size_t output = 0; output < shapes.outputs.size(); ++output) {
    const CallShapes::Tensor& tensor = shapes.outputs[output];
    for (const int32_t input : inputs[output]) {
      if (shapes.inputs[input].sizes != tensor.sizes || shapes.inputs[input].strides != tensor.strides) continue;
      CallShapes::Overwrite overwrite{static_cast<size_t>(input), {}};
      overwrite.needs.sizes = tensor.sizes;
      overwrite.needs.strides = tensor.strides;
      shapes.overwrites[output].push_back(std::move(overwrite));
    }
  }
}

}  // namespace diptych::detail
