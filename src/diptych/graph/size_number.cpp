#include "diptych/graph/size_number.h"

#include <fmt/format.h>
#include <array>
#include <cmath>

#include "diptych/base/error.h"

namespace diptych {

using namespace detail;
namespace {

struct FormRow {
  std::string_view name;
  double (*apply)(double);
};

// In the order of SizeNumber::Form.
constexpr std::array<FormRow, 4> kForms{{
    {"quotient", [](double quotient) { return quotient; }},
    {"root", [](double quotient) { return std::sqrt(quotient); }},
    {"inverse_root", [](double quotient) { return 1.0 / std::sqrt(quotient); }},
    {"logarithm", [](double quotient) { return std::log(quotient); }},
}};

}  // namespace

std::string_view SizeNumber::name_of(Form form) { return kForms[static_cast<size_t>(form)].name; }

double SizeNumber::apply(Form form, double quotient) { return kForms[static_cast<size_t>(form)].apply(quotient); }

double SizeNumber::evaluate(const std::map<std::string, int64_t>& symbols) const {
  return apply(form, static_cast<double>(top.evaluate(symbols)) / static_cast<double>(bottom.evaluate(symbols)));
}

double SizeNumber::hint() const {
  return apply(form, static_cast<double>(top.hint()) / static_cast<double>(bottom.hint()));
}

std::map<std::string, int64_t> SizeNumber::symbols() const {
  auto found = top.symbols();
  found.merge(bottom.symbols());
  return found;
}

std::string SizeNumber::str() const { return fmt::format("{}({}, {})", name_of(form), top.str(), bottom.str()); }

}  // namespace diptych
