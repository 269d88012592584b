// A graph of static sizes as steps on memory: kernels and products run without a tensor or memory of their own.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <vector>

#include "diptych/native/plan/place.h"

namespace diptych::detail {

/// What the steps of one run write to besides memory; a run has one for itself.
struct Workspace {
  std::vector<at::Tensor> windows;  ///< see make_window()
};

/// The addresses of a block's regions.
using Regions = c10::SmallVector<char*, 32>;

/// The address of a region whose memory is a tensor's. Places are counted from it, even those of tensors without
/// elements, which may have no memory: such a region gets an address where nothing is read or written.
char* region_at(const void* memory);

/// One step. Threads: any number at once, each with its own regions and workspace.
class PlanStep {
 public:
  PlanStep() = default;
  virtual ~PlanStep() = default;
  PlanStep(const PlanStep&) = delete;
  PlanStep& operator=(const PlanStep&) = delete;
  /// Returns false if a value makes it impossible, an index out of range: the interpreter then says what is wrong.
  virtual bool run(char* const* regions, Workspace& workspace) const = 0;
};

/// The steps of a graph. Its regions: the inputs, the outputs, then memory for the values between them, then constants.
struct Block {
  std::vector<std::unique_ptr<const PlanStep>> steps;
  size_t num_inputs = 0, num_outputs = 0;
  int64_t memory_bytes = 0;
  std::vector<at::Tensor> constants;

  size_t memory_region() const { return num_inputs + num_outputs; }
  /// The regions of a run, with the addresses of memory and constants set.
  Regions regions(char* memory) const;
  bool run(char* const* regions, Workspace& workspace) const;
};

}  // namespace diptych::detail
