#include "diptych/backward/backward_trace.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include "diptych/backward/replay.h"
#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;
namespace ca = torch::dynamo::autograd;

/// What nodes call while they are replayed; each call finds the replay that it belongs to.
class ReplayInterface final : public ca::PyCompilerInterface {
 public:
  static Replay& replay(PyObject* compiler) { return *reinterpret_cast<Replay*>(compiler); }

  std::string bind_function(PyObject* compiler, const std::string& name, ca::functional_apply_t function,
                            std::vector<at::TypePtr> /*schema*/, bool is_custom, bool is_traceable) const override {
    return replay(compiler).bind(name, std::move(function), is_custom, is_traceable);
  }
  ag::variable_list call_function(PyObject* compiler, const char* /*method*/, const std::string& name,
                                  const ag::variable_list& inputs, const std::vector<c10::IValue>& arguments,
                                  const c10::IValue& /*output_metadata*/) const override {
    return replay(compiler).call(name, inputs, arguments);
  }
  // For an in-place operator on a view: the gradient of the base, the slice of it that the view was, and a copy of
  // that.
  ag::variable_list call_copy_slices_prologue(PyObject* compiler, const ag::variable_list& inputs,
                                              const at::TensorGeometry& base,
                                              const at::TensorGeometry& view) const override {
    return replay(compiler).guarded(
        [&]() -> ag::variable_list {
          // A tensor with gaps is a view of all the memory that it spans, since a value of a graph has no gaps.
          const auto extent = static_cast<int64_t>(
              at::detail::computeStorageNbytes(base.sizes(), base.strides(), /*itemsize_bytes=*/1));
          const bool has_gaps = extent != base.numel();
          const at::Tensor memory = has_gaps ? at::zeros({extent}, inputs[0].options())
                                             : at::empty_strided(base.sizes(), base.strides(), inputs[0].options());
          const at::Tensor result = has_gaps ? memory.as_strided(base.sizes(), base.strides(), 0) : memory;
          result.copy_(inputs[0]);
          const auto offset = view.storage_offset() - base.storage_offset();
          const at::Tensor slice = memory.as_strided(view.sizes(), view.strides(), offset);
          return {result, slice, slice.clone()};
        },
        ag::variable_list(3));
  }
  ag::variable_list call_copy_slices_epilogue(PyObject* compiler, const std::vector<bool>& needs_input_grad,
                                              const at::Tensor& result, const ag::variable_list& gradients,
                                              const at::Tensor& slice) const override {
    return replay(compiler).guarded(
        [&] {
          ag::variable_list found(needs_input_grad.size());
          for (size_t i = 0; i < found.size(); ++i) {
            if (!needs_input_grad[i] || !gradients[i].defined()) continue;
            if (i == 0) slice.copy_(gradients[0]);
            found[i] = i == 0 ? result : gradients[i];
          }
          return found;
        },
        ag::variable_list(needs_input_grad.size()));
  }
  at::Tensor call_unpack(PyObject* /*compiler*/, std::optional<size_t> /*hook*/, size_t /*input*/) const override {
    throw InternalError("a saved tensor with hooks would have to be unpacked in a graph");
  }
  at::Tensor call_accumulate_grad(PyObject* /*compiler*/, const at::Tensor& /*variable*/, const at::Tensor& /*grad*/,
                                  const at::Tensor& /*incoming*/, bool /*has_post_hooks*/) const override {
    throw InternalError("an accumulation was replayed, but must stay eager");
  }
};

}  // namespace

BackwardTrace trace_backward(const std::vector<RunCall>& calls, RunContents& contents,
                             const std::vector<bool>& stays_eager, const std::vector<int64_t>& sizes, HookMode hooks) {
  const ca::PyCompilerGuard guard(std::make_unique<ReplayInterface>());
  return Replay(calls, contents, stays_eager, sizes, hooks).run();
}

}  // namespace diptych::detail
