// What the tensors of a call of a fused body have to be.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "diptych/interpreter/reuse.h"
#include "diptych/native/call/body_sizes.h"
#include "diptych/native/call/kernel_code.h"

namespace diptych::detail {

/// The shapes of a call's tensors, and what follows from them.
struct CallShapes {
  struct Tensor {
    at::ScalarType dtype;
    std::vector<int64_t> sizes, strides;
    bool is_empty, is_dense;
    static Tensor of(at::ScalarType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides);
  };
  /// An input that an output may be written over.
  struct Overwrite {
    size_t input;
    Reuse needs;
  };
  std::vector<Tensor> inputs, outputs;
  std::vector<std::vector<Overwrite>> overwrites;  ///< by output
  std::vector<int64_t> symbols;                    ///< of the kernel
  bool is_empty = false;                           ///< no output has an element
};

/// The shapes of a body's calls: one for all where sizes are static, else one for each set of sizes, of which the last
/// is kept. Threads: any.
class BodyShapes {
 public:
  BodyShapes(const Graph& body, std::shared_ptr<const KernelCode> code);
  /// Returns the shapes at the sizes of these inputs; null where the kernel does not serve them: inputs of another
  /// rank, sizes that contradict each other, and where sizes are dynamic, results that are made of tensors without
  /// elements, and accesses that would leave their tensor.
  std::shared_ptr<const CallShapes> find(const std::vector<at::Tensor>& inputs) const;

 private:
  std::shared_ptr<const CallShapes> make(const std::vector<int64_t>& values) const;
  void find_overwrites(CallShapes& shapes) const;
  bool stays_inside(const CallShapes& shapes) const;

  std::vector<TensorMeta> inputs_, outputs_;
  std::shared_ptr<const KernelCode> code_;
  BodySizes sizes_;
  std::vector<SizeExpr> wanted_;
  std::shared_ptr<const CallShapes> fixed_;
  mutable std::mutex mutex_;
  mutable std::vector<int64_t> last_observed_;
  mutable std::shared_ptr<const CallShapes> last_;
};

}  // namespace diptych::detail
