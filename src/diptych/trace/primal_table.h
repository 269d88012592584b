// The primals of a trace: tensors from outside that the graph takes as inputs, and their stand-ins.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// A tensor from outside that the graph takes as input.
struct Primal {
  at::Tensor real;
  at::Tensor stand_in;
  Value value;                 ///< what it stood for before the function ran
  torch::autograd::Edge edge;  ///< where its gradient arrives; invalid if it requires none
  Slot slot;
  at::Tensor wrapped = {};             ///< the tensor from outside, where `real` only looks like it
  std::optional<size_t> same_as = {};  ///< the earlier primal that is the same tensor, whose stand-in it shares
  std::optional<size_t> part_of = {};  ///< merged: the primal that it is a view of, where its gradient arrives
  std::optional<size_t> base_of = {};  ///< added by a merge: the primal that is a view of it
  uint32_t version = 0;                ///< of its stand-in, before the function ran
  std::optional<int64_t> place = {};   ///< merged: where it begins in the storage that it is put on, in elements
  /// Where it begins in what its stand-in's chain of views starts from.
  int64_t offset() const { return place.value_or(real.storage_offset()); }
  /// Whether autograd knows of the changes that the function has made: those by x.data alone count no version.
  bool counts_changes() const { return stand_in.is_inference() || stand_in._version() != version; }
  const at::Tensor& outside() const { return wrapped.defined() ? wrapped : real; }
};

/// The storage of the graph's own on which primals that share memory were put: see Note [Merged primals].
struct MergedBase {
  at::Tensor base;  ///< stands for the whole storage
  std::vector<size_t> members;
  bool holds(size_t index) const { return std::find(members.begin(), members.end(), index) != members.end(); }
};

/// Sets up the stand-in of a primal to require a gradient as the real tensor does, and its edge.
void give_history(Primal& primal);

/// Knows the primals and finds them by their real tensors and by their stand-ins. It adds nothing to the graph: the
/// Recorder makes the inputs, and merge_primals() puts primals that share memory on one storage.
/// Assumes: it is used by one thread, while its trace runs.
class PrimalTable {
 public:
  /// The arguments, then the free variables in order of first use.
  const std::vector<Primal>& all() const { return primals_; }
  size_t size() const { return primals_.size(); }
  Primal& operator[](size_t index) { return primals_[index]; }
  const Primal& operator[](size_t index) const { return primals_[index]; }
  size_t index_of(const Primal& primal) const { return static_cast<size_t>(&primal - primals_.data()); }

  /// Adds a primal for `given`, with its history. If there is one already, the new one shares its stand-in. `given`
  /// finds it from now on, also where `primal.real` is another tensor that represents it.
  Primal& add(const at::Tensor& given, Primal primal);
  /// Returns "free.3", the path of the next free variable.
  std::string next_free_path() { return "free." + std::to_string(num_free_variables_++); }
  /// Returns the free variables that have such a path and come from outside any trace, by index.
  std::vector<size_t> unnamed() const;
  /// Returns whether a primal has the path.
  bool has_path(std::string_view path) const;

  /// Notes that the function has met the real tensor of an argument, which it captures as well: a call with another
  /// argument finds another tensor there.
  void note_captured(const Primal& argument) { captured_arguments_.insert(index_of(argument)); }
  const std::set<size_t>& captured_arguments() const { return captured_arguments_; }

  /// Returns the first primal that was added for `tensor`; null if there is none.
  const Primal* find(const at::Tensor& tensor) const;
  /// Returns the primal that a stand-in is, or that the function took it from as a view; null if there is none. Merged
  /// primals share a storage in the trace, and so do views of any of them.
  const Primal* behind(const at::Tensor& stand_in) const;
  /// Returns the primal with a real tensor that `value` stands for; null if there is none.
  const Primal* of_value(Value value) const;
  /// Returns whether the history that begins at `from` leads to a primal.
  bool reached_from(const torch::autograd::Edge& from) const;

  /// From now on a tensor that occupies the memory of a primal, and is not a primal, stands for the primal's detach().
  /// See Note [Aliases that no operator made].
  void join_aliases() { joins_aliases_ = true; }
  bool joins_aliases() const { return joins_aliases_; }
  /// Returns the detach() that stands for `tensor` if aliases are joined and it is one; null otherwise.
  const at::Tensor* alias_of(const at::Tensor& tensor);

  const std::vector<MergedBase>& merged_bases() const { return merged_bases_; }
  void add_merged_base(MergedBase merged) { merged_bases_.push_back(std::move(merged)); }

  /// Errors: UserError if `reshaped`, whose shape the function has changed in place, is a captured tensor.
  void check_not_captured(const at::Tensor& reshaped) const;
  /// Releases the arguments' real tensors, which the caller owns; those of free variables stay.
  void release_arguments();

 private:
  std::vector<Primal> primals_;
  size_t num_free_variables_ = 0;
  std::vector<MergedBase> merged_bases_;
  std::set<size_t> captured_arguments_;
  bool joins_aliases_ = false;
  std::unordered_map<const c10::TensorImpl*, size_t> index_by_tensor_;
  /// An alias, which keeps its address, and what stands for it.
  std::unordered_map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> aliases_;
};

}  // namespace diptych::detail
