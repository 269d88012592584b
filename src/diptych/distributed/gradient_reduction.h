// The mean of the processes' gradients, inside the graph of a training step.
#pragma once
#include <string>
#include <vector>

#include "diptych/backward/gradient_transform.h"
#include "diptych/distributed/buckets.h"
#include "diptych/distributed/process.h"

namespace diptych::distributed {

/// Replaces each gradient by its mean over all processes, so that processes which start alike and see parts of a batch
/// take the step of the whole batch (losses that are means, over parts of one size).
///
///   auto reduction = std::make_shared<dp::distributed::GradientReduction>(process, parameters);
///   auto step = dp::capture_step(optimizer, {.transform = reduction});
///
/// Gradients travel in buckets. A bucket's `_c10d_functional::all_reduce` is in the graph where its last gradient is
/// known and the reductions of the buckets before it have begun. It is waited for after the last gradient, so that it
/// runs beside the rest of the backward. Every process reduces every bucket in the same order in every step. Where a
/// parameter gets no gradient on this process, zeros are sent for it, and what comes back counts: a parameter that no
/// process uses gets zeros. A parameter that does not require grad gets none; it is frozen on all processes, or on
/// none.
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

  // The state of the run that is being traced:
  std::vector<at::Tensor> gradients_;
  std::vector<size_t> missing_;         ///< by bucket, how many of its gradients are not known
  std::vector<at::Tensor> travelling_;  ///< by bucket, for those that have been issued
};

}  // namespace diptych::distributed
