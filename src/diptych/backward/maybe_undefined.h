// Which values of a captured backward may turn out undefined.
#pragma once
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

namespace diptych::detail {

/// Note [Undefined on the way]: a graph's values are always defined, but what a hook or a node gives that is run as it
/// is may turn out not to be. Zeros then flow in its place, and each eager result has a number, so that whoever gets a
/// value that only such zeros flowed into gets an undefined one after all. For each of its operands an eager call knows
/// the numbers; an empty list says that the value is defined whatever happens.
using MaybeUndefined = std::vector<int64_t>;

/// Lists of maybe_undefined as one constant of a node: each one's count, then its numbers.
c10::List<int64_t> encode_maybe_undefined(const std::vector<MaybeUndefined>& lists);
std::vector<MaybeUndefined> decode_maybe_undefined(const std::vector<int64_t>& numbers);

/// The maybe_undefined of the tensors of one trace.
class MaybeUndefinedTensors {
 public:
  /// Undefined tensors have none, like those that are defined whatever happens.
  MaybeUndefined of(const at::Tensor& tensor) const;
  /// The first ones that a tensor is given stay.
  void set(const at::Tensor& tensor, MaybeUndefined maybe_undefined);
  /// For a node that gives something where something comes in.
  void derive(at::TensorList inputs, at::TensorList outputs);

 private:
  const MaybeUndefined* find(const at::Tensor& tensor) const;

  std::unordered_map<const c10::TensorImpl*, MaybeUndefined> maybe_undefined_;
  std::vector<at::Tensor> kept_;  ///< the tensors that it speaks of
};

}  // namespace diptych::detail
