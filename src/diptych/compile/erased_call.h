// One call of a compiled function, behind an interface without its types: a user's program holds these few functions
// for each kind of call that it makes, and everything else is in the library.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "diptych/compile/arguments.h"
#include "diptych/compile/capture_watch.h"
#include "diptych/hops/flat_function.h"

namespace diptych::detail {

/// A call, as what decides how it is run sees it. Threads: one.
class ErasedCall {
 public:
  /// The type of the result, and whether captures of the function are watched.
  const std::type_info& result_type;
  const bool is_watched;

  /// See match_arguments() and flatten_arguments().
  virtual bool match(const TreeSpec& spec, Cache::Tensors& tensors) const = 0;
  virtual Flattened flatten(const std::vector<std::string>& names) const = 0;
  virtual std::unique_ptr<CaptureWatch> watch() const = 0;
  /// The function on flat tensors. Each run of it leaves an example of its result: see make_flat().
  virtual FlatFunction flat_function() = 0;
  /// The example that the last run left; null if none did.
  virtual std::shared_ptr<const void> example() const = 0;
  /// Returns the structure of an example of this result.
  virtual TreeSpec spec_of(const void* example) const = 0;
  /// Runs the function itself, whose result is the call's.
  virtual void run_original() = 0;
  /// Makes the call's result of an example and tensors.
  virtual void set_result(const void* example, std::vector<at::Tensor>&& tensors) = 0;

 protected:
  ErasedCall(const std::type_info& type, bool watched) : result_type(type), is_watched(watched) {}
  ~ErasedCall() = default;
};

template <class Result, class F, class... A>
class TypedCall final : public ErasedCall {
 public:
  explicit TypedCall(F& function, A&... arguments)
      : ErasedCall(typeid(Result), kIsWatched), function_(function), arguments_(arguments...) {}

  Result take_result() { return *std::move(result_); }

  bool match(const TreeSpec& spec, Cache::Tensors& tensors) const override {
    return std::apply([&](const A&... arguments) { return match_arguments(spec, tensors, arguments...); }, arguments_);
  }
  Flattened flatten(const std::vector<std::string>& names) const override {
    return std::apply([&](const A&... arguments) { return flatten_arguments(names, arguments...); }, arguments_);
  }
  std::unique_ptr<CaptureWatch> watch() const override { return watch_capture(function_); }
  FlatFunction flat_function() override {
    example_ = nullptr;
    return std::apply([&](A&... arguments) { return make_flat<Result>(function_, example_, arguments...); },
                      arguments_);
  }
  std::shared_ptr<const void> example() const override { return example_; }
  TreeSpec spec_of(const void* example) const override {
    return diptych::flatten(*static_cast<const Result*>(example)).spec;
  }
  void run_original() override {
    std::apply([&](A&... arguments) { result_.emplace(Result(function_(arguments...))); }, arguments_);
  }
  void set_result(const void* example, std::vector<at::Tensor>&& tensors) override {
    result_.emplace(make_result(*static_cast<const Result*>(example), std::move(tensors)));
  }

 private:
  static constexpr bool kIsWatched = requires(F & function) { function.watch_capture(); };
  F& function_;
  std::tuple<A&...> arguments_;
  std::shared_ptr<Result> example_;
  std::optional<Result> result_;
};

}  // namespace diptych::detail
