// hop.checkpointed_scan: a scan that keeps few carries for its backward and runs segments again.
#pragma once
#include "diptych/hops/scan/scan_operator.h"

namespace diptych::detail {

/// Groups, body, `length` and `reverse`: as hop.scan's. `segment`: steps in a segment; `saved_carries`: how many
/// carries are kept, the first one included; `copies`: how many times the kept carries are returned after the results,
/// as a stack for each carry.
class CheckpointedScanOperator final : public HigherOrderOperator {
 public:
  CheckpointedScanOperator()
      : HigherOrderOperator(
            "checkpointed_scan(Tensor[] init, Tensor[] xs, Tensor[] free, int length, bool reverse, "
            "int segment, int saved_carries, int copies=0)",
            {"step"}) {}
  static const CheckpointedScanOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  /// With `create_graph` the derivative is that of a plain scan, whose memory grows with the length.
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
  LiftedDraws lift_draws(const Hop& hop) const override;
  std::vector<Batched> call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                    const detail::Batch& batch) const override;
  std::vector<Dual> call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const override;
};

/// How much a checkpointed scan keeps.
struct Checkpoints {
  int64_t segment = 1;  ///< steps whose residuals are held at a time
  int64_t carries = 1;  ///< kept at a time, the first one included
};

HopPtr make_checkpointed_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices, int64_t length,
                              bool reverse, const Checkpoints& checkpoints);

/// Runs segments of a scan's steps with one body.
class SegmentRunner {
 public:
  /// `body` takes carries, slices and free operands, as a scan's body does.
  SegmentRunner(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices, bool reverse)
      : body_(std::move(body)), num_carries_(num_carries), num_slices_(num_slices), reverse_(reverse) {}
  /// Runs the body over slices that are cut out already, below autograd. Returns carries, then stacks, which may share
  /// memory with operands and each other.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& carries, const std::vector<at::Tensor>& slices,
                              const std::vector<at::Tensor>& free, int64_t length) const;

 private:
  std::shared_ptr<const Body> body_;
  size_t num_carries_;
  size_t num_slices_;
  bool reverse_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<int64_t, HopPtr>> scans_;  // by length; there are two or three
};

/// Returns the position of the first of the slices that steps `begin` to `end` take.
inline int64_t slices_begin(int64_t length, bool reverse, int64_t begin, int64_t end) {
  return reverse ? length - end : begin;
}

/// Returns `count` slices of each stack, from position `begin` on.
std::vector<at::Tensor> cut(const std::vector<at::Tensor>& stacks, int64_t begin, int64_t count);

/// Steps and segments of a checkpointed scan.
struct SegmentLayout {
  explicit SegmentLayout(const Hop& hop);
  ScanLayout scan;
  int64_t segment;
  int64_t carries;  ///< kept
  int64_t copies;   ///< of the kept carries, after the results

  int64_t num_segments() const { return (scan.length + segment - 1) / segment; }
  int64_t begin(int64_t index) const { return index * segment; }
  int64_t end(int64_t index) const { return std::min(scan.length, (index + 1) * segment); }
};

}  // namespace diptych::detail
