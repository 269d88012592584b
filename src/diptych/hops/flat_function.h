// A user's function of trees as a function of flat tensors, and its result back as a tree.
#pragma once
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/base/error.h"
#include "diptych/hops/transformed_call.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// How an argument travels into the traced function: by value, with stand-ins for its tensors. A module travels by
/// reference, since it is known by its address; its tensors are exchanged when an operator meets them.
template <class T>
using Held = std::conditional_t<is_by_identity<std::remove_cv_t<T>>(), T&, std::remove_cv_t<T>>;

/// Puts tensors into the leaves in order, passing over those of modules, and counts the leaves.
struct StandInFiller : LeafVisitor {
  static constexpr bool kReplacesTensors = true;
  c10::ArrayRef<at::Tensor> tensors;
  size_t next = 0;
  void tensor(const Path&, at::Tensor& leaf) {
    if (next < tensors.size()) leaf = tensors[next];
    ++next;
  }
  void module_tensor(const Path&, const at::Tensor&) { ++next; }
};

/// The user's function on flat tensors. `result` receives what it returned, without tensors, when it has run. A
/// function that may be run several times for one capture, and leaves something behind, has a member `void
/// begin_trace()`, which is called before the arguments are looked at.
template <class Result, class F, class... A>
FlatFunction make_flat(F& function, std::shared_ptr<Result>& result, A&... arguments) {
  return [&function, &result, &arguments...](const std::vector<at::Tensor>& stand_ins) -> FlatResult {
    if constexpr (requires { function.begin_trace(); }) function.begin_trace();
    std::tuple<Held<A>...> held(arguments...);
    StandInFiller filler;
    filler.tensors = stand_ins;
    std::apply([&](auto&... argument) { (visit_leaves(argument, Path(), filler), ...); }, held);
    DIPTYCH_CHECK(
        filler.next == stand_ins.size(),
        "[capture] the arguments hold {} tensors, expected {} as at the call; the function, or another thread, "
        "has changed what they lead to",
        filler.next, stand_ins.size());
    Result value = std::apply([&](auto&... argument) -> Result { return function(argument...); }, held);
    Flattened flat = diptych::flatten(value);
    note_subclass(flat.spec);
    std::vector<std::string> paths = flat.spec.tensor_paths();
    if (paths.size() == 1 && paths[0].empty()) paths[0] = "out";  // the result is a tensor itself
    // The example keeps the structure and the constants, and no tensor of the trace.
    result = std::make_shared<Result>(map_tensors(std::move(value), [](const at::Tensor&) { return at::Tensor(); }));
    return {std::move(flat.tensors), std::move(paths)};
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
