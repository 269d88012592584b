// Calls of a compiled function inside of transforms: see Note [Transformed hops].
#pragma once
#include <memory>
#include <shared_mutex>
#include <string>
#include <typeinfo>
#include <vector>

#include "diptych/compile/call_effects.h"
#include "diptych/compile/options.h"
#include "diptych/compile/value_path.h"
#include "diptych/hops/hop.h"
#include "diptych/trace/global_state.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// Captures of a function as hops, for arguments that levels wrap or that have tangents. They hold for any levels: a
/// graph is made of what the function does to one element, and the hop's rules make of it what each level needs.
/// Threads: any.
class TransformedCalls {
 public:
  struct Entry {
    TreeSpec spec;
    GlobalState state;
    std::vector<TensorMeta> metas;  ///< of the arguments as the function sees them
    const std::type_info* result_type = nullptr;
    std::string why = {};  ///< why calls of this kind run the function itself; empty if they call the hop
    HopPtr hop = nullptr;  ///< null if the function computes no new tensor
    std::vector<at::Tensor> free_variables = {};
    std::shared_ptr<const CallEffects> effects = nullptr;  ///< null if the function only computes new tensors
    std::shared_ptr<const void> result_example = nullptr;
    std::shared_ptr<ValuePath> path = nullptr;  ///< the answers that it holds for; null if the function asks nothing
    bool has_batch = false;                     ///< a vmap wraps an argument, so that its values are not known
    /// Whether later calls may use it: not if the function captures a wrapped tensor, which is another in each call.
    bool is_kept = true;
  };

  /// Returns the capture that fits; null if none does. If `path_limit` captures fit but for the answers to what they
  /// ask, it is one that runs the function itself.
  std::shared_ptr<const Entry> find(const Flattened& arguments, const std::type_info& result_type,
                                    size_t path_limit) const;
  /// Captures `function`, without keeping the capture. Requires: the arguments have rules (see has_rules()).
  /// Errors: as Body and CallEffects.
  static std::shared_ptr<Entry> make(const Flattened& arguments, const FlatFunction& function,
                                     const AotOptions& options);
  /// Describes the call `arguments` is, without a capture.
  static std::shared_ptr<Entry> describe(const Flattened& arguments);
  /// Returns the plain tensors that a call changes, of arguments and captured tensors.
  static std::vector<at::Tensor> written(const Entry& entry, const Flattened& arguments);
  void insert(std::shared_ptr<Entry> entry);
  /// Returns the results of a call. Errors: of rules and backends, as CallEffects::check(). Nothing is changed then.
  static std::vector<at::Tensor> call(const Entry& entry, const Flattened& arguments);
  void clear();

 private:
  static constexpr size_t kLimit = 64;
  mutable std::shared_mutex mutex_;
  std::vector<std::shared_ptr<const Entry>> entries_;
};

}  // namespace diptych::detail
