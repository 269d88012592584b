#include "diptych/native/kernel/reduction.h"

#include "diptych/native/kernel/scalar_functions.h"
#include "diptych/native/kernel/scalar_op.h"

namespace diptych::detail {
namespace {

template <class T>
std::span<const T> elements_of(const void* elements, int64_t count) {
  return {static_cast<const T*>(elements), static_cast<size_t>(count)};
}

// Combines all elements in the widest dtype of the result's kind.
template <auto F>
void evaluate_fold(at::ScalarType operand, at::ScalarType result, const void* elements, int64_t count, void* to,
                   int first) {
  const auto wide = widest_dtype(result);
  with_element_type<kWidest>(wide, [&]<class T>(std::type_identity<T>) {
    T total(first);
    for (int64_t i = 0; i < count; ++i) {
      T element;
      const auto* place = static_cast<const char*>(elements) + i * static_cast<int64_t>(c10::elementSize(operand));
      cast_element(operand, place, wide, &element);
      total = static_cast<T>(F(reference::wrapping(total), reference::wrapping(element)));
    }
    cast_element(wide, &total, result, to);
  });
}

void evaluate_sum(at::ScalarType operand, at::ScalarType result, const void* elements, int64_t count, void* to) {
  evaluate_fold<[](auto a, auto b) { return a + b; }>(operand, result, elements, count, to, 0);
}

void evaluate_prod(at::ScalarType operand, at::ScalarType result, const void* elements, int64_t count, void* to) {
  evaluate_fold<[](auto a, auto b) { return a * b; }>(operand, result, elements, count, to, 1);
}

// The position of the extreme element: NaN wins over all others, and the first of equals wins.
template <auto IsBetter, class T>
size_t extreme_position(std::span<const T> elements) {
  size_t best = 0;
  for (size_t i = 1; i < elements.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(elements[best])) return best;
      if (std::isnan(elements[i])) return i;
    }
    if (IsBetter(elements[i], elements[best])) best = i;
  }
  return best;
}

template <auto IsBetter>
void evaluate_extreme(at::ScalarType operand, at::ScalarType, const void* elements, int64_t count, void* to) {
  with_element_type<kBools | kRealNumbers>(operand, [&]<class T>(std::type_identity<T>) {
    const auto all = elements_of<T>(elements, count);
    *static_cast<T*>(to) = all[extreme_position<IsBetter>(all)];
  });
}

template <auto IsBetter>
void evaluate_position(at::ScalarType operand, at::ScalarType, const void* elements, int64_t count, void* to) {
  with_element_type<kBools | kRealNumbers>(operand, [&]<class T>(std::type_identity<T>) {
    const auto position = extreme_position<IsBetter>(elements_of<T>(elements, count));
    *static_cast<int64_t*>(to) = static_cast<int64_t>(position);
  });
}

void evaluate_any(at::ScalarType, at::ScalarType, const void* elements, int64_t count, void* to) {
  bool result = false;
  for (const bool element : elements_of<bool>(elements, count)) result = result || element;
  *static_cast<bool*>(to) = result;
}

void evaluate_all(at::ScalarType, at::ScalarType, const void* elements, int64_t count, void* to) {
  bool result = true;
  for (const bool element : elements_of<bool>(elements, count)) result = result && element;
  *static_cast<bool*>(to) = result;
}

template <class T>
double mean_of(std::span<const T> elements) {
  double sum = 0;
  for (const T element : elements) sum += element;
  return sum / static_cast<double>(elements.size());
}

template <class T>
double squared_deviations_of(std::span<const T> elements) {
  const double mean = mean_of(elements);
  double sum = 0;
  for (const T element : elements) sum += (element - mean) * (element - mean);
  return sum;
}

// The logarithm of the sum of exponentials, none of which overflows.
template <class T>
double logsumexp_of(std::span<const T> elements) {
  double largest = elements.empty() ? 0 : elements[0];
  for (const T element : elements) largest = reference::maximum<double>(largest, element);
  if (std::isinf(largest)) largest = 0;
  double sum = 0;
  for (const T element : elements) sum += std::exp(element - largest);
  return std::log(sum) + largest;
}

template <auto F>
void evaluate_statistic(at::ScalarType operand, at::ScalarType, const void* elements, int64_t count, void* to) {
  with_element_type<kFloats>(operand, [&]<class T>(std::type_identity<T>) {
    *static_cast<T*>(to) = static_cast<T>(F(elements_of<T>(elements, count)));
  });
}

constexpr auto kIsLess = [](auto a, auto b) { return a < b; };
constexpr auto kIsGreater = [](auto a, auto b) { return a > b; };
constexpr DtypeSet kOrdered = kBools | kRealNumbers;

constexpr Reduction kReductions[] = {
    {"sum", kComputed, ReductionResult::kWider, true, &evaluate_sum},
    {"prod", kComputed, ReductionResult::kWider, true, &evaluate_prod},
    {"min", kOrdered, ReductionResult::kSame, false, &evaluate_extreme<kIsLess>},
    {"max", kOrdered, ReductionResult::kSame, false, &evaluate_extreme<kIsGreater>},
    {"argmin", kOrdered, ReductionResult::kPosition, false, &evaluate_position<kIsLess>},
    {"argmax", kOrdered, ReductionResult::kPosition, false, &evaluate_position<kIsGreater>},
    {"any", kBools, ReductionResult::kSame, true, &evaluate_any},
    {"all", kBools, ReductionResult::kSame, true, &evaluate_all},
    {"mean", kFloats, ReductionResult::kSame, true, &evaluate_statistic<[](auto x) { return mean_of(x); }>},
    {"squared_deviations", kFloats, ReductionResult::kSame, true,
     &evaluate_statistic<[](auto x) { return squared_deviations_of(x); }>},
    {"logsumexp", kFloats, ReductionResult::kSame, true, &evaluate_statistic<[](auto x) { return logsumexp_of(x); }>},
};

}  // namespace

std::span<const Reduction> reductions() { return kReductions; }

const Reduction* find_reduction(std::string_view name) {
  for (const Reduction& reduction : kReductions) {
    if (reduction.name == name) return &reduction;
  }
  return nullptr;
}

}  // namespace diptych::detail
