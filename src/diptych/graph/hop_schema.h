// The schema of a higher-order operator: named groups of operands, named attributes and named bodies.
#pragma once
#include <ATen/core/function_schema.h>

#include <string>
#include <string_view>
#include <vector>

namespace diptych {

/// Declares, in PyTorch's schema language, what a node of a higher-order operator holds. Its operands are printed,
/// parsed, saved and verified as those of an ATen operator are; text always names them:
/// `hop.scan(init=[%4], xs=[%1], free=[%0], length=1000, reverse=false)`.
/// Threads: any; instances are made once and never freed, since Ops point to them.
class HopSchema {
 public:
  /// `declaration`: the name, then groups (`Tensor[] xs`, or `Tensor pred` for exactly one tensor), then attributes
  /// (int, bool, float, str and lists of these; those with a default are printed only where they differ), as in
  /// "scan(Tensor[] init, Tensor[] xs, Tensor[] free, int length, bool reverse, int unroll=1)". `bodies`: what each
  /// subgraph is, in order.
  /// Errors: UserError where the declaration is not of this form.
  HopSchema(std::string_view declaration, std::vector<std::string> bodies);

  /// "scan"; the operator prints as "hop.scan".
  const std::string& name() const { return name_; }
  /// The groups, then the attributes, all of them named.
  const c10::FunctionSchema& schema() const { return schema_; }
  size_t num_groups() const { return num_groups_; }
  const std::vector<std::string>& bodies() const { return bodies_; }
  /// The declaration as it was given, except for spaces.
  std::string declaration() const;
  /// Whether both declare the same operator, in which case registering the second one after the first changes nothing.
  bool operator==(const HopSchema& other) const;

 private:
  std::string name_;
  c10::FunctionSchema schema_;
  std::vector<std::string> bodies_;
  size_t num_groups_ = 0;
};

}  // namespace diptych
