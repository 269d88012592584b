#include "backends/native/parse_kernel.h"

#include <fmt/format.h>
#include <charconv>
#include <map>

#include "diptych/graph/tensor_meta.h"
#include "diptych/graph/text_cursor.h"
#include "diptych/native/kernel/dtypes.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/kernel/verify.h"

namespace diptych::detail {
namespace {

class KernelParser {
 public:
  explicit KernelParser(std::string_view text) : cursor_(text) {}

  Kernel run() {
    parse_header();
    while (!cursor_.accept("}")) parse_line();
    if (!cursor_.at_end()) cursor_.fail("the end of the text after '}'");
    if (const auto problem = find_problem(kernel_)) cursor_.fail_at(position_of(*problem), problem->what);
    return std::move(kernel_);
  }

 private:
  size_t position_of(const KernelProblem& problem) const {
    if (!problem.line) return 0;
    const size_t num_values = kernel_.values.size();
    return *problem.line < num_values ? value_positions_[*problem.line] : store_positions_[*problem.line - num_values];
  }

  void parse_header() {
    cursor_.expect("kernel");
    kernel_.name = std::string(cursor_.name());
    if (kernel_.name.empty()) cursor_.fail("the kernel's name");
    cursor_.expect("(");
    if (!cursor_.accept(")")) {
      do {
        expect_next('d', kernel_.extents.size());
        cursor_.expect("=");
        kernel_.extents.push_back(parse_extent());
      } while (cursor_.accept(","));
      cursor_.expect(")");
    }
    parse_hints();
    cursor_.expect("{");
  }

  void parse_hints() {
    if (!cursor_.accept("where")) return;
    do {
      expect_next('s', kernel_.hints.size());
      cursor_.expect("=");
      kernel_.hints.push_back(cursor_.integer());
    } while (cursor_.accept(","));
  }

  void parse_line() {
    const char next = cursor_.peek();
    if (next == '%') return parse_value();
    if (next == 'x') return parse_buffer('x', kernel_.inputs);
    if (next == 'y') return parse_buffer('y', kernel_.outputs);
    if (cursor_.sees("store")) return parse_store();
    cursor_.fail("an input x0, an output y0, a value %0, 'store' or '}'");
  }

  void parse_buffer(char letter, std::vector<at::ScalarType>& buffers) {
    expect_next(letter, buffers.size());
    cursor_.expect(":");
    buffers.push_back(parse_dtype());
  }

  at::ScalarType parse_dtype() {
    cursor_.peek();
    const size_t start = cursor_.position();
    const auto dtype = find_dtype(cursor_.name());
    if (dtype && has_dtype(kStored, *dtype)) return *dtype;
    cursor_.set_position(start);
    cursor_.fail("one of the dtypes " + dtype_names(kStored));
  }

  // A letter and a number, such as d0.
  std::optional<int32_t> numbered_word(char letter) {
    cursor_.peek();
    const size_t start = cursor_.position();
    const auto word = cursor_.name();
    int32_t number = 0;
    const auto* end = word.data() + word.size();
    const bool has_number = word.size() > 1 && word[0] == letter && word[1] != '-';
    if (has_number) {
      const auto [at, error] = std::from_chars(word.data() + 1, end, number);
      if (at == end && error == std::errc()) return number;
    }
    cursor_.set_position(start);
    return std::nullopt;
  }

  int32_t expect_numbered(char letter) {
    if (const auto number = numbered_word(letter)) return *number;
    cursor_.fail(fmt::format("a number after '{}', as in {}0", letter, letter));
  }

  void expect_next(char letter, size_t number) {
    cursor_.peek();
    const size_t start = cursor_.position();
    if (numbered_word(letter) == static_cast<int32_t>(number)) return;
    cursor_.set_position(start);
    cursor_.fail(fmt::format("{}{}, since they are numbered in their order", letter, number));
  }

  int32_t parse_value_number() {
    cursor_.expect("%");
    const auto word = cursor_.name();
    int32_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (word.empty() || error != std::errc() || end != word.data() + word.size())
      cursor_.fail("the number of a value after '%'");
    return number;
  }

  int32_t parse_operand() {
    cursor_.peek();
    const size_t start = cursor_.position();
    const int32_t number = parse_value_number();
    const auto found = places_.find(number);
    if (found == places_.end())
      cursor_.fail_at(start, fmt::format("got %{}, which no line above defines; define it first", number));
    return found->second;
  }

  SizeTerm parse_extent() {
    SizeTerm size{1};
    if (const auto symbol = numbered_word('s')) {
      size.symbol = *symbol;
    } else {
      size.factor = cursor_.integer();
      if (cursor_.accept("*")) size.symbol = expect_numbered('s');
    }
    return size;
  }

  IndexMap parse_map() {
    cursor_.expect("[");
    IndexMap map = parse_sum();
    cursor_.expect("]");
    return map;
  }

  IndexMap parse_sum() {
    IndexMap map;
    bool is_negative = cursor_.accept("-");
    while (true) {
      cursor_.peek();
      const size_t start = cursor_.position();
      const IndexTerm term = parse_term(is_negative);
      try {
        map.add(term);
      } catch (const UserError& error) {
        cursor_.fail_at(start, error.what());
      }
      is_negative = cursor_.sees("-");
      if (!cursor_.accept("-") && !cursor_.accept("+")) return map;
    }
  }

  IndexTerm parse_term(bool is_negative) {
    IndexTerm term = offset_term({is_negative ? -1 : 1});
    do {
      cursor_.peek();
      const size_t start = cursor_.position();
      const char next = cursor_.peek();
      const bool is_symbol = next == 's', is_variable = next == 'd' || next == '%';
      if ((is_symbol && !term.coefficient.is_constant()) || (is_variable && term.factor != IndexFactor::kOne)) {
        cursor_.fail_at(start,
                        "a term has at most one symbol and one dim or value; compute other products as values, "
                        "or pass the product as a symbol");
      }
      if (is_symbol) {
        term.coefficient.symbol = expect_numbered('s');
      } else if (is_variable) {
        term.factor = next == 'd' ? IndexFactor::kDim : IndexFactor::kValue;
        term.id = next == 'd' ? expect_numbered('d') : parse_operand();
      } else if (__builtin_mul_overflow(term.coefficient.factor, cursor_.integer(), &term.coefficient.factor)) {
        cursor_.fail_at(start, "a coefficient leaves 64 bits; use a smaller one");
      }
    } while (cursor_.accept("*"));
    return term;
  }

  void parse_value() {
    const size_t start = cursor_.position();
    const int32_t number = parse_value_number();
    if (!places_.empty() && number <= places_.rbegin()->first) {
      cursor_.fail_at(start, fmt::format("got %{} after %{}; number values in the order of their definition", number,
                                         places_.rbegin()->first));
    }
    KernelValue value;
    cursor_.expect(":");
    value.dtype = parse_dtype();
    cursor_.expect("=");
    parse_made_by(value);
    places_[number] = static_cast<int32_t>(kernel_.values.size());
    value_positions_.push_back(start);
    kernel_.values.push_back(std::move(value));
  }

  void parse_made_by(KernelValue& value) {
    if (cursor_.accept("constant")) {
      value.made_by = KernelConstant{parse_number(value.dtype)};
    } else if (cursor_.accept("index")) {
      value.made_by = KernelIndex{parse_sum()};
    } else if (cursor_.accept("load")) {
      value.made_by = parse_load();
    } else if (cursor_.accept("reduce")) {
      value.made_by = parse_reduce();
    } else {
      value.made_by = parse_scalar();
    }
  }

  KernelLoad parse_load() {
    KernelLoad load;
    load.input = expect_numbered('x');
    load.map = parse_map();
    if (cursor_.accept("if")) {
      load.mask.emplace();
      load.mask->condition = parse_operand();
      cursor_.expect("else");
      load.mask->other = parse_operand();
    }
    return load;
  }

  KernelReduce parse_reduce() {
    KernelReduce reduce;
    reduce.reduction = parse_row(find_reduction, reductions(), "one of the reductions");
    reduce.operand = parse_operand();
    cursor_.expect("over");
    do {
      cursor_.peek();
      const size_t at = cursor_.position();
      const int32_t dim = expect_numbered('d');
      if (dim >= kMaxDims) cursor_.fail_at(at, fmt::format("got d{}, expected a dim below d{}", dim, kMaxDims));
      reduce.over = reduce.over | DimSet::of(dim);
    } while (cursor_.accept(","));
    return reduce;
  }

  KernelScalar parse_scalar() {
    KernelScalar scalar;
    scalar.op = parse_row(find_scalar_op, scalar_ops(), "'constant', 'index', 'load', 'reduce' or one of");
    do {
      scalar.operands.push_back(parse_operand());
    } while (cursor_.accept(","));
    return scalar;
  }

  // The row of a table that the text names.
  template <class Row>
  const Row* parse_row(const Row* (*find)(std::string_view), std::span<const Row> rows, std::string_view what) {
    cursor_.peek();
    const size_t start = cursor_.position();
    const auto name = cursor_.name();
    if (const Row* const row = find(name)) return row;
    std::string names;
    for (const Row& row : rows) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
    cursor_.fail_at(start, fmt::format("got '{}', expected {} {}", name, what, names));
  }

  KernelNumber parse_number(at::ScalarType dtype) {
    if (dtype == at::kBool) {
      const bool is_true = cursor_.accept("true");
      if (!is_true && !cursor_.accept("false")) cursor_.fail("'true' or 'false'");
      return {int64_t{is_true}};
    }
    if (has_dtype(kIntegers, dtype)) return {cursor_.integer()};
    if (!has_dtype(kComplexes, dtype)) return {parse_float(dtype)};
    cursor_.expect("(");
    const double real = parse_float(dtype);
    cursor_.expect(",");
    const double imag = parse_float(dtype);
    cursor_.expect(")");
    return {std::complex<double>(real, imag)};
  }

  double parse_float(at::ScalarType dtype) {
    cursor_.peek();
    const size_t start = cursor_.position();
    const auto word = cursor_.until("/})");
    const bool is_single = dtype == at::kFloat || dtype == at::kComplexFloat;
    const auto read = [&](auto number) -> std::optional<double> {
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      const bool is_whole = error == std::errc() && end == word.data() + word.size();
      return is_whole ? std::optional<double>(number) : std::nullopt;
    };
    // Read in the precision of the dtype: by way of f64 it would be rounded twice.
    const auto number = is_single ? read(float{}) : read(double{});
    if (number) return *number;
    cursor_.set_position(start);
    cursor_.fail("a number in the range of its dtype, inf or nan");
  }

  void parse_store() {
    store_positions_.push_back(cursor_.position());
    cursor_.expect("store");
    KernelStore store;
    store.is_add = cursor_.accept("add");
    store.output = expect_numbered('y');
    store.map = parse_map();
    cursor_.expect("=");
    store.value = parse_operand();
    kernel_.stores.push_back(std::move(store));
  }

  TextCursor cursor_;
  Kernel kernel_;
  std::map<int32_t, int32_t> places_;  // of the values, by the numbers in the text
  std::vector<size_t> value_positions_;
  std::vector<size_t> store_positions_;
};

}  // namespace

Kernel parse_kernel(std::string_view text) { return KernelParser(text).run(); }

}  // namespace diptych::detail
