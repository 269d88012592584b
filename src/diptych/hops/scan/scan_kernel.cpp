#include "diptych/hops/scan/scan_kernel.h"

// A step's overhead besides its operators is a few dozen nanoseconds: views of slices are moved along rather than made
// again, and an output that already has its final layout is copied into the stack as bytes.
#include "diptych/base/error.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/unroll.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

/// The rows of a tensor along its first dimension, as tensors that share its memory.
class StackedRows {
 public:
  explicit StackedRows(const at::Tensor& stack) : stack_(stack), offset_(stack.storage_offset()) {
    if (stack.size(0) > 0) stride_ = stack.stride(0);
  }

  /// Returns row number `index`: the same tensor every time, moved along, unless someone keeps it.
  const at::Tensor& operator[](int64_t index) {
    if (!row_.defined() || row_.use_count() > 1) row_ = make();
    row_.unsafeGetTensorImpl()->set_storage_offset(offset_ + index * stride_);
    return row_;
  }
  const at::Tensor& stack() const { return stack_; }
  void* data(int64_t index) const {
    return static_cast<char*>(stack_.mutable_data_ptr()) + index * stride_ * static_cast<int64_t>(stack_.itemsize());
  }

 private:
  // Makes a row as at::select does, without the dispatcher.
  at::Tensor make() const {
    auto row = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(stack_.storage()),
                                                        stack_.key_set(), stack_.dtype());
    row.unsafeGetTensorImpl()->set_sizes_and_strides(stack_.sizes().slice(1), stack_.strides().slice(1));
    return row;
  }

  at::Tensor stack_;
  at::Tensor row_;
  int64_t offset_;
  int64_t stride_ = 0;
};

/// Where the outputs of steps go.
class StackWriter {
 public:
  StackWriter(const TensorMeta& meta)  // NOLINT(google-explicit-constructor): a list of metas becomes one of writers
      : rows_(empty_like_meta(meta)), sizes_(slice_of(meta).size_hints()), strides_(slice_of(meta).stride_hints()) {
    is_plain_ = meta.device.is_cpu();
    row_bytes_ = rows_.stack().size(0) > 0 ? rows_.stack().numel() / rows_.stack().size(0) : 0;
    row_bytes_ *= static_cast<int64_t>(rows_.stack().itemsize());
  }

  void write(int64_t index, const at::Tensor& value) {
    const bool lies_alike = is_plain_ && value.strides() == c10::IntArrayRef(strides_) && !value.is_conj() &&
                            !value.is_neg() && value.sizes() == c10::IntArrayRef(sizes_) &&
                            value.dtype() == rows_.stack().dtype();
    if (lies_alike) {
      if (row_bytes_ > 0) std::memcpy(rows_.data(index), value.const_data_ptr(), row_bytes_);
    } else {
      at::Tensor(rows_[index]).copy_(value);
    }
  }
  const at::Tensor& stack() const { return rows_.stack(); }

 private:
  StackedRows rows_;
  std::vector<int64_t> sizes_, strides_;
  int64_t row_bytes_ = 0;
  bool is_plain_ = false;
};

/// Runs the steps of one scan.
class ScanKernel {
 public:
  explicit ScanKernel(const Hop& hop) : body_(hop.bodies()[0]), results_(hop.results()), layout_(hop) {
    const int64_t together = std::min(layout_.unroll, layout_.length);
    if (together > 1 && detail::can_unroll(*body_->graph(), layout_.num_carries)) {
      unrolled_ = std::make_shared<const Program>(
          detail::unroll(*body_->graph(), layout_.num_carries, layout_.num_slices, together));
      together_ = together;
    }
    for (size_t i = 0; i < layout_.num_carries; ++i) carry_strides_.push_back(body_->input(i).stride_hints());
  }

  Tensors operator()(Tensors&& operands) const {
    const Tensors kept = operands;  // held until own_results() has compared the results with them
    Run run = start(operands);
    operands.clear();
    int64_t step = 0;
    if (unrolled_) {
      for (; step + together_ <= layout_.length; step += together_) advance(run, *unrolled_, step, together_);
    }
    if (step < layout_.length) {
      const Program& program = body_->program();
      for (; step < layout_.length; ++step) advance(run, program, step, 1);
    }
    Tensors results = std::move(run.carries);
    for (const auto& stack : run.stacks) results.push_back(stack.stack());
    own_results(results_, kept, results);
    return results;
  }

 private:
  struct Run {
    Tensors carries;                  ///< and behind them room for a program's inputs
    std::vector<StackedRows> slices;  ///< for each slice, one view per step of those run together
    Tensors free;
    std::vector<StackWriter> stacks;
  };

  Run start(Tensors& operands) const {
    Run run;
    for (size_t i = 0; i < layout_.num_carries; ++i) {
      run.carries.push_back(with_strides(operands[i], body_->input(i)));
    }
    const size_t first_free = layout_.num_carries + layout_.num_slices;
    for (size_t i = layout_.num_carries; i < first_free; ++i) {
      operands[i] = with_slice_strides(operands[i], body_->input(i));
    }
    for (int64_t k = 0; k < together_; ++k) {
      for (size_t i = layout_.num_carries; i < first_free; ++i) run.slices.emplace_back(operands[i]);
    }
    for (size_t i = 0; i < layout_.num_free; ++i) {
      run.free.push_back(with_strides(operands[first_free + i], body_->input(first_free + i)));
    }
    const auto stacks = results_.begin() + static_cast<int64_t>(layout_.num_carries);
    run.stacks.assign(stacks, results_.end());
    for (size_t i = 0; i < run.stacks.size(); ++i) {
      if (!layout_.has_front(i)) continue;
      run.stacks[i].write(layout_.reverse ? layout_.length : 0, run.carries[layout_.fronts[i]]);
    }
    return run;
  }

  // Runs `count` steps from number `step` on as one program.
  void advance(Run& run, const Program& program, int64_t step, int64_t count) const {
    Tensors inputs = std::move(run.carries);
    inputs.resize(layout_.num_carries);
    for (int64_t k = 0; k < count; ++k) {
      for (size_t i = 0; i < layout_.num_slices; ++i) {
        inputs.push_back(run.slices[k * layout_.num_slices + i][row_of(step + k)]);
      }
    }
    inputs.insert(inputs.end(), run.free.begin(), run.free.end());
    Tensors outputs = program.run(std::move(inputs));
    auto next = outputs.begin() + static_cast<int64_t>(layout_.num_carries);
    for (int64_t k = 0; k < count; ++k) {
      for (size_t i = 0; i < run.stacks.size(); ++i) {
        const bool is_shifted = layout_.has_front(i) && !layout_.reverse;
        run.stacks[i].write(row_of(step + k) + (is_shifted ? 1 : 0), *next++);
      }
    }
    outputs.resize(layout_.num_carries);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool is_lazy = outputs[i].is_conj() || outputs[i].is_neg();
      if (is_lazy || outputs[i].strides() != c10::IntArrayRef(carry_strides_[i])) {
        outputs[i] = with_strides(outputs[i], body_->input(i));
      }
    }
    run.carries = std::move(outputs);
  }

  int64_t row_of(int64_t step) const { return layout_.reverse ? layout_.length - 1 - step : step; }

  at::Tensor with_slice_strides(const at::Tensor& source, const TensorMeta& slice) const {
    const int64_t length = layout_.length;
    if (length == 0 || with_strides(source.select(0, 0), slice).is_alias_of(source)) return source;
    return with_strides(source, stacked(slice, length));
  }

  std::shared_ptr<const Body> body_;  // and not the hop, which holds this
  std::shared_ptr<const Program> unrolled_;
  int64_t together_ = 1;
  std::vector<TensorMeta> results_;
  std::vector<std::vector<int64_t>> carry_strides_;
  detail::ScanLayout layout_;
};

}  // namespace

HopFunction make_scan_kernel(const Hop& scan) { return ScanKernel(scan); }

}  // namespace diptych::detail
