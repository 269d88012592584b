// What one run of a Program holds while it goes through the nodes: the register file, and the tables that it reads.
#pragma once
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/SymInt.h>

#include <map>
#include <string>
#include <vector>

namespace diptych {
struct RunOptions;
}  // namespace diptych

namespace diptych::detail {

/// The sizes of a graph with symbols, computed for one set of input sizes; operands refer to them by number.
struct DynamicSizes {
  std::vector<int64_t> scalars;
  std::vector<std::vector<c10::SymInt>> lists;
  std::vector<c10::IValue> numbers;        ///< numbers and tensors made of numbers, as operators take them
  std::map<std::string, int64_t> symbols;  ///< what they follow from
};

/// The state of one run. References to tensors are plain numbers: r >= 0 is a register, r < 0 is constant ~r;
/// constant 0 is the undefined tensor.
struct Frame {
  at::Tensor* registers;
  const at::Tensor* constants;
  const DynamicSizes* dynamic;
  const RunOptions* options;
  torch::jit::Stack stack;  ///< for boxed calls; empty between nodes

  const at::Tensor& tensor(int32_t reference) const {
    return reference >= 0 ? registers[reference] : constants[~reference];
  }
};

/// Gathers tensors into the list form of `Tensor?[]`, where an undefined one is null.
class OptionalTensorListMaker {
 public:
  explicit OptionalTensorListMaker(size_t size);
  void push(at::Tensor tensor);
  c10::List<std::optional<at::Tensor>> finish() &&;

 private:
  c10::impl::GenericList list_;  // elements as IValues: a conversion from optionals would be inlined everywhere
};

}  // namespace diptych::detail
