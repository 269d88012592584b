#include "diptych/distributed/buckets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "diptych/base/check.h"

namespace diptych::distributed {
namespace {

using Kind = std::pair<at::ScalarType, std::string>;

Kind kind_of(const at::Tensor& parameter) { return {parameter.scalar_type(), parameter.device().str()}; }

struct OpenBucket {
  Bucket bucket;
  int64_t bytes = 0;
};

}  // namespace

std::vector<Bucket> assign_buckets(const std::vector<at::Tensor>& parameters, const BucketOptions& options) {
  DIPTYCH_CHECK(options.bucket_bytes > 0 && options.first_bucket_bytes > 0,
                "[distributed] bucket_bytes is {} and first_bucket_bytes {}; give sizes above 0", options.bucket_bytes,
                options.first_bucket_bytes);
  std::map<Kind, OpenBucket> open;
  std::vector<Bucket> buckets;
  for (size_t i = parameters.size(); i-- > 0;) {
    auto& [bucket, bytes] = open[kind_of(parameters[i])];
    bucket.members.push_back(i);
    bytes += static_cast<int64_t>(parameters[i].nbytes());
    const int64_t limit = buckets.empty() ? options.first_bucket_bytes : options.bucket_bytes;
    if (bytes < limit) continue;
    buckets.push_back(std::move(bucket));
    open.erase(kind_of(parameters[i]));
  }
  for (auto& [kind, rest] : open) buckets.push_back(std::move(rest.bucket));
  std::sort(buckets.begin(), buckets.end(),
            [](const Bucket& a, const Bucket& b) { return a.members.back() > b.members.back(); });
  return buckets;
}

std::string describe(const std::vector<Bucket>& buckets, const std::vector<at::Tensor>& parameters) {
  std::string text;
  for (const Bucket& bucket : buckets) {
    text += text.empty() ? "" : "; ";
    for (const size_t i : bucket.members) {
      const auto dtype = c10::toString(parameters[i].scalar_type());
      text += fmt::format("{}:{}[{}] ", i, dtype, fmt::join(parameters[i].sizes(), ","));
    }
    text.pop_back();
  }
  return text;
}

}  // namespace diptych::distributed
