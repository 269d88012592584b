#include "diptych/compile/flat_aot.h"

#include "diptych/tree/flatten.h"

namespace diptych {

FlatAot::FlatAot(FlatFunction function, std::vector<std::string> paths, AotOptions options)
    : function_(std::move(function)),
      paths_(std::move(paths)),
      options_(std::move(options)),
      cache_(options_.name, options_.cache_limit) {}

std::vector<at::Tensor> FlatAot::call(const std::vector<at::Tensor>& arguments) {
  Cache::Tensors tensors;
  const auto flatten_call = [&](const Cache::Entry& entry, Cache::Tensors& out) {
    return flatten_if_matches(entry.spec, arguments, out);
  };
  if (const auto entry = cache_.find(flatten_call, tensors)) return entry->code->call(tensors);
  TreeSpec spec = flatten(arguments).spec;
  tensors.clear();
  for (const at::Tensor& argument : arguments) tensors.push_back(&argument);
  const auto capture = [&](const std::vector<at::Tensor>& given, const SimplifyOptions& simplify) {
    return std::make_shared<CompiledFunction>(function_, given, paths_, options_, simplify);
  };
  const auto entry = cache_.make(std::move(spec), arguments, tensors, capture, options_.dynamic);
  cache_.insert(entry);
  return entry->code->call(tensors);
}

}  // namespace diptych
