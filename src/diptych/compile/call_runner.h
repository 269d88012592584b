// How a call of a compiled function is run: by a capture that fits, by a new one, or by the function itself.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/cache.h"
#include "diptych/compile/check.h"
#include "diptych/compile/erased_call.h"
#include "diptych/compile/transformed_calls.h"
#include "diptych/native/native_graph.h"

namespace diptych::detail {

/// The captures of one function, and what is decided about its calls. Threads: any number at once.
class CallRunner {
 public:
  explicit CallRunner(AotOptions options);
  ~CallRunner();
  CallRunner(const CallRunner&) = delete;
  CallRunner& operator=(const CallRunner&) = delete;

  /// Runs a call, capturing it first if the guards of no earlier capture hold. Errors: as Aot.
  void run(ErasedCall& call);
  /// See Aot.
  CacheStats stats() const;
  std::string explain() const;
  std::vector<std::shared_ptr<const CompiledFunction>> captures() const;
  std::vector<NativeGraph> native_graphs() const;
  void clear();
  void count_original(const std::string& why) { cache_.count_original(why); }

 private:
  using EntryPtr = std::shared_ptr<const Cache::Entry>;

  void run_in_eager(ErasedCall& call, const std::string& why);
  void run_in_transform(ErasedCall& call, const std::string& why);
  std::shared_ptr<const TransformedCalls::Entry> capture_transformed(ErasedCall& call, const Flattened& flat);
  void run_new(ErasedCall& call, Flattened flat, Cache::Tensors& tensors);
  void serve(ErasedCall& call, const EntryPtr& entry, const Cache::Tensors& tensors, std::vector<at::Tensor> handed_on);
  void run_checked(ErasedCall& call, const EntryPtr& entry, const Cache::Tensors& tensors);
  bool constants_are_due(const ErasedCall& call, const Cache::Entry& entry) const;
  void check_constants_of(ErasedCall& call, const Cache::Entry& entry, Cache::Tensors tensors) const;
  void run_original(ErasedCall& call);
  void run_entry(ErasedCall& call, const Cache::Entry& entry, const Cache::Tensors& tensors,
                 std::vector<at::Tensor> handed_on);
  EntryPtr capture(ErasedCall& call, const Flattened& flat, Cache::Tensors& tensors);
  EntryPtr find_by_trace(const ErasedCall& call, const Cache::Miss& miss);
  std::shared_ptr<Cache::Entry> make_watched(const ErasedCall& call, const Cache::Miss& miss);

  AotOptions options_;
  Cache cache_;
  CheckSchedule check_;
  TransformedCalls transformed_;
};

}  // namespace diptych::detail
