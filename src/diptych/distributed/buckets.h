// Which gradients travel together.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace diptych::distributed {

struct BucketOptions {
  int64_t bucket_bytes = int64_t{25} << 20;       ///< a bucket is closed when it holds this much
  int64_t first_bucket_bytes = int64_t{1} << 20;  ///< less for the first, whose gradients come while nothing travels
};

/// Gradients of one dtype and device that are reduced as one tensor.
struct Bucket {
  std::vector<size_t> members;  ///< parameters, in the order of their gradients in the bucket
};

/// Puts each parameter into one bucket, from the last to the first, which is about the order in which their gradients
/// become known. Buckets are in the order in which they are filled that way, which is the same on all processes,
/// whatever gradients flow.
/// Source: Li et al. 2020, PyTorch Distributed (VLDB), whose sizes are the defaults.
/// Errors: UserError if a size is not positive.
std::vector<Bucket> assign_buckets(const std::vector<at::Tensor>& parameters, const BucketOptions& options = {});

/// Describes what the buckets hold, for keys and messages.
std::string describe(const std::vector<Bucket>& buckets, const std::vector<at::Tensor>& parameters);

}  // namespace diptych::distributed
