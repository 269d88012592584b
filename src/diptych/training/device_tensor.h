// What a step on devices returns.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

namespace diptych::detail {
class ShardedBuffer;
}

namespace diptych::xla {

/// A tensor on the devices of a step, which may still be computed. Copies share it. Threads: any.
class DeviceTensor {
 public:
  DeviceTensor() = default;
  DeviceTensor(std::shared_ptr<const detail::ShardedBuffer> buffer, std::vector<int64_t> order)
      : buffer_(std::move(buffer)), order_(std::move(order)) {}

  bool defined() const { return buffer_ != nullptr; }
  /// Whether the values are computed; does not wait.
  bool is_ready() const;
  /// Waits for the values and returns a copy of them on the CPU. Errors: UserError if the step failed.
  at::Tensor tensor() const;
  /// Waits for the value of one element. Errors: as tensor(); UserError for several elements.
  double item() const;

 private:
  std::shared_ptr<const detail::ShardedBuffer> buffer_;
  std::vector<int64_t> order_;  // the dimensions from the slowest to the fastest in the buffer
};

/// What a step returns before it is computed.
struct StepResult {
  DeviceTensor loss;
  std::vector<DeviceTensor> extras;  ///< what the function returns besides the loss, flattened
  DeviceTensor gradient_norm;        ///< before clipping; undefined without DeviceStepOptions::max_gradient_norm
};

}  // namespace diptych::xla
