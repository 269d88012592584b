#include "diptych/native/schedule/vectors_at_once.h"

#include <algorithm>

#include "diptych/native/scalar/scalar_code.h"

namespace diptych::detail {
namespace {

constexpr int kUsually = 2, kWithFunction = 4, kWithChain = 8;
constexpr int kLongChain = 3;      // expensive operations that wait for each other
constexpr size_t kFewBuffers = 3;  // what is stored lives on to the end, as what is loaded may

}  // namespace

int vectors_at_once(const Kernel& kernel) {
  int longest = 0;
  std::vector<int> chains(kernel.values.size());
  for (size_t i = 0; i < kernel.values.size(); ++i) {
    const KernelValue& value = kernel.values[i];
    if (std::holds_alternative<KernelReduce>(value.made_by)) return kUsually;
    const auto* scalar = std::get_if<KernelScalar>(&value.made_by);
    if (scalar == nullptr) continue;
    if (is_call(*scalar->op, kernel.values[scalar->operands.back()].dtype)) return kUsually;
    for (const int32_t operand : scalar->operands) chains[i] = std::max(chains[i], chains[operand]);
    if (is_expensive(*scalar->op)) ++chains[i];
    longest = std::max(longest, chains[i]);
  }
  if (longest == 0) return kUsually;
  const bool has_few = kernel.inputs.size() + kernel.outputs.size() <= kFewBuffers;
  return longest >= kLongChain && has_few ? kWithChain : kWithFunction;
}

}  // namespace diptych::detail
