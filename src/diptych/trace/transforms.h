// What makes a call one for eager: tensors and states of the thread under which operators mean more than they mean in a
// graph.
//
// Note [Transformed calls]: a graph stands for what a function does to plain tensors on a thread in its ordinary state.
// Forward-mode duals, torch.func's and vmap's wrappers, tensor subclasses, and modes change what each operator does,
// and are gone when the call is over; what a graph recorded under them would be wrong in the next call, and a graph
// that was recorded without them gives no tangent. So they are looked for at the door of each compiled function and
// higher-order operator, and such a call runs the user's own function, which does what it does in eager. A tensor that
// the door does not see, as a function captures it, is met by the trace: see TransformMet.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ArrayRef.h>

#include <map>
#include <optional>
#include <string>

#include "diptych/base/error.h"
#include "diptych/graph/tensor_meta.h"

namespace diptych {

/// How many calls were run by the function itself and not by a graph, by "[who] why", since the process began.
/// Threads: any.
std::map<std::string, size_t> eager_calls();

namespace detail {

/// Keys of tensors that stand for others, or of whose operators someone else has a say. Real plain tensors have none.
inline constexpr c10::DispatchKeySet kTransformedKeys({
    c10::DispatchKey::FuncTorchGradWrapper,
    c10::DispatchKey::FuncTorchBatched,
    c10::DispatchKey::BatchedNestedTensor,
    c10::DispatchKey::Batched,
    c10::DispatchKey::Python,
    c10::DispatchKey::Functionalize,
    c10::DispatchKey::Fake,
});

/// Whether a tensor has a forward-mode tangent, of its own or by what it is a view of.
bool has_tangent(const at::Tensor& tensor);

/// Why operators on this tensor mean more than they mean in a graph: "has a forward-mode tangent"; nothing for a plain
/// tensor, an undefined one, and a stand-in of a trace.
std::optional<std::string> transform_of(const at::Tensor& tensor);

/// Why operators on this thread mean more than they mean in a graph: "a TorchDispatchMode is active"; nothing in the
/// ordinary state. Inside a trace, what tracing itself sets does not count.
std::optional<std::string> transform_of_thread();

/// The same but for what changes no value that a graph would hold: hooks on saved tensors, and anomaly mode.
std::optional<std::string> transform_of_keys_and_modes();

/// The same for transforms of torch.func and vmap alone.
std::optional<std::string> transform_of_levels();

/// The thread's modes that only the host language knows, as a text, or nothing; asked where there are any at all.
using ModeReader = std::optional<std::string> (*)();
void set_mode_reader(ModeReader reader);

/// False in the ordinary state: then transform_of_thread() has nothing to say. Costs some nanoseconds.
bool thread_may_transform();

/// The metadata of a tensor, plain or not, as a contiguous one: what wrapped tensors know of themselves.
TensorMeta logical_meta(const at::Tensor& tensor);

/// Counts a call that was run by the function itself.
void note_eager_call(const std::string& who, const std::string& why);

/// Thrown by a capture that has met what Note [Transformed calls] speaks of. Who has the function at hand runs it.
class TransformMet final : public UserError {
 public:
  explicit TransformMet(const std::string& why);
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

/// Errors: UserError, naming `who` and the tensor, for one that no graph stands for, where there is no function to run.
void check_plain(std::string_view who, c10::ArrayRef<at::Tensor> tensors);

}  // namespace detail
}  // namespace diptych
