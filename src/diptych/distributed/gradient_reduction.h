// The mean of the processes' gradients, inside the graph of a training step.
#pragma once
#include <string>
#include <vector>

#include "diptych/backward/gradient_transform.h"
#include "diptych/distributed/buckets.h"
#include "diptych/distributed/process.h"

namespace diptych::distributed {

/// Exchanges each gradient for its mean over all processes, so that processes which begin alike and see parts of a
/// batch do the step of the whole batch (losses that are means, over parts of one size).
///
///   auto reduction = std::make_shared<dp::distributed::GradientReduction>(process, parameters);
///   auto step = dp::capture_step(optimizer, {.transform = reduction});
///
/// Gradients travel in buckets: a bucket's `_c10d_functional::all_reduce` stands in the graph as soon as its last
/// gradient is known and those of the buckets before it have begun, and is waited for behind the last gradient, so that
/// it runs beside the rest of the backward. Every process reduces every bucket in the same order in every step. Where a
/// parameter gets no gradient here, zeros are sent for it, and what comes back counts: a parameter that no process uses
/// gets zeros. A parameter that requires no grad gets none; it is frozen on all processes, or on none.
class GradientReduction : public GradientTransform {
 public:
  /// `parameters`: those of the optimizer, in its order. A collective: called by all processes at the same place.
  /// Errors: UserError if a parameter is not dense, or if the processes' parameters or bucket sizes differ.
  GradientReduction(const Process& process, std::vector<at::Tensor> parameters, const BucketOptions& options = {});

  const std::vector<Bucket>& buckets() const { return buckets_; }

  std::string key() const override { return key_; }
  void begin() override;
  void is_ready(size_t index, const at::Tensor& gradient) override;
  /// Errors: UserError for a gradient that is not dense.
  std::vector<at::Tensor> finish(std::vector<at::Tensor> gradients) override;

 private:
  void issue_full();
  void issue(const Bucket& bucket);
  at::Tensor piece(size_t index) const;
  at::Tensor laid_out(size_t index, const at::Tensor& piece) const;

  int size_;
  std::string group_;
  std::vector<at::Tensor> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  ///< by parameter
  std::string key_;

  // Of the pass that is being traced:
  std::vector<at::Tensor> gradients_;
  std::vector<size_t> missing_;         ///< by bucket, how many of its gradients are not known
  std::vector<at::Tensor> travelling_;  ///< by bucket, for those that have been issued
};

}  // namespace diptych::distributed
