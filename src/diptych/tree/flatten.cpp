#include "diptych/tree/flatten.h"

#include <fmt/format.h>
#include "diptych/base/error.h"

namespace diptych::detail {

void throw_too_few_tensors(const Path& path, size_t got) {
  throw_user_error(fmt::format(
      "[unflatten] got {} tensors, expected more: none is left for '{}'; pass one tensor per leaf of the example", got,
      path.str()));
}

void throw_too_many_tensors(size_t expected, size_t got) {
  throw_user_error(
      fmt::format("[unflatten] got {} tensors, expected {}; pass one tensor per leaf of the example", got, expected));
}

void throw_module_tensor(const char* who, const Path& path) {
  throw_user_error(
      fmt::format("[{}] got a module, at '{}', expected a value whose tensors can be replaced, but a module holds its "
                  "own handles to its parameters; put the tensors into a struct, vector or map",
                  who, path.str()));
}

void LeafFiller::tensor(const Path& path, at::Tensor& leaf) {
  if (next == tensors.size()) throw_too_few_tensors(path, tensors.size());
  leaf = tensors[next++];
}

void LeafFiller::module_tensor(const Path& path, const at::Tensor&) { throw_module_tensor("unflatten", path); }

void LeafEmptier::tensor(const Path&, at::Tensor& leaf) { leaf = at::Tensor(); }

void LeafEmptier::module_tensor(const Path& path, const at::Tensor&) { throw_module_tensor("map_tensors", path); }

}  // namespace diptych::detail
