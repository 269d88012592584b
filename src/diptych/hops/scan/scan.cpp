#include "diptych/hops/scan/scan.h"

#include "diptych/base/check.h"
#include "diptych/hops/call.h"
#include "diptych/hops/checkpointed_scan/checkpointed_scan.h"
#include "diptych/hops/eager_loops.h"
#include "diptych/hops/loop_body.h"
#include "diptych/hops/scan/scan_operator.h"
#include "diptych/hops/strides.h"
#include "diptych/ops/treeverse.h"
#include "diptych/trace/placeholder.h"

namespace diptych {

using namespace detail;
namespace {

int64_t find_length(const Flattened& xs, const ScanOptions& options) {
  std::optional<int64_t> length;
  std::string where;
  for (size_t i = 0; i < xs.tensors.size(); ++i) {
    const at::Tensor& leaf = xs.tensors[i];
    const std::string& path = xs.spec.tensor_path(i);
    DIPTYCH_CHECK(leaf.defined(), "[scan] '{}' is an undefined tensor; pass a defined one, or an absent optional",
                  path);
    DIPTYCH_CHECK(leaf.dim() > 0,
                  "[scan] '{}' is a scalar and has no dimension to slice along; capture it in the body instead", path);
    if (!length) where = path;
    DIPTYCH_CHECK(!length || *length == leaf.size(0),
                  "[scan] '{}' has {} slices along its first dimension, '{}' has {}; pass tensors of one length", path,
                  leaf.size(0), where, *length);
    length = leaf.size(0);
  }
  DIPTYCH_CHECK(length || options.length, "[scan] got no tensor to slice; set options.length to the number of steps");
  DIPTYCH_CHECK(!length || !options.length || *length == *options.length,
                "[scan] options.length is {}, but '{}' has {} slices; leave the option out", *options.length, where,
                *length);
  const int64_t found = length ? *length : *options.length;
  DIPTYCH_CHECK(found >= 0, "[scan] options.length is {}, expected 0 or more", found);
  return found;
}

// Returns nullopt if a plain scan would do.
std::optional<Checkpoints> find_checkpoints(int64_t length, const ScanOptions& options) {
  if (!options.max_saved_carries) return std::nullopt;
  const int64_t carries = *options.max_saved_carries;
  DIPTYCH_CHECK(carries > 0, "[scan] options.max_saved_carries is {}, expected 1 or more; leave it out to keep all",
                carries);
  const int64_t segment = options.segment.value_or(detail::default_segment(length, carries));
  DIPTYCH_CHECK(segment > 0, "[scan] options.segment is {}, expected 1 or more; leave it out for the default", segment);
  if (length <= segment) return std::nullopt;
  return Checkpoints{segment, carries};
}

detail::LoopInputs slice_inputs(const Flattened& xs) {
  detail::LoopInputs inputs;
  inputs.may_write = true;
  inputs.given = xs.tensors;
  for (size_t i = 0; i < xs.tensors.size(); ++i) {
    inputs.metas.push_back(slice_of(meta_of_argument(xs.tensors[i])));
    inputs.paths.push_back(xs.spec.tensor_path(i));
  }
  return inputs;
}

}  // namespace

void detail::check_structure(const char* who, const char* what, const TreeSpec& expected, const TreeSpec& got) {
  const auto difference = first_difference(expected, got);
  DIPTYCH_CHECK(!difference,
                "[{}] {} has another structure than expected: {}; return the same structure, and tensors for "
                "numbers that change",
                who, what, *difference);
}

namespace {

std::vector<at::Tensor> captured_scan(const FlatFunction& step, const Flattened& init, const Flattened& xs,
                                      const ScanOptions& options, int64_t length) {
  const detail::LoopBody loop = detail::capture_loop_body("scan", step, init, slice_inputs(xs));
  const size_t num_carries = init.tensors.size() + loop.buffers.size();
  const auto checkpoints = find_checkpoints(length, options);
  const auto hop =
      checkpoints
          ? make_checkpointed_scan(loop.body, num_carries, xs.tensors.size(), length, options.reverse, *checkpoints)
          : make_scan(loop.body, num_carries, xs.tensors.size(), {length, options.reverse, options.unroll});
  std::vector<at::Tensor> arguments = init.tensors;
  arguments.insert(arguments.end(), xs.tensors.begin(), xs.tensors.end());
  auto results = loop.write_buffers(call(hop, loop.operands(arguments, init.tensors.size())), init.tensors.size());
  const auto first_step = length == 0 ? std::nullopt : std::optional(options.reverse ? length - 1 : 0);
  return write_arguments(loop.writes, arguments, init.tensors.size(), std::move(results), first_step);
}

}  // namespace

std::vector<at::Tensor> detail::scan_flat(const FlatFunction& step, const Flattened& init, const Flattened& xs,
                                          const ScanOptions& options) {
  const int64_t length = find_length(xs, options);
  DIPTYCH_CHECK(options.unroll > 0, "[scan] options.unroll is {}, expected 1 or more", options.unroll);
  // The code returns a pair of the carry and what is stacked.
  const auto named = [&](const std::vector<at::Tensor>& tensors) {
    FlatResult result = step(tensors);
    for (size_t i = init.tensors.size(); i < result.paths.size(); ++i) result.paths[i].replace(0, 1, "ys");
    return result;
  };
  return captured_or_eager(
      "scan", {&init, &xs}, [&] { return captured_scan(named, init, xs, options, length); },
      [&] { return scan_in_eager(named, init, xs, length, options.reverse); });
}

}  // namespace diptych
