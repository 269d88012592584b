#include "fuzz/operators.h"

#include <map>

namespace diptych::fuzz {

double Chooser::number() {
  static const std::vector<double> kNumbers = {-2, -1.5, -1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2, 3};
  return one_of(kNumbers);
}

int Chooser::variable(const std::function<bool(const at::Tensor&)>& fits) {
  std::vector<int> fitting;
  for (size_t i = 0; i < variables_->size(); ++i) {
    if ((*variables_)[i].defined() && fits((*variables_)[i])) fitting.push_back(static_cast<int>(i));
  }
  if (fitting.empty()) return -1;
  const auto count = static_cast<int64_t>(fitting.size());
  return fitting[std::max(below(count), below(count))];
}

namespace {
std::vector<Operator> of_topic(Topic topic, std::vector<Operator> rows) {
  for (Operator& row : rows) row.topic = topic;
  return rows;
}
}  // namespace

const std::vector<Operator>& operators() {
  static const std::vector<Operator> kAll = [] {
    std::vector<Operator> all;
    for (auto rows : {detail::pointwise_operators(), detail::reduction_operators(), detail::structured_operators(),
                      detail::view_operators(), detail::in_place_operators(),
                      of_topic(Topic::kConjugates, detail::complex_operators()),
                      of_topic(Topic::kDefaultDtypes, detail::default_dtype_operators()),
                      of_topic(Topic::kHooks, detail::hook_operators())}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kAll;
}

const Operator& operator_named(const std::string& name) {
  static const std::map<std::string, size_t> kIndex = [] {
    std::map<std::string, size_t> index;
    for (size_t i = 0; i < operators().size(); ++i) {
      if (!index.emplace(operators()[i].name, i).second) throw std::logic_error("two operators " + operators()[i].name);
    }
    return index;
  }();
  return operators()[kIndex.at(name)];
}

namespace detail {

bool is_float(const at::Tensor& tensor) { return at::isFloatingType(tensor.scalar_type()); }
bool has_complex(const at::Tensor& tensor) { return tensor.is_complex(); }
bool is_long(const at::Tensor& tensor) { return tensor.scalar_type() == at::kLong; }
bool is_bool(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBool; }
bool is_whole(const at::Tensor& tensor) { return c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false); }
bool is_number(const at::Tensor& tensor) { return !is_bool(tensor); }
bool is_any(const at::Tensor&) { return true; }
bool has_elements(const at::Tensor& tensor) { return tensor.numel() > 0; }

bool broadcasts(at::IntArrayRef from, at::IntArrayRef to) {
  if (from.size() > to.size()) return false;
  const size_t skip = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[skip + i] && from[i] != 1) return false;
  }
  return true;
}

bool broadcast_together(const at::Tensor& a, const at::Tensor& b) {
  const size_t common = std::min(a.sizes().size(), b.sizes().size());
  for (size_t i = 1; i <= common; ++i) {
    const int64_t x = a.sizes()[a.sizes().size() - i];
    const int64_t y = b.sizes()[b.sizes().size() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

Fits of_rank(const Fits& fits, int64_t least, int64_t most) {
  return [=](const at::Tensor& tensor) { return tensor.dim() >= least && tensor.dim() <= most && fits(tensor); };
}

int64_t choose_dim(Chooser& choose, const at::Tensor& tensor) {
  const int64_t dim = choose.below(tensor.dim());
  return choose.chance(0.2) ? dim - tensor.dim() : dim;
}

Make one(Fits fits) { return one_with_numbers(std::move(fits), 0); }

Make one_with_numbers(Fits fits, int count) {
  return [=, fits = std::move(fits)](Chooser& choose, Statement& statement) {
    const int id = choose.variable(fits);
    if (id < 0) return false;
    statement.args = {id};
    for (int i = 0; i < count; ++i) statement.numbers.push_back(choose.number());
    return true;
  };
}

Make one_with_dim(Fits fits) {
  return [fits = of_rank(fits, 1)](Chooser& choose, Statement& statement) {
    const int id = choose.variable(fits);
    if (id < 0) return false;
    statement.args = {id};
    statement.ints = {choose_dim(choose, choose.tensor(id))};
    return true;
  };
}

Make two(Fits fits) {
  return [fits = std::move(fits)](Chooser& choose, Statement& statement) {
    const int a = choose.variable(fits);
    if (a < 0) return false;
    const at::Tensor first = choose.tensor(a);
    const int b = choose.variable([&](const at::Tensor& t) { return fits(t) && broadcast_together(first, t); });
    statement.args = choose.chance(0.5) ? std::vector<int>{a, b} : std::vector<int>{b, a};
    return true;
  };
}

Make onto_first(Fits fits) {
  return [fits = std::move(fits)](Chooser& choose, Statement& statement) {
    const int a = choose.variable(fits);
    if (a < 0) return false;
    const at::Tensor first = choose.tensor(a);
    const int b = choose.variable([&](const at::Tensor& t) {
      return broadcasts(t.sizes(), first.sizes()) && at::can_cast(t.scalar_type(), first.scalar_type());
    });
    if (b < 0) return false;
    statement.args = {a, b};
    return true;
  };
}

}  // namespace detail
}  // namespace diptych::fuzz
