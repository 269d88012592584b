// One slot per C++ argument type of an operator: built once from a graph's operand, then read at every call.
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "diptych/interpreter/caller.h"

namespace diptych::detail {

// Constants ---------------------------------------------------------------------------------------------------------

template <class T>
struct FromConstant {
  static T read(const c10::IValue& constant) { return constant.to<T>(); }
};
template <>
struct FromConstant<at::Scalar> {
  static at::Scalar read(const c10::IValue& constant) { return constant.toScalar(); }
};
template <>
struct FromConstant<double> {
  static double read(const c10::IValue& constant) {
    return constant.isInt() ? static_cast<double>(constant.toInt()) : constant.toDouble();
  }
};
template <>
struct FromConstant<at::ScalarType> {
  static at::ScalarType read(const c10::IValue& constant) { return constant.toScalarType(); }
};
template <>
struct FromConstant<at::Layout> {
  static at::Layout read(const c10::IValue& constant) { return constant.toLayout(); }
};
template <>
struct FromConstant<at::MemoryFormat> {
  static at::MemoryFormat read(const c10::IValue& constant) { return constant.toMemoryFormat(); }
};
template <>
struct FromConstant<at::Device> {
  static at::Device read(const c10::IValue& constant) { return constant.toDevice(); }
};
template <>
struct FromConstant<at::Generator> {
  static at::Generator read(const c10::IValue& constant) { return constant.toGenerator(); }
};
template <size_t N>
struct FromConstant<std::array<bool, N>> {
  static std::array<bool, N> read(const c10::IValue& constant) {
    const auto list = constant.toBoolList();
    TORCH_CHECK(list.size() == N, "expected a list of ", N, " bools, got ", list.size());
    std::array<bool, N> result{};
    std::copy(list.begin(), list.end(), result.begin());
    return result;
  }
};
template <class T>
struct FromConstant<std::optional<T>> {
  static std::optional<T> read(const c10::IValue& constant) {
    if (constant.isNone()) return std::nullopt;
    return FromConstant<T>::read(constant);
  }
};
template <>
struct FromConstant<std::vector<int64_t>> {
  static std::vector<int64_t> read(const c10::IValue& constant) {
    // `int[2] stride` may be given as one int.
    if (constant.isInt()) return {constant.toInt()};
    if (!constant.isSymIntList()) return constant.toIntVector();
    std::vector<int64_t> sizes;
    for (const auto& size : constant.toSymIntVector()) sizes.push_back(size.guard_int(__FILE__, __LINE__));
    return sizes;
  }
};
template <>
struct FromConstant<std::vector<double>> {
  static std::vector<double> read(const c10::IValue& constant) { return constant.toDoubleVector(); }
};

// Slots -------------------------------------------------------------------------------------------------------------

/// A slot for a constant that is passed as it is stored. Every slot has: accepts() (whether the operand can be passed
/// in this form), a constructor, and get().
template <class Argument>
struct Slot {
  using Stored = std::decay_t<Argument>;
  static bool accepts(const Operand& operand) { return std::holds_alternative<c10::IValue>(operand); }
  Slot(OperandTable&, const Operand& operand) : stored(FromConstant<Stored>::read(std::get<c10::IValue>(operand))) {}
  const Stored& get(const Frame&) const { return stored; }
  Stored stored;
};

struct TensorSlot {
  static bool accepts(const Operand& operand) { return OperandTable::is_tensor(operand); }
  TensorSlot(OperandTable& table, const Operand& operand) : reference(table.tensor_reference(operand)) {}
  int32_t reference;
};

template <>
struct Slot<const at::Tensor&> : TensorSlot {
  using TensorSlot::TensorSlot;
  const at::Tensor& get(const Frame& frame) const { return frame.tensor(reference); }
};

/// A tensor that is written to; only in-place and out= forms that the program itself chose have one.
template <>
struct Slot<at::Tensor&> : TensorSlot {
  using TensorSlot::TensorSlot;
  at::Tensor& get(const Frame& frame) const { return frame.registers[reference]; }
};

template <>
struct Slot<const std::optional<at::Tensor>&> : TensorSlot {
  using TensorSlot::TensorSlot;
  std::optional<at::Tensor> get(const Frame& frame) const {
    const auto& tensor = frame.tensor(reference);
    return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
  }
};

struct TensorListSlot {
  static bool accepts(const Operand& operand) { return std::holds_alternative<ValueList>(operand); }
  TensorListSlot(OperandTable& table, const Operand& operand) {
    for (const Value value : std::get<ValueList>(operand)) references.push_back(table.reference(value));
  }
  c10::SmallVector<int32_t, 4> references;
};

/// Holds the tensors of a list for as long as the call lasts.
struct GatheredTensors {
  c10::SmallVector<at::Tensor, 4> tensors;
  operator at::TensorList() const { return tensors; }  // NOLINT(google-explicit-constructor)
  operator at::ITensorListRef() const { return at::ITensorListRef(at::TensorList(tensors)); }  // NOLINT
};

struct GatheredTensorsSlot : TensorListSlot {
  using TensorListSlot::TensorListSlot;
  GatheredTensors get(const Frame& frame) const {
    GatheredTensors gathered;
    gathered.tensors.reserve(references.size());
    for (const auto reference : references) gathered.tensors.push_back(frame.tensor(reference));
    return gathered;
  }
};
template <>
struct Slot<at::TensorList> : GatheredTensorsSlot {
  using GatheredTensorsSlot::GatheredTensorsSlot;
};
template <>
struct Slot<const at::ITensorListRef&> : GatheredTensorsSlot {
  using GatheredTensorsSlot::GatheredTensorsSlot;
};

template <>
struct Slot<const c10::List<std::optional<at::Tensor>>&> : TensorListSlot {
  using TensorListSlot::TensorListSlot;
  c10::List<std::optional<at::Tensor>> get(const Frame& frame) const {
    OptionalTensorListMaker list(references.size());
    for (const auto reference : references) list.push(frame.tensor(reference));
    return std::move(list).finish();
  }
};

/// A list whose elements are stored in the slot and passed as a view of them.
template <class Element, class View>
struct ListSlot {
  static bool accepts(const Operand& operand) { return std::holds_alternative<c10::IValue>(operand); }
  ListSlot(OperandTable&, const Operand& operand) {
    const auto& constant = std::get<c10::IValue>(operand);
    is_none = constant.isNone();
    if (!is_none) elements = FromConstant<std::vector<Element>>::read(constant);
  }
  View get(const Frame&) const {
    if constexpr (std::is_same_v<View, c10::ArrayRef<Element>>)
      return elements;
    else
      return is_none ? View() : View(std::optional(c10::ArrayRef<Element>(elements)));
  }
  std::vector<Element> elements;
  bool is_none;
};
template <>
struct Slot<at::IntArrayRef> : ListSlot<int64_t, at::IntArrayRef> {
  using ListSlot::ListSlot;
};
template <>
struct Slot<at::OptionalIntArrayRef> : ListSlot<int64_t, at::OptionalIntArrayRef> {
  using ListSlot::ListSlot;
};
template <>
struct Slot<std::optional<at::ArrayRef<double>>> : ListSlot<double, std::optional<at::ArrayRef<double>>> {
  using ListSlot::ListSlot;
};

template <>
struct Slot<c10::string_view> {
  static bool accepts(const Operand& operand) { return std::holds_alternative<c10::IValue>(operand); }
  Slot(OperandTable&, const Operand& operand) : stored(std::get<c10::IValue>(operand).toStringRef()) {}
  c10::string_view get(const Frame&) const { return stored; }
  std::string stored;
};
template <>
struct Slot<std::optional<c10::string_view>> {
  static bool accepts(const Operand& operand) { return std::holds_alternative<c10::IValue>(operand); }
  Slot(OperandTable&, const Operand& operand) {
    const auto& constant = std::get<c10::IValue>(operand);
    if (!constant.isNone()) stored = constant.toStringRef();
  }
  std::optional<c10::string_view> get(const Frame&) const {
    return stored ? std::optional<c10::string_view>(*stored) : std::nullopt;
  }
  std::optional<std::string> stored;
};

/// A size: a plain integer, or one that the frame knows by number.
struct SizeSlot {
  static bool accepts(const Operand& operand) {
    return std::holds_alternative<c10::IValue>(operand) || std::holds_alternative<SizeExpr>(operand);
  }
  SizeSlot(OperandTable& table, const Operand& operand) {
    if (const auto* size = std::get_if<SizeExpr>(&operand)) {
      stored = size->hint();
      if (!size->is_static()) dynamic = table.dynamic_scalar(*size);
    } else if (const auto& constant = std::get<c10::IValue>(operand); constant.isNone()) {
      is_none = true;
    } else {
      stored = constant.toInt();
    }
  }
  int64_t value(const Frame& frame) const { return dynamic < 0 ? stored : frame.dynamic->scalars[dynamic]; }
  int64_t stored = 0;
  int32_t dynamic = -1;
  bool is_none = false;
};
template <>
struct Slot<int64_t> : SizeSlot {
  using SizeSlot::SizeSlot;
  int64_t get(const Frame& frame) const { return value(frame); }
};
template <>
struct Slot<c10::SymInt> : SizeSlot {
  using SizeSlot::SizeSlot;
  c10::SymInt get(const Frame& frame) const { return value(frame); }
};
template <>
struct Slot<std::optional<c10::SymInt>> : SizeSlot {
  using SizeSlot::SizeSlot;
  std::optional<c10::SymInt> get(const Frame& frame) const {
    return is_none ? std::nullopt : std::optional<c10::SymInt>(value(frame));
  }
};

struct SizesSlot {
  static bool accepts(const Operand& operand) {
    return std::holds_alternative<c10::IValue>(operand) || std::holds_alternative<Sizes>(operand);
  }
  SizesSlot(OperandTable& table, const Operand& operand) {
    if (const auto* sizes = std::get_if<Sizes>(&operand)) {
      for (const auto& size : *sizes) stored.emplace_back(size.hint());
      if (!all_static(*sizes)) dynamic = table.dynamic_list(*sizes);
    } else if (const auto& constant = std::get<c10::IValue>(operand); constant.isNone()) {
      is_none = true;
    } else {
      for (const int64_t size : FromConstant<std::vector<int64_t>>::read(constant)) stored.emplace_back(size);
    }
  }
  c10::SymIntArrayRef value(const Frame& frame) const { return dynamic < 0 ? stored : frame.dynamic->lists[dynamic]; }
  std::vector<c10::SymInt> stored;
  int32_t dynamic = -1;
  bool is_none = false;
};
template <>
struct Slot<c10::SymIntArrayRef> : SizesSlot {
  using SizesSlot::SizesSlot;
  c10::SymIntArrayRef get(const Frame& frame) const { return value(frame); }
};
template <>
struct Slot<at::OptionalSymIntArrayRef> : SizesSlot {
  using SizesSlot::SizesSlot;
  at::OptionalSymIntArrayRef get(const Frame& frame) const {
    return is_none ? at::OptionalSymIntArrayRef() : at::OptionalSymIntArrayRef(std::optional(value(frame)));
  }
};

}  // namespace diptych::detail
