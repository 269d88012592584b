#include "diptych/transforms/vmap.h"

#include <ATen/functorch/Interpreter.h>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

at::functorch::RandomnessType torch_randomness(Randomness randomness) {
  using Type = at::functorch::RandomnessType;
  return randomness == Randomness::kError  ? Type::Error
         : randomness == Randomness::kSame ? Type::Same
                                           : Type::Different;
}

int64_t wrapped_dim(const char* what, const std::string& path, int64_t dim, int64_t num_dims) {
  DIPTYCH_CHECK(dim >= -num_dims && dim < num_dims,
                "[vmap] {} {} is not a dimension of '{}', which has {}; pass one of {} to {}, or std::nullopt for an "
                "argument that is the same for all elements",
                what, dim, path, num_dims, -num_dims, num_dims - 1);
  return dim < 0 ? dim + num_dims : dim;
}

int64_t batch_size_of(const std::vector<MappedLeaf>& leaves) {
  std::optional<int64_t> size;
  std::string where;
  for (const MappedLeaf& leaf : leaves) {
    if (!leaf.dim) continue;
    DIPTYCH_CHECK(leaf.tensor.defined(),
                  "[vmap] '{}' is an undefined tensor; pass a defined one, or an absent optional", leaf.path);
    const int64_t found = leaf.tensor.size(wrapped_dim("in_dim", leaf.path, *leaf.dim, leaf.tensor.dim()));
    DIPTYCH_CHECK(!size || *size == found,
                  "[vmap] '{}' has {} elements, '{}' has {}; pass batches of one size, or set in_dims", leaf.path,
                  found, where, *size);
    if (!size) where = leaf.path;
    size = found;
  }
  DIPTYCH_CHECK(size, "[vmap] got no argument with a batch; pass a tensor, or set its in_dim");
  return *size;
}

}  // namespace

void check_in_dims(const VmapOptions& options, size_t num_arguments) {
  DIPTYCH_CHECK(options.in_dims.empty() || options.in_dims.size() == num_arguments,
                "[vmap] got {} in_dims for {} arguments; pass one for each, or none", options.in_dims.size(),
                num_arguments);
}

std::vector<at::Tensor> vmap_flat(const FlatFunction& function, const std::vector<MappedLeaf>& leaves,
                                  const VmapOptions& options) {
  const Batch batch{batch_size_of(leaves), torch_randomness(options.randomness)};
  std::vector<at::Tensor> given;
  for (const MappedLeaf& leaf : leaves) given.push_back(leaf.dim ? leaf.tensor.movedim(*leaf.dim, 0) : leaf.tensor);
  std::vector<Unwrapped> found;
  std::vector<std::string> paths;
  {
    const InnerLevel level(batch);
    for (size_t i = 0; i < given.size(); ++i) {
      if (leaves[i].dim) given[i] = wrap(given[i], level.level());
    }
    FlatResult result = function(given);
    paths = std::move(result.paths);
    for (const at::Tensor& tensor : result.tensors) found.push_back(unwrap(tensor, level.level()));
  }
  DIPTYCH_CHECK(options.out_dims.size() == 1 || options.out_dims.size() == found.size(),
                "[vmap] got {} out_dims for {} tensors in the result; pass one for each, or one for all",
                options.out_dims.size(), found.size());
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < found.size(); ++i) {
    const at::Tensor& value = found[i].value;
    DIPTYCH_CHECK(value.defined(), "[vmap] the result '{}' is an undefined tensor; return a defined one", paths[i]);
    const int64_t num_dims = value.dim() + (found[i].is_wrapped ? 0 : 1);
    const int64_t dim =
        wrapped_dim("out_dim", paths[i], options.out_dims[options.out_dims.size() == 1 ? 0 : i], num_dims);
    if (found[i].is_wrapped) {
      results.push_back(value.movedim(*found[i].batch_dim, dim));
    } else {
      auto sizes = value.sizes().vec();
      sizes.insert(sizes.begin() + dim, batch.size);
      results.push_back(value.unsqueeze(dim).expand(sizes));
    }
  }
  return results;
}

}  // namespace diptych::detail
