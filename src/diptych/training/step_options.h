// What a caller may choose about a training step on devices.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/backward/gradient_transform.h"
#include "diptych/compile/options.h"
#include "diptych/xla/hlo/mesh.h"

namespace diptych::xla {

struct DeviceStepOptions {
  /// Scales all gradients down so that the norm of all of them together is at most this; infinity only measures it.
  std::optional<double> max_gradient_norm = {};
  /// The p of the p-norm; infinity takes the largest absolute value.
  double norm_type = 2;
  /// Applied to the gradients before they are clipped; null for none.
  std::shared_ptr<GradientTransform> transform = nullptr;
  /// What the forward saves for the backward.
  Partitioner partition = default_partition();
  /// The names that the paths of the arguments start with, in order; unnamed arguments are called arg0, arg1 ...
  std::vector<std::string> argument_names = {};
  /// The devices of the step; without axes, the first device alone.
  Mesh mesh = {};
  /// How tensors are split over the mesh, by name: arguments by their path ("model.blocks.0.w", "batch.x"), an
  /// optimizer's state as its parameter. The first rule whose pattern fits counts; what fits none is on every device.
  std::vector<ShardingRule> shardings = {};
  /// An axis over which the optimizer's state is split besides, along the first dimension that is not split and that
  /// the axis's size divides; empty for none. With the batch on the same axis, each device updates its part.
  std::string optimizer_axis = {};
  /// Who draws random numbers: "host" draws eager's before the program begins, "device" has the program draw for itself
  /// from a seed that each step draws from LibTorch's generator. Draws from a generator of the caller's, and those that
  /// no program makes, such as randperm, stay on the host.
  std::string draws = "host";
  /// Names the step in logs, graphs and errors.
  std::string name = "step";
};

}  // namespace diptych::xla
