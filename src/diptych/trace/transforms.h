// Tensors and states of a thread under which operators do more than a graph does, so that a call must run eagerly.
//
// Note [Transformed calls]: a graph stands for what a function does to plain tensors on a thread in its ordinary state.
// Forward-mode duals, wrappers of torch.func and vmap, tensor subclasses and modes change what each operator does, and
// are gone after the call. A graph recorded under them would be wrong in the next call, and a graph recorded without
// them computes no tangents. Each compiled function and higher-order operator therefore looks for them when it is
// called, and runs the user's own function if it finds one. A tensor that is not an argument, because the function
// captures it, is found by the trace: see TransformMet.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ArrayRef.h>

#include <map>
#include <optional>
#include <string>

#include "diptych/base/error.h"
#include "diptych/graph/tensor_meta.h"
#include "diptych/ops/dispatch_keys.h"

namespace diptych {

/// Returns how many calls ran the function itself instead of a graph, by "[who] why", since the process began.
/// Threads: any.
std::map<std::string, size_t> eager_calls();

namespace detail {

/// Dispatch keys of the wrappers that higher-order operators have rules for: those of torch.func.
inline constexpr c10::DispatchKeySet kWrapperKeys({c10::DispatchKey::FuncTorchGradWrapper,
                                                   c10::DispatchKey::FuncTorchBatched});

/// Whether a tensor, or the tensor that it is a view of, has a forward-mode tangent.
bool has_tangent(const at::Tensor& tensor);

/// Returns why operators on this tensor do more than they do in a graph: "has a forward-mode tangent"; nullopt for a
/// plain tensor, an undefined one, and a stand-in of a trace.
std::optional<std::string> transform_of(const at::Tensor& tensor);

/// Returns whether higher-order operators have rules for what this tensor carries: wrappers of torch.func and vmap, and
/// forward-mode tangents, in any nesting.
bool has_rules(const at::Tensor& tensor);

/// Returns why operators on this thread do more than they do in a graph: "a TorchDispatchMode is active"; nullopt in
/// the ordinary state. Inside a trace, the state that tracing itself sets does not count.
std::optional<std::string> transform_of_thread();

/// The same without states that change no value in a graph: hooks on saved tensors, and anomaly mode.
std::optional<std::string> transform_of_keys_and_modes();

/// The same for transforms of torch.func and vmap only.
std::optional<std::string> transform_of_levels();

/// The same without those that higher-order operators have rules for: see levels.h.
std::optional<std::string> transform_without_rules();

/// Reads the thread's modes that only the host language knows, as a text, or nullopt. It is asked if there are any.
using ModeReader = std::optional<std::string> (*)();
void set_mode_reader(ModeReader reader);

/// Returns false in the ordinary state, in which transform_of_thread() returns nullopt. Costs some nanoseconds.
bool thread_may_transform();

/// Returns the metadata of a tensor, plain or wrapped, as a function sees it: with its strides if these are dense, else
/// as if it were contiguous. It requires grad where the tensor is differentiated at any level.
TensorMeta logical_meta(const at::Tensor& tensor);

/// Counts a call that ran the function itself.
void note_eager_call(const std::string& who, const std::string& why);

/// Thrown by a capture that finds a transform; a caller that has the function runs it. See Note [Transformed calls].
class TransformMet final : public UserError {
 public:
  explicit TransformMet(const std::string& why);
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

/// Checks that tensors are plain, where there is no function to run instead of a graph. Errors: UserError names `who`
/// and the tensor.
void check_plain(std::string_view who, c10::ArrayRef<at::Tensor> tensors);

}  // namespace detail
}  // namespace diptych
