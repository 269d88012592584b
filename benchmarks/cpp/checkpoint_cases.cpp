// The checkpoint suite: a long, small recurrent network by a plain scan and by scans that keep few carries.
#include <algorithm>
#include <string>

#include "diptych/diptych.h"
#include "diptych/ops/treeverse.h"
#include "diptych/scan_passes/block_scans.h"
#include "gradient_case.h"
#include "rnn.h"
#include "suites.h"

namespace diptych::bench {

using namespace detail;
namespace {

constexpr int64_t kCarries = 64;
constexpr int64_t kLongestRnnChecked = 2048;

RnnShape small_rnn(int64_t length) { return {length, /*batch=*/4, /*hidden=*/32}; }

/// Returns the bytes of the gradients of W, U, b and the first state.
int64_t gradient_bytes(const RnnShape& shape) {
  return (2 * shape.hidden * shape.hidden + shape.hidden + shape.batch * shape.hidden) * int64_t{sizeof(float)};
}

/// Returns the bytes and the extra steps that theory predicts. A plain scan keeps each state, and while it runs, as
/// many numbers again: x W before the loop of the forward, and the factors of the gradients of W and U after the loop
/// of the backward; a long scan keeps only as many of these as a block has. A scan that keeps few carries needs these
/// carries, and for a segment what a plain scan of its length needs; carries that are recomputed are in memory beside
/// the forward's, whose stack is one tensor. Each step is run once more for its residuals, and a step that is run again
/// to recompute carries, once for each time.
nlohmann::json theory(int64_t length, const ScanOptions& options) {
  const RnnShape shape = small_rnn(length);
  const int64_t state = shape.batch * shape.hidden * int64_t{sizeof(float)};
  const int64_t gradients = gradient_bytes(shape);
  if (!options.max_saved_carries) {
    const BlockLimits limits;
    const int64_t slices_and_stacks = 2 * length * state;
    const int64_t products = slices_and_stacks < limits.least_bytes ? length * state : limits.block_bytes;
    return predicted({{"states", length * state}, {"products", products}, {"gradients", gradients}});
  }
  const int64_t carries = *options.max_saved_carries;
  const int64_t segment = options.segment.value_or(detail::default_segment(length, carries));
  const int64_t segments = (length + segment - 1) / segment;
  const int64_t advanced = detail::advanced_segments(segments, carries - 1);
  nlohmann::json facts = predicted({{"carries", carries * state},
                                    {"carries found again", std::min(advanced, carries - 1) * state},
                                    {"a segment's states", segment * state},
                                    {"a segment's products", segment * state},
                                    {"gradients", gradients}});
  facts["segment"] = segment;
  facts["extra_forwards"] = 1 + static_cast<double>(advanced * segment) / static_cast<double>(length);
  return facts;
}

GradientCase time_case(int64_t length, const ScanOptions& options) {
  const auto compiled =
      aot_function([options](const Tensors& params,
                             const Tensors& data) { return rnn_by_scan(params, data[0], States::kLast, options); },
                   {.name = "long_rnn"});
  GradientCase::Parts parts{"checkpoint/" + std::to_string(length),
                            [length] { return rnn(small_rnn(length), States::kLast); },
                            [compiled](const Model& model) { return compiled(model.params, model.data); }};
  if (length <= kLongestRnnChecked) {
    parts.eager = [](const Model& model) { return rnn_in_eager(model.params, model.data[0], States::kLast); };
  }
  parts.facts = [=] { return theory(length, options); };
  parts.forward_share = !options.max_saved_carries;
  return GradientCase(std::move(parts));
}

Cases cases_of(const ScanOptions& options) {
  Cases cases;
  for (const int64_t length : {int64_t{2048}, int64_t{65536}}) {
    cases["checkpoint/" + std::to_string(length)] = time_case(length, options);
  }
  return cases;
}

}  // namespace

void add_checkpoint_cases(Cases& cases) { cases.merge(cases_of({})); }
Cases diptych_64_carries_cases() { return cases_of({.max_saved_carries = kCarries}); }
Cases diptych_segment_32_cases() { return cases_of({.max_saved_carries = kCarries, .segment = 32}); }

}  // namespace diptych::bench
