// Which values of a captured backward may turn out undefined.
#pragma once
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

namespace diptych::detail {

/// Note [Undefined on the way]: a graph's values are always defined, but a result of a hook or an eager node may turn
/// out undefined. Zeros then flow in its place. Each eager result has a number, so that a value into which only such
/// zeros have flowed is handed out as undefined after all. An eager call knows the numbers for each of its operands; an
/// empty list says that the value is always defined.
using MaybeUndefined = std::vector<int64_t>;

/// Encodes lists of maybe_undefined as one constant of a node: the count of each, then its numbers.
c10::List<int64_t> encode_maybe_undefined(const std::vector<MaybeUndefined>& lists);
std::vector<MaybeUndefined> decode_maybe_undefined(const std::vector<int64_t>& numbers);

/// The maybe_undefined of the tensors of one trace.
class MaybeUndefinedTensors {
 public:
  /// Returns the numbers of a tensor; none if it is undefined, or always defined.
  MaybeUndefined of(const at::Tensor& tensor) const;
  /// Sets the numbers of a tensor, unless it has some already.
  void set(const at::Tensor& tensor, MaybeUndefined maybe_undefined);
  /// Sets the numbers of a node's outputs, which turn out undefined only if all its inputs do.
  void derive(at::TensorList inputs, at::TensorList outputs);

 private:
  const MaybeUndefined* find(const at::Tensor& tensor) const;

  std::unordered_map<const c10::TensorImpl*, MaybeUndefined> maybe_undefined_;
  std::vector<at::Tensor> kept_;  ///< the tensors in the map
};

}  // namespace diptych::detail
