// Callers specialised by C++ signature, and the table that they are found in by the operator's schema.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "diptych/base/check.h"
#include "diptych/interpreter/argument_slots.h"

namespace diptych::detail {

// A signature's code: one group of letters per type, so that C++ signatures and schemas can be compared. The letters
// are: T tensor, W written tensor, S Scalar, I int, Y SymInt, F float, B bool, D dtype, L layout, V device, M memory
// format, G generator, N string; '?' before a letter is optional, '[' is a list.
template <class T>
constexpr std::string_view kTypeCode = "";
template <>
inline constexpr std::string_view kTypeCode<const at::Tensor&> = "T";
template <>
inline constexpr std::string_view kTypeCode<at::Tensor> = "T";
template <>
inline constexpr std::string_view kTypeCode<at::Tensor&> = "W";
template <>
inline constexpr std::string_view kTypeCode<const std::optional<at::Tensor>&> = "?T";
template <>
inline constexpr std::string_view kTypeCode<at::TensorList> = "[T";
template <>
inline constexpr std::string_view kTypeCode<const at::ITensorListRef&> = "[T";
template <>
inline constexpr std::string_view kTypeCode<std::vector<at::Tensor>> = "[T";
template <>
inline constexpr std::string_view kTypeCode<const c10::List<std::optional<at::Tensor>>&> = "[?T";
template <>
inline constexpr std::string_view kTypeCode<const at::Scalar&> = "S";
template <>
inline constexpr std::string_view kTypeCode<const std::optional<at::Scalar>&> = "?S";
template <>
inline constexpr std::string_view kTypeCode<int64_t> = "I";
template <>
inline constexpr std::string_view kTypeCode<std::optional<int64_t>> = "?I";
template <>
inline constexpr std::string_view kTypeCode<at::IntArrayRef> = "[I";
template <>
inline constexpr std::string_view kTypeCode<at::OptionalIntArrayRef> = "?[I";
template <>
inline constexpr std::string_view kTypeCode<c10::SymInt> = "Y";
template <>
inline constexpr std::string_view kTypeCode<std::optional<c10::SymInt>> = "?Y";
template <>
inline constexpr std::string_view kTypeCode<c10::SymIntArrayRef> = "[Y";
template <>
inline constexpr std::string_view kTypeCode<at::OptionalSymIntArrayRef> = "?[Y";
template <>
inline constexpr std::string_view kTypeCode<double> = "F";
template <>
inline constexpr std::string_view kTypeCode<std::optional<double>> = "?F";
template <>
inline constexpr std::string_view kTypeCode<std::optional<at::ArrayRef<double>>> = "?[F";
template <>
inline constexpr std::string_view kTypeCode<bool> = "B";
template <>
inline constexpr std::string_view kTypeCode<std::optional<bool>> = "?B";
template <size_t N>
inline constexpr std::string_view kTypeCode<std::array<bool, N>> = "[B";
template <>
inline constexpr std::string_view kTypeCode<at::ScalarType> = "D";
template <>
inline constexpr std::string_view kTypeCode<std::optional<at::ScalarType>> = "?D";
template <>
inline constexpr std::string_view kTypeCode<std::optional<at::Layout>> = "?L";
template <>
inline constexpr std::string_view kTypeCode<std::optional<at::Device>> = "?V";
template <>
inline constexpr std::string_view kTypeCode<at::MemoryFormat> = "M";
template <>
inline constexpr std::string_view kTypeCode<std::optional<at::MemoryFormat>> = "?M";
template <>
inline constexpr std::string_view kTypeCode<std::optional<at::Generator>> = "?G";
template <>
inline constexpr std::string_view kTypeCode<c10::string_view> = "N";
template <>
inline constexpr std::string_view kTypeCode<std::optional<c10::string_view>> = "?N";

template <class T>
struct ReturnTypes {
  static constexpr bool kIsList = false;
  static constexpr size_t kCount = 1;
  static std::string code() { return std::string(kTypeCode<T>); }
};
template <class... Ts>
struct ReturnTypes<std::tuple<Ts...>> {
  static constexpr size_t kCount = sizeof...(Ts);
  static std::string code() { return (std::string(kTypeCode<Ts>) + ...); }
};

template <class Signature>
struct SignatureTraits;
template <class Return, class... Arguments>
struct SignatureTraits<Return(Arguments...)> {
  static std::string code() {
    static_assert(((!kTypeCode<Arguments>.empty()) && ...), "an argument type has no letter");
    return ((std::string(kTypeCode<Arguments>) + ",") + ... + "->") + ReturnTypes<Return>::code();
  }
};

inline void store(Frame& frame, const OutputRegisters& outputs, size_t index, at::Tensor&& tensor) {
  if (outputs[index] >= 0) frame.registers[outputs[index]] = std::move(tensor);
}
inline void store_all(Frame& frame, const OutputRegisters& outputs, at::Tensor&& tensor) {
  store(frame, outputs, 0, std::move(tensor));
}
// An in-place or out= form returns the register that it wrote to, so there is nothing to store.
inline void store_all(Frame&, const OutputRegisters&, at::Tensor&) {}
template <class... Tensors>
void store_all(Frame& frame, const OutputRegisters& outputs, std::tuple<Tensors...>&& results) {
  [&]<size_t... I>(std::index_sequence<I...>) { (store(frame, outputs, I, std::move(std::get<I>(results))), ...); }
  (std::index_sequence_for<Tensors...>{});
}
inline void store_all(Frame& frame, const OutputRegisters& outputs, std::vector<at::Tensor>&& results) {
  DIPTYCH_ASSERT(results.size() == outputs.size(), "a list came back with {} tensors, expected {} by the graph",
                 results.size(), outputs.size());
  for (size_t i = 0; i < results.size(); ++i) store(frame, outputs, i, std::move(results[i]));
}

template <class Signature>
class TypedCaller;

template <class Return, class... Arguments>
class TypedCaller<Return(Arguments...)> final : public Caller {
 public:
  static std::unique_ptr<Caller> make(const c10::OperatorHandle& handle, OperandTable& table,
                                      c10::ArrayRef<Operand> operands, const OutputRegisters& outputs) {
    return make_indexed(handle, table, operands, outputs, std::index_sequence_for<Arguments...>{});
  }

  void call(Frame& frame) const override {
    std::apply([&](const auto&... slots) { store_all(frame, outputs_, handle_.call(slots.get(frame)...)); }, slots_);
  }

 private:
  template <size_t... I>
  static std::unique_ptr<Caller> make_indexed(const c10::OperatorHandle& handle, OperandTable& table,
                                              c10::ArrayRef<Operand> operands, const OutputRegisters& outputs,
                                              std::index_sequence<I...>) {
    if (operands.size() != sizeof...(Arguments) || !(Slot<Arguments>::accepts(operands[I]) && ...)) return nullptr;
    return std::unique_ptr<Caller>(
        new TypedCaller(handle.typed<Return(Arguments...)>(), {Slot<Arguments>(table, operands[I])...}, outputs));
  }
  TypedCaller(c10::TypedOperatorHandle<Return(Arguments...)> handle, std::tuple<Slot<Arguments>...> slots,
              OutputRegisters outputs)
      : handle_(std::move(handle)), slots_(std::move(slots)), outputs_(std::move(outputs)) {}

  c10::TypedOperatorHandle<Return(Arguments...)> handle_;
  std::tuple<Slot<Arguments>...> slots_;
  OutputRegisters outputs_;
};

/// One row of the table: how to make a caller of this signature, and how to find out whether an operator has it.
struct SignatureRow {
  std::unique_ptr<Caller> (*make)(const c10::OperatorHandle&, OperandTable&, c10::ArrayRef<Operand>,
                                  const OutputRegisters&);
  void (*check)(const c10::OperatorHandle&);  ///< throws c10::Error if the operator's C++ signature differs
};
/// By code; two C++ signatures may share a code (TensorList and ITensorListRef).
using SignatureTable = std::unordered_map<std::string, std::vector<SignatureRow>>;

template <class... Signatures>
void add_signatures(SignatureTable& table) {
  (table[SignatureTraits<Signatures>::code()].push_back(
       {&TypedCaller<Signatures>::make, [](const c10::OperatorHandle& handle) { handle.typed<Signatures>(); }}),
   ...);
}

// The rows, in several files so that they compile side by side.
void add_pointwise_signatures(SignatureTable& table);
void add_inplace_signatures(SignatureTable& table);
void add_shape_signatures(SignatureTable& table);
void add_factory_signatures(SignatureTable& table);
void add_reduction_signatures(SignatureTable& table);
void add_neural_signatures(SignatureTable& table);

// Short names for the rows.
using at::Tensor;
using T = const at::Tensor&;
using OptT = const std::optional<at::Tensor>&;
using W = at::Tensor&;
using Tensors = at::TensorList;
using TensorRefs = const at::ITensorListRef&;
using OptTensors = const c10::List<std::optional<at::Tensor>>&;
using S = const at::Scalar&;
using OptS = const std::optional<at::Scalar>&;
using Int = int64_t;
using OptInt = std::optional<int64_t>;
using Ints = at::IntArrayRef;
using OptInts = at::OptionalIntArrayRef;
using Sym = c10::SymInt;
using OptSym = std::optional<c10::SymInt>;
using Syms = c10::SymIntArrayRef;
using OptSyms = at::OptionalSymIntArrayRef;
using F = double;
using OptF = std::optional<double>;
using OptFs = std::optional<at::ArrayRef<double>>;
using B = bool;
using OptB = std::optional<bool>;
template <size_t N>
using Bools = std::array<bool, N>;
using Type = at::ScalarType;
using OptType = std::optional<at::ScalarType>;
using OptLayout = std::optional<at::Layout>;
using OptDevice = std::optional<at::Device>;
using Format = at::MemoryFormat;
using OptFormat = std::optional<at::MemoryFormat>;
using OptGen = std::optional<at::Generator>;
using Str = c10::string_view;
using OptStr = std::optional<c10::string_view>;
using T2 = std::tuple<at::Tensor, at::Tensor>;
using T3 = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using T4 = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using TList = std::vector<at::Tensor>;

}  // namespace diptych::detail
