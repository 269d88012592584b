#include "diptych/compile/flat_aot.h"

#include "diptych/hops/transformed_call.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

FlatAot::FlatAot(FlatFunction function, std::vector<std::string> paths, AotOptions options)
    : function_(std::move(function)),
      paths_(std::move(paths)),
      options_(std::move(options)),
      cache_(options_.name, options_.cache_limit) {}

std::vector<at::Tensor> FlatAot::in_eager(const std::string& why, const std::vector<at::Tensor>& arguments) {
  cache_.count_original(why);
  return function_(arguments).tensors;
}

std::vector<at::Tensor> FlatAot::call(const std::vector<at::Tensor>& arguments) {
  if (detail::thread_may_transform()) {
    if (const auto why = detail::transform_of_thread()) return in_eager(*why, arguments);
  }
  Cache::Tensors tensors;
  const auto flatten_call = [&](const Cache::Entry& entry, Cache::Tensors& out) {
    return flatten_if_matches(entry.spec, arguments, out);
  };
  const auto run = [&](const Cache::Entry& entry) {
    return entry.original.empty() ? entry.code->call(tensors) : in_eager(entry.original, arguments);
  };
  if (const auto entry = cache_.find(flatten_call, tensors)) return run(*entry);
  Flattened flat = flatten(arguments);
  if (const auto why = cache_.why_eager(flat)) return in_eager(*why, arguments);
  tensors.clear();
  for (const at::Tensor& argument : arguments) tensors.push_back(&argument);
  const CaptureAt capture = [&](const std::vector<at::Tensor>& given, const CaptureMode& mode) {
    return std::make_shared<CapturedFunction>(function_, given, paths_, options_, mode);
  };
  const Cache::Miss miss{flat.spec, arguments, tensors, capture, [](const Cache::Entry&) { return true; }};
  if (const auto entry = cache_.find_by_trace(miss)) return run(*entry);
  const auto entry = cache_.make(miss, options_);
  cache_.insert(entry);
  return run(*entry);
}

}  // namespace diptych::detail
