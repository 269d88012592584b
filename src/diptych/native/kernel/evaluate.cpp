#include "diptych/native/kernel/evaluate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "diptych/base/check.h"
#include "diptych/graph/tensor_meta.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_functions.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/kernel/verify.h"

namespace diptych::detail {
namespace {

constexpr int64_t kMaxPoints = int64_t{1} << 26;

using Point = std::array<int64_t, kMaxDims>;

// A value at each point of its domain.
struct DenseValue {
  char* at(const Point& point) {
    int64_t index = 0;
    for (int32_t dim = 0; dim < kMaxDims; ++dim) index += strides[dim] * point[dim];
    return bytes.data() + index * element_size;
  }
  int64_t element_size = 0;
  Point strides{};  // 0 along dims over which it does not vary
  std::vector<char> bytes;
};

class KernelEvaluator {
 public:
  KernelEvaluator(const Kernel& kernel, const std::vector<KernelMemory>& inputs,
                  const std::vector<KernelMemory>& outputs, const std::vector<int64_t>& symbols)
      : kernel_(kernel), inputs_(inputs), outputs_(outputs), symbols_(symbols), domains_(value_domains(kernel)) {}

  void run() {
    check_call();
    for (size_t i = 0; i < kernel_.extents.size(); ++i) {
      extents_.push_back(number_of(kernel_.extents[i]));
      DIPTYCH_CHECK(extents_[i] >= 0, "[kernel {}] the extent of d{} is {}; pass symbols that make it 0 or more",
                    kernel_.name, i, extents_[i]);
    }
    for (line_ = 0; line_ < kernel_.values.size(); ++line_) {
      const KernelValue& value = kernel_.values[line_];
      values_.push_back(empty_value(value.dtype, domains_[line_]));
      std::visit([&](const auto& way) { compute(value, way); }, value.made_by);
    }
    for (const KernelStore& store : kernel_.stores) {
      store.is_add ? add_stored(store) : write_stored(store);
      ++line_;
    }
  }

 private:
  void check_call() const {
    const auto check_memory = [&](char letter, const std::vector<KernelMemory>& given,
                                  const std::vector<at::ScalarType>& expected) {
      DIPTYCH_CHECK(given.size() == expected.size(), "[kernel {}] got {} buffers for {}0 and so on, expected {}",
                    kernel_.name, given.size(), letter, expected.size());
      for (size_t i = 0; i < given.size(); ++i) {
        DIPTYCH_CHECK(given[i].dtype == expected[i], "[kernel {}] got {} for {}{}, expected {}; convert it",
                      kernel_.name, c10::toString(given[i].dtype), letter, i, dtype_name(expected[i]));
      }
    };
    check_memory('x', inputs_, kernel_.inputs);
    check_memory('y', outputs_, kernel_.outputs);
    const auto expected = static_cast<size_t>(symbol_count(kernel_));
    DIPTYCH_CHECK(symbols_.size() >= expected,
                  "[kernel {}] got {} symbols, expected {}; pass a value for each of s0 to s{}", kernel_.name,
                  symbols_.size(), expected, expected - 1);
  }

  std::string line() const { return fmt::format("[kernel {}] '{}'", kernel_.name, line_text(kernel_, line_)); }

  int64_t product(int64_t a, int64_t b) const {
    int64_t result = 0;
    DIPTYCH_CHECK(!__builtin_mul_overflow(a, b, &result), "[kernel {}] {} * {} leaves 64 bits; pass smaller symbols",
                  kernel_.name, a, b);
    return result;
  }

  int64_t number_of(const SizeTerm& size) const {
    return size.is_constant() ? size.factor : product(size.factor, symbols_[size.symbol]);
  }

  // How many points there are along `dims`. Errors: UserError if there are more than can be visited one by one.
  int64_t count_points(DimSet dims) const {
    std::vector<int64_t> extents;
    for (size_t dim = 0; dim < extents_.size(); ++dim) {
      if (dims.contains(static_cast<int32_t>(dim))) extents.push_back(extents_[dim]);
    }
    // Beside a dim of no positions, the others may be too many to multiply.
    if (std::count(extents.begin(), extents.end(), 0) > 0) return 0;
    int64_t count = 1;
    for (const int64_t extent : extents) count = product(count, extent);
    DIPTYCH_CHECK(count <= kMaxPoints,
                  "{} visits {} points; the reference evaluator visits at most {}: evaluate it at smaller sizes",
                  line(), count, kMaxPoints);
    return count;
  }

  DenseValue empty_value(at::ScalarType dtype, DimSet dims) const {
    DenseValue value;
    value.element_size = static_cast<int64_t>(c10::elementSize(dtype));
    value.bytes.resize(count_points(dims) * value.element_size);
    if (value.bytes.empty()) return value;
    int64_t stride = 1;
    for (int32_t dim = static_cast<int32_t>(extents_.size()) - 1; dim >= 0; --dim) {
      if (!dims.contains(dim)) continue;
      value.strides[dim] = stride;
      stride *= extents_[dim];
    }
    return value;
  }

  // Calls `body` for each position along `dims`, the last dim running fastest; other dims of the point stay.
  template <class Body>
  void for_each_point(DimSet dims, Point& point, const Body& body) const {
    // Beside a dim of no positions, another may have more than can be counted through.
    if (count_points(dims) > 0) for_each_point_from(0, dims, point, body);
  }

  template <class Body>
  void for_each_point_from(int32_t dim, DimSet dims, Point& point, const Body& body) const {
    while (dim < static_cast<int32_t>(extents_.size()) && !dims.contains(dim)) ++dim;
    if (dim == static_cast<int32_t>(extents_.size())) return body();
    for (point[dim] = 0; point[dim] < extents_[dim]; ++point[dim]) for_each_point_from(dim + 1, dims, point, body);
    point[dim] = 0;
  }

  int64_t term_number(const IndexTerm& term, const Point& point) {
    const int64_t coefficient = number_of(term.coefficient);
    if (term.factor == IndexFactor::kOne) return coefficient;
    if (term.factor == IndexFactor::kDim) return product(coefficient, point[term.id]);
    int64_t index = 0;
    std::memcpy(&index, values_[term.id].at(point), sizeof(index));
    return product(coefficient, index);
  }

  int64_t map_number(const IndexMap& map, const Point& point) {
    int64_t sum = 0;
    for (const IndexTerm& term : map.terms()) {
      DIPTYCH_CHECK(!__builtin_add_overflow(sum, term_number(term, point), &sum),
                    "{} has an index that leaves 64 bits; pass smaller symbols", line());
    }
    return sum;
  }

  // The place of the element at a point, which is checked to be one.
  char* element(const char* verb, char letter, int32_t number, const IndexMap& map, DimSet dims, const Point& point) {
    const KernelMemory& memory = (letter == 'x' ? inputs_ : outputs_)[number];
    const int64_t index = map_number(map, point);
    DIPTYCH_CHECK(index >= 0 && index < memory.count,
                  "{} {} element {} of {}{}, which has {}, at {}; check the map and the symbols, or mask the load",
                  line(), verb, index, letter, number, memory.count, point_text(dims, point));
    return static_cast<char*>(memory.data) + index * static_cast<int64_t>(c10::elementSize(memory.dtype));
  }

  std::string point_text(DimSet dims, const Point& point) const {
    std::string text;
    for (size_t dim = 0; dim < extents_.size(); ++dim) {
      if (dims.contains(static_cast<int32_t>(dim)))
        text += fmt::format("{}d{}={}", text.empty() ? "" : ", ", dim, point[dim]);
    }
    return text.empty() ? "its only point" : text;
  }

  // Calls `body` with each point of the value that is computed, and the place of its element there.
  template <class Body>
  void fill(const Body& body) {
    Point point{};
    for_each_point(domains_[line_], point, [&] { body(point, values_[line_].at(point)); });
  }

  void compute(const KernelValue& value, const KernelConstant& constant) {
    const auto write = [&](auto number, at::ScalarType dtype) {
      fill([&](const Point&, char* to) { cast_element(dtype, &number, value.dtype, to); });
    };
    if (const auto* integer = std::get_if<int64_t>(&constant.number.number)) return write(*integer, at::kLong);
    if (const auto* real = std::get_if<double>(&constant.number.number)) return write(*real, at::kDouble);
    write(c10::complex<double>(std::get<std::complex<double>>(constant.number.number)), at::kComplexDouble);
  }

  void compute(const KernelValue&, const KernelIndex& index) {
    fill([&](const Point& point, char* to) {
      const int64_t number = map_number(index.map, point);
      std::memcpy(to, &number, sizeof(number));
    });
  }

  void compute(const KernelValue&, const KernelLoad& load) {
    fill([&](const Point& point, char* to) {
      const bool is_read = !load.mask || *values_[load.mask->condition].at(point) != 0;
      const char* from = is_read ? element("reads", 'x', load.input, load.map, domains_[line_], point)
                                 : values_[load.mask->other].at(point);
      std::memcpy(to, from, values_[line_].element_size);
    });
  }

  void compute(const KernelValue& value, const KernelScalar& scalar) {
    const auto dtype = kernel_.values[scalar.operands[scalar.op->has_condition ? 1 : 0]].dtype;
    fill([&](const Point& point, char* to) {
      std::vector<const void*> operands;
      for (const int32_t operand : scalar.operands) operands.push_back(values_[operand].at(point));
      scalar.op->evaluate(dtype, value.dtype, operands.data(), to);
    });
  }

  void compute(const KernelValue& value, const KernelReduce& reduce) {
    count_points(domains_[line_] | reduce.over);  // refuses what would take too long
    DenseValue& operand = values_[reduce.operand];
    const auto dtype = kernel_.values[reduce.operand].dtype;
    fill([&](Point point, char* to) {
      std::vector<char> elements;
      for_each_point(reduce.over, point, [&] {
        const char* from = operand.at(point);
        elements.insert(elements.end(), from, from + operand.element_size);
      });
      const int64_t count = static_cast<int64_t>(elements.size()) / operand.element_size;
      DIPTYCH_CHECK(count > 0 || reduce.reduction->has_empty,
                    "{} has no elements, so there is no {}; check the extents", line(), reduce.reduction->name);
      reduce.reduction->evaluate(dtype, value.dtype, elements.data(), count, to);
    });
  }

  // Calls `body` with the place of each value that a store writes and the place where it goes.
  template <class Body>
  void for_each_stored(const KernelStore& store, const Body& body) {
    const DimSet dims = store_domain(store, domains_);
    Point point{};
    for_each_point(dims, point, [&] {
      body(values_[store.value].at(point), element("writes", 'y', store.output, store.map, dims, point));
    });
  }

  void write_stored(const KernelStore& store) {
    const auto size = c10::elementSize(kernel_.outputs[store.output]);
    for_each_stored(store, [&](const char* from, char* to) { std::memcpy(to, from, size); });
  }

  void add_stored(const KernelStore& store) {
    const auto dtype = kernel_.outputs[store.output];
    const auto wide = widest_dtype(dtype);
    with_element_type<kWidest>(wide, [&]<class T>(std::type_identity<T>) {
      std::map<char*, T> sums;
      for_each_stored(store, [&](const char* from, char* to) {
        const auto [sum, is_new] = sums.try_emplace(to);
        if (is_new) cast_element(dtype, to, wide, &sum->second);
        T added;
        cast_element(dtype, from, wide, &added);
        sum->second = static_cast<T>(reference::wrapping(sum->second) + reference::wrapping(added));
      });
      for (const auto& [to, sum] : sums) cast_element(wide, &sum, dtype, to);
    });
  }

  const Kernel& kernel_;
  const std::vector<KernelMemory>& inputs_;
  const std::vector<KernelMemory>& outputs_;
  const std::vector<int64_t>& symbols_;
  std::vector<DimSet> domains_;
  std::vector<int64_t> extents_;
  std::vector<DenseValue> values_;
  size_t line_ = 0;
};

}  // namespace

KernelMemory KernelMemory::of(const at::Tensor& tensor) {
  DIPTYCH_CHECK(
      tensor.layout() == at::kStrided && tensor.device().is_cpu() && !tensor.is_conj() && !tensor.is_neg(),
      "[kernel] got {}, expected strided memory of the CPU without lazy conj() or neg(); call resolve_conj(), "
      "resolve_neg(), to_dense() or cpu()",
      tensor.toString());
  const auto size = static_cast<int64_t>(tensor.element_size());
  const auto stored = static_cast<int64_t>(tensor.storage().nbytes()) / size - tensor.storage_offset();
  return {tensor.scalar_type(), tensor.data_ptr(), std::max<int64_t>(stored, 0)};
}

void evaluate(const Kernel& kernel, const std::vector<KernelMemory>& inputs, const std::vector<KernelMemory>& outputs,
              const std::vector<int64_t>& symbols) {
  const auto problem = find_problem(kernel);
  DIPTYCH_ASSERT(!problem, "{}\n{}", problem->what, print(kernel));
  KernelEvaluator(kernel, inputs, outputs, symbols).run();
}

}  // namespace diptych::detail
