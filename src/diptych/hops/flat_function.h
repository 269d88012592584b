// A user's function of trees as a function of flat tensors, and its result back as a tree.
#pragma once
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/hops/transformed_call.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// How an argument travels into the traced function: by value, with stand-ins for its tensors. A module travels by
/// reference, since it is known by its address; its tensors are exchanged when an operator meets them.
template <class T>
using Held = std::conditional_t<is_by_identity<std::remove_cv_t<T>>(), T&, std::remove_cv_t<T>>;

/// Puts tensors into the leaves in order, passing over those of modules.
class StandInFiller final : public LeafReplacer {
 public:
  explicit StandInFiller(c10::ArrayRef<at::Tensor> tensors) : tensors_(tensors) {}
  void tensor(const Path& path, at::Tensor& leaf) override;
  void module_tensor(const Path& path, const at::Tensor& tensor) override;
  /// Errors: UserError if there were not as many leaves as tensors.
  void check_count() const;

 private:
  c10::ArrayRef<at::Tensor> tensors_;
  size_t next_ = 0;
};

/// The flattened result of a user's function as that of a flat one.
FlatResult flat_result(Flattened&& flat);

/// The user's function on flat tensors. `result` receives what it returned, without tensors, when it has run. A
/// function that may be run several times for one capture, and leaves something behind, has a member `void
/// begin_trace()`, which is called before the arguments are looked at.
template <class Result, class F, class... A>
FlatFunction make_flat(F& function, std::shared_ptr<Result>& result, A&... arguments) {
  return [&function, &result, &arguments...](const std::vector<at::Tensor>& stand_ins) -> FlatResult {
    if constexpr (requires { function.begin_trace(); }) function.begin_trace();
    std::tuple<Held<A>...> held(arguments...);
    StandInFiller filler(stand_ins);
    LeafReplacer& replacer = filler;
    std::apply([&](auto&... argument) { (visit_leaves(argument, Path(), replacer), ...); }, held);
    filler.check_count();
    Result value = std::apply([&](auto&... argument) -> Result { return function(argument...); }, held);
    FlatResult flat = flat_result(diptych::flatten(value));
    // The example keeps the structure and the constants, and no tensor of the trace.
    LeafEmptier emptier;
    visit_leaves<Result, LeafReplacer>(value, Path(), emptier);
    result = std::make_shared<Result>(std::move(value));
    return flat;
  };
}

template <class Result>
Result make_result(const Result& example, std::vector<at::Tensor>&& tensors) {
  if constexpr (std::is_same_v<Result, at::Tensor>) {
    return std::move(tensors[0]);
  } else {
    return unflatten(example, tensors);
  }
}

}  // namespace diptych::detail

namespace diptych {
// Operators from outside the library are built with these, too.
using detail::make_flat;
using detail::make_result;
}  // namespace diptych
