#include "diptych/native/schedule/row_plan.h"

#include <algorithm>

#include "diptych/native/kernel/memory_extent.h"
#include "diptych/native/scalar/scalar_code.h"
#include "diptych/native/schedule/nontemporal_stores.h"

namespace diptych::detail {
namespace {

constexpr size_t kShortPass = 5;               // values
constexpr size_t kWorkOfFunction = 20;         // of an expensive operation, in cheap ones
constexpr int64_t kMostKeptBytes = 256 << 10;  // of one value; a core's second cache holds some of these

class RowPlanner {
 public:
  explicit RowPlanner(const Schedule& s) : s_(s) {
    plan_.passes.resize(s.passes + 1);
    plan_.is_per_point = !s.count(s.row).is_constant();
    plan_.kept_offsets.assign(s.kernel.values.size(), -1);
    first_pass_.assign(s.kernel.values.size(), -1);
    is_needed_.assign(s.kernel.values.size(), false);
  }

  RowPlan run() {
    sort_results();
    for (int pass = 0; pass <= s_.passes; ++pass) {
      for (const int32_t root : roots(plan_.passes[pass])) visit(root, pass);
      std::ranges::sort(plan_.passes[pass].needed);
      plan_.passes[pass].lanes = lanes_of(plan_.passes[pass]);
    }
    plan_.nontemporal = nontemporal_stores(s_);
    plan_.ahead = streams_ahead(s_, plan_.nontemporal);
    const auto busiest = std::ranges::max_element(plan_.passes, {}, [&](const auto& pass) { return work(pass); });
    plan_.busiest = static_cast<int>(busiest - plan_.passes.begin());
    for (const size_t store : plan_.stores) visit_store(s_.kernel.stores[store]);
    for (const size_t final : plan_.finals) visit_once(operand_of(final));
    for (size_t i = 0; i < is_needed_.size(); ++i) {
      if (is_needed_[i]) plan_.needed.push_back(static_cast<int32_t>(i));
    }
    return std::move(plan_);
  }

 private:
  bool is_in_row(DimSet domain) const { return !(domain & s_.row).empty(); }
  bool is_in_row(int32_t value) const { return is_in_row(s_.domains[value]); }
  const KernelReduce* reduce_of(int32_t value) const {
    return std::get_if<KernelReduce>(&s_.kernel.values[value].made_by);
  }
  int32_t operand_of(size_t final) const { return reduce_of(s_.final_reductions[final].value)->operand; }

  // Which pass, or the row as a whole, ends in which results.
  void sort_results() {
    for (size_t i = 0; i < s_.kernel.values.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (reduce_of(id) != nullptr && !s_.is_final[i]) plan_.passes[s_.pass[i] - 1].reductions.push_back(id);
    }
    for (size_t i = 0; i < s_.kernel.stores.size(); ++i) {
      const KernelStore& store = s_.kernel.stores[i];
      if (s_.is_final[store.value]) continue;
      const bool in_row = is_in_row(store_domain(store, s_.domains));
      (in_row ? plan_.passes[s_.pass[store.value]].stores : plan_.stores).push_back(i);
    }
    for (size_t i = 0; i < s_.final_reductions.size(); ++i) {
      const bool in_row = is_in_row(s_.domains[s_.final_reductions[i].value]);
      (in_row ? plan_.passes[s_.pass[operand_of(i)]].finals : plan_.finals).push_back(i);
    }
  }

  std::vector<int32_t> roots(const PassResults& pass) const {
    std::vector<int32_t> roots;
    for (const int32_t reduction : pass.reductions) roots.push_back(reduce_of(reduction)->operand);
    for (const size_t final : pass.finals) roots.push_back(operand_of(final));
    for (const size_t store : pass.stores) {
      const auto used = values_used(s_.kernel.stores[store]);
      roots.insert(roots.end(), used.begin(), used.end());
    }
    return roots;
  }

  void visit_store(const KernelStore& store) {
    for (const int32_t used : values_used(store)) visit_once(used);
  }

  // A value of the row as a whole.
  void visit_once(int32_t value) {
    if (is_needed_[value] || reduce_of(value) != nullptr) return;
    is_needed_[value] = true;
    for (const int32_t used : values_used(s_.kernel.values[value])) visit_once(used);
  }

  void visit(int32_t value, int pass) {
    if (!is_in_row(value)) return visit_once(value);
    auto& needed = plan_.passes[pass].needed;
    if (std::ranges::find(needed, value) != needed.end()) return;
    if (first_pass_[value] >= 0 && first_pass_[value] < pass && keep(value)) {
      auto& reused = plan_.passes[pass].reused;
      if (std::ranges::find(reused, value) == reused.end()) reused.push_back(value);
      return;
    }
    if (first_pass_[value] < 0) first_pass_[value] = pass;
    needed.push_back(value);
    for (const int32_t used : values_used(s_.kernel.values[value])) visit(used, pass);
  }

  bool calls_function(int32_t value) const {
    const auto* scalar = std::get_if<KernelScalar>(&s_.kernel.values[value].made_by);
    return scalar != nullptr && is_expensive(*scalar->op);
  }

  size_t work(const PassResults& pass) const {
    size_t work = pass.needed.size();
    for (const int32_t value : pass.needed) work += calls_function(value) ? kWorkOfFunction : 0;
    return work;
  }

  // Short passes end in sums that wait for themselves: twice the lanes are twice as many sums.
  int lanes_of(const PassResults& pass) const {
    const bool is_short = pass.needed.size() + pass.reused.size() <= kShortPass;
    const bool has_room = s_.is_vector_in_row && s_.likely_extent(s_.vector_dim) >= 4 * s_.lanes;
    const bool has_calls = std::ranges::any_of(pass.needed, [&](int32_t value) { return calls_function(value); });
    return is_short && has_room && !has_calls ? 2 * s_.lanes : s_.lanes;
  }

  // Has a value kept by the pass that computes it first. Returns false where computing it again is as well.
  bool keep(int32_t value) {
    if (plan_.kept_offsets[value] >= 0) return true;
    const int64_t lanes = s_.is_vector_in_row ? 1 : s_.lanes;
    const int64_t bytes_of_point = lanes * static_cast<int64_t>(c10::elementSize(s_.kernel.values[value].dtype));
    const int64_t bytes = s_.likely_count(s_.row) * bytes_of_point;
    if (!takes_expensive_operations(value) || bytes > kMostKeptBytes || s_.row.without(s_.domains[value]).bits != 0) {
      return false;
    }
    plan_.kept_offsets[value] = plan_.bytes;
    plan_.bytes += plan_.is_per_point ? bytes_of_point : rounded_up(bytes, kCacheLine);
    plan_.passes[first_pass_[value]].kept.push_back(value);
    return true;
  }

  // Whether a point's value takes expensive operations from what is known of the row already.
  bool takes_expensive_operations(int32_t value) const {
    std::vector<bool> takes(value + 1);
    for (int32_t i = 0; i <= value; ++i) {
      if (!is_in_row(i) || reduce_of(i) != nullptr || plan_.kept_offsets[i] >= 0) continue;
      const KernelValue& what = s_.kernel.values[i];
      const auto* load = std::get_if<KernelLoad>(&what.made_by);
      const auto used = values_used(what);
      const bool uses_such = std::ranges::any_of(used, [&](int32_t each) { return takes[each]; });
      takes[i] = calls_function(i) || (load != nullptr ? is_scattered(*load) : uses_such);
    }
    return takes[value];
  }

  bool is_scattered(const KernelLoad& load) const {
    const int64_t unit = has_dtype(kComplexes, s_.kernel.inputs[load.input]) ? 2 : 1;
    return std::ranges::any_of(load.map.terms(), [&](const IndexTerm& term) {
      if (term.factor == IndexFactor::kValue) return s_.varies_along(term.id, s_.vector_dim);
      return term.factor == IndexFactor::kDim && term.id == s_.vector_dim && term.coefficient.factor != unit;
    });
  }

  const Schedule& s_;
  RowPlan plan_;
  std::vector<int> first_pass_;
  std::vector<bool> is_needed_;
};

}  // namespace

RowPlan plan_row(const Schedule& schedule) { return RowPlanner(schedule).run(); }

}  // namespace diptych::detail
