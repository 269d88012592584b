// What a node does: an ATen operator, or a higher-order operator that owns subgraphs.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <string_view>

#include "diptych/graph/hop_schema.h"

namespace diptych {

/// A handle to an operator; copies are cheap, equality is identity.
class Op {
 public:
  explicit Op(c10::OperatorHandle handle) : handle_(std::move(handle)) {}
  explicit Op(const HopSchema* hop) : hop_(hop) {}
  /// Finds an ATen operator by "aten.add.Tensor" or "aten::add.Tensor" ("aten.tanh" is the overload without a name).
  /// Errors: UserError names an operator that this LibTorch does not have.
  static Op find(std::string_view name);

  bool is_hop() const { return hop_ != nullptr; }
  const HopSchema& hop() const { return *hop_; }
  const c10::OperatorHandle& handle() const { return *handle_; }
  /// Names and types of the operands. A higher-order operator returns any number of tensors, whatever its schema says.
  const c10::FunctionSchema& schema() const { return is_hop() ? hop_->schema() : handle_->schema(); }
  /// "aten.add.Tensor", "aten.tanh", "hop.scan"; operators of other libraries keep their namespace.
  std::string name() const;
  bool operator==(const Op& other) const {
    return hop_ == other.hop_ && (hop_ != nullptr || *handle_ == *other.handle_);
  }

 private:
  std::optional<c10::OperatorHandle> handle_;
  const HopSchema* hop_ = nullptr;
};

}  // namespace diptych
