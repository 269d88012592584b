// Steps that run no other block.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/interpreter/program.h"
#include "diptych/native/call/call_shapes.h"
#include "diptych/native/plan/block.h"

namespace diptych::detail {

/// Runs a kernel.
class KernelStep final : public PlanStep {
 public:
  KernelStep(std::shared_ptr<const KernelCode> code, std::vector<int64_t> symbols, std::vector<Place> inputs,
             std::vector<Place> outputs)
      : code_(std::move(code)),
        symbols_(std::move(symbols)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}
  bool run(char* const* regions, Workspace& workspace) const override;

 private:
  std::shared_ptr<const KernelCode> code_;
  std::vector<int64_t> symbols_;
  std::vector<Place> inputs_, outputs_;
};

/// Copies elements to a place of the same sizes and dtype.
class CopyStep final : public PlanStep {
 public:
  /// `window`: the workspace's number of a window of `from`, and after it one of `to`.
  CopyStep(Place from, Place to, size_t window) : from_(std::move(from)), to_(std::move(to)), window_(window) {
    lies_alike_ = from_.is_dense() && from_.has_strides(to_.strides);
  }
  bool run(char* const* regions, Workspace& workspace) const override;

 private:
  Place from_, to_;
  size_t window_;
  bool lies_alike_;
};

/// A matrix product of the library that writes into memory it is given: what product_into() names, without dispatch.
class Product {
 public:
  /// Returns the product that a node is; nullopt if it is none, or one whose factors are no constants.
  static std::optional<Product> find(const Node& node);
  /// `tensors`: the operands, then the result, all of the CPU and of the right sizes.
  void operator()(at::Tensor* tensors) const;

 private:
  using Plain = at::Tensor&(const at::Tensor&, const at::Tensor&, at::Tensor&);
  using Added = at::Tensor&(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar& beta,
                            const at::Scalar& alpha, at::Tensor&);

  explicit Product(const c10::TypedOperatorHandle<Plain>& plain) : plain_(plain) {}
  Product(const c10::TypedOperatorHandle<Added>& added, const at::Scalar& beta, const at::Scalar& alpha)
      : added_(added), beta_(beta), alpha_(alpha) {}

  std::optional<c10::TypedOperatorHandle<Plain>> plain_;
  std::optional<c10::TypedOperatorHandle<Added>> added_;
  at::Scalar beta_, alpha_;
};

class ProductStep final : public PlanStep {
 public:
  /// `window`: the number of a window of the first operand; the other operands' and the result's follow.
  ProductStep(Product product, std::vector<Place> operands, Place result, size_t window)
      : product_(std::move(product)), operands_(std::move(operands)), result_(std::move(result)), window_(window) {}
  bool run(char* const* regions, Workspace& workspace) const override;

 private:
  Product product_;
  std::vector<Place> operands_;
  Place result_;
  size_t window_;
};

/// Runs any other node by the interpreter, and copies its results to their places.
class OperatorStep final : public PlanStep {
 public:
  /// `graph`: the node alone. `window`: the number of a window of the first input; the other inputs' and the results'
  /// follow.
  OperatorStep(const Graph& graph, std::vector<Place> inputs, std::vector<Place> outputs, size_t window)
      : program_(graph), inputs_(std::move(inputs)), outputs_(std::move(outputs)), window_(window) {}
  bool run(char* const* regions, Workspace& workspace) const override;

 private:
  Program program_;
  std::vector<Place> inputs_, outputs_;
  size_t window_;
};

}  // namespace diptych::detail
