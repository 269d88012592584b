#include "diptych/native/schedule/schedule.h"

#include <fmt/format.h>
#include <algorithm>
#include <functional>

#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/scalar/scalar_code.h"
#include "diptych/native/schedule/call_sizes.h"
#include "diptych/native/schedule/one_hot_sums.h"
#include "diptych/native/schedule/plain_reductions.h"
#include "diptych/native/schedule/scattered_sums.h"
#include "diptych/native/schedule/vectors_at_once.h"

namespace diptych::detail {
namespace {

constexpr int64_t kBlock = 4096;    // points of an outer vector dim per row, where there are many
constexpr int64_t kFewRows = 16;    // fewer are not worth being shared out
constexpr int64_t kManyRows = 128;  // of which a sum is rather made in chunks than in one go

const KernelReduce* reduce_of(const Kernel& kernel, size_t value) {
  return std::get_if<KernelReduce>(&kernel.values[value].made_by);
}

bool is_subset(DimSet part, DimSet whole) { return part.without(whole).empty(); }

class Scheduler {
 public:
  Scheduler(const Kernel& kernel, OneHotTerms terms, std::string& why, const CodeTarget& target) : why_(why) {
    s_.target = target;
    s_.kernel = with_plain_reductions(without_one_hot_sums(kernel, terms));
  }

  std::optional<Schedule> run() {
    if (!has_code_for_all()) return std::nullopt;
    s_.domains = value_domains(s_.kernel);
    s_.row = adds() ? all_dims().without(dims_apart(s_.kernel)) : find_row();
    s_.kernel = with_split_reductions(s_.kernel, s_.row);
    s_.domains = value_domains(s_.kernel);
    s_.vector_dim = choose_vector_dim(adds() ? dims_apart(s_.kernel) : all_dims());
    s_.is_vector_in_row = s_.vector_dim >= 0 && s_.row.contains(s_.vector_dim);
    order_dims();
    if (!find_passes() || !find_final_reductions() || !check_stores()) return std::nullopt;
    choose_lanes();
    choose_block();
    name_parameters();
    return std::move(s_);
  }

 private:
  template <class... Args>
  bool refuse(fmt::format_string<Args...> format, Args&&... args) {
    why_ = fmt::format(format, std::forward<Args>(args)...);
    return false;
  }

  DimSet all_dims() const {
    DimSet all;
    for (size_t d = 0; d < s_.kernel.extents.size(); ++d) all = all | DimSet::of(static_cast<int32_t>(d));
    return all;
  }

  bool has_code_for_all() {
    const Kernel& kernel = s_.kernel;
    for (const KernelValue& value : kernel.values) {
      if (const auto* scalar = std::get_if<KernelScalar>(&value.made_by)) {
        const at::ScalarType operand = kernel.values[scalar->operands.back()].dtype;
        if (!has_scalar_code(*scalar->op, operand, s_.target)) {
          return refuse("the operation {} on {}", scalar->op->name, dtype_names(dtype_bit(operand)));
        }
      }
    }
    if (has_scattered_sum(kernel)) return refuse("a sum at places that indices name, of which more is made");
    return !adds() || can_add();
  }

  bool adds() const { return std::ranges::any_of(s_.kernel.stores, &KernelStore::is_add); }

  bool can_add() {
    for (const KernelStore& store : s_.kernel.stores) {
      if (!store.is_add) return refuse("stores that add beside others");
      if (!has_dtype(kRealNumbers, s_.kernel.values[store.value].dtype))
        return refuse("stores that add to halves or bools");
    }
    for (size_t i = 0; i < s_.kernel.values.size(); ++i) {
      if (reduce_of(s_.kernel, i) != nullptr) return refuse("stores that add what is reduced");
    }
    return !dims_apart(s_.kernel).empty() || refuse("stores that add, of which all may be to one element");
  }

  // By value: whether it follows from value `from`.
  std::vector<bool> followers(size_t from) const {
    std::vector<bool> follows(s_.kernel.values.size(), false);
    follows[from] = true;
    for (size_t i = from + 1; i < follows.size(); ++i) {
      for (const int32_t used : values_used(s_.kernel.values[i])) follows[i] = follows[i] || follows[used];
    }
    return follows;
  }

  // Whether a result is needed along the dims that its reduction took away, or by another reduction.
  bool is_used_again(size_t reduction) const {
    const DimSet over = reduce_of(s_.kernel, reduction)->over;
    const auto follows = followers(reduction);
    for (size_t i = reduction + 1; i < follows.size(); ++i) {
      if (follows[i] && (!(s_.domains[i] & over).empty() || reduce_of(s_.kernel, i) != nullptr)) return true;
    }
    return false;
  }

  DimSet find_row() const {
    DimSet row;
    std::vector<size_t> reductions;
    for (size_t i = 0; i < s_.kernel.values.size(); ++i) {
      if (reduce_of(s_.kernel, i) == nullptr) continue;
      reductions.push_back(i);
      if (is_used_again(i)) row = row | reduce_of(s_.kernel, i)->over;
    }
    return row.empty() && !reductions.empty() ? row_of_plain_reductions(reductions) : row;
  }

  // Where no reduction is used again, each may end within a row or be a final one.
  DimSet row_of_plain_reductions(const std::vector<size_t>& reductions) const {
    const DimSet over = reduce_of(s_.kernel, reductions[0])->over;
    const bool is_alike = std::ranges::all_of(reductions, [&](size_t i) {
      return reduce_of(s_.kernel, i)->over == over &&
             is_subset(all_dims(), s_.domains[reduce_of(s_.kernel, i)->operand]);
    });
    const bool has_positions = std::ranges::any_of(
        reductions, [&](size_t i) { return reduce_of(s_.kernel, i)->reduction->result == ReductionResult::kPosition; });
    const DimSet kept = all_dims().without(over);
    if (has_positions) return over;
    const int32_t vector = choose_vector_dim(all_dims());
    if (!is_alike) {
      for (const size_t i : reductions) {
        const DimSet each = reduce_of(s_.kernel, i)->over;
        if (each.contains(vector) && s_.likely_count(all_dims().without(each)) >= kFewRows) return each;
      }
      return {};
    }
    if (over.contains(vector)) {
      const bool has_rows = s_.likely_count(kept) >= kFewRows || s_.likely_count(over) <= kBlock;
      return has_rows ? over : DimSet{};
    }
    const bool sums_in_chunks =
        s_.likely_count(over) >= kManyRows && s_.likely_count(kept) * kMostChunks <= kMostPartialBytes / 8;
    return sums_in_chunks ? DimSet{} : over;
  }

  // How well elements along a dim lie side by side: loads and stores of unit stride, by their number of points.
  double score(int32_t dim) const {
    double score = 0;
    const auto add = [&](at::ScalarType buffer, const IndexMap& map, DimSet domain) {
      const SizeTerm unit{has_dtype(kComplexes, buffer) ? 2 : 1};
      for (const IndexTerm& term : map.terms()) {
        if (term.factor != IndexFactor::kDim || term.id != dim) continue;
        const auto points = static_cast<double>(s_.likely_count(domain));
        score += term.coefficient == unit ? points : -points / 2;
      }
    };
    for (size_t i = 0; i < s_.kernel.values.size(); ++i) {
      if (const auto* load = std::get_if<KernelLoad>(&s_.kernel.values[i].made_by))
        add(s_.kernel.inputs[load->input], load->map, s_.domains[i]);
    }
    for (const KernelStore& store : s_.kernel.stores)
      add(s_.kernel.outputs[store.output], store.map, store_domain(store, s_.domains));
    return score;
  }

  int32_t choose_vector_dim(DimSet among) const {
    int32_t best = -1;
    double best_score = 0;
    for (int32_t d = 0; d < static_cast<int32_t>(s_.kernel.extents.size()); ++d) {
      if (!among.contains(d)) continue;
      // Later dims are the inner ones, and win where nothing else decides.
      const double its_score = s_.likely_extent(d) == 1 ? -1e300 : score(d);
      if (best < 0 || its_score >= best_score) best = d, best_score = its_score;
    }
    return best;
  }

  void order_dims() {
    for (int32_t d = 0; d < static_cast<int32_t>(s_.kernel.extents.size()); ++d) {
      if (d == s_.vector_dim) continue;
      (s_.row.contains(d) ? s_.inner : s_.outer).push_back(d);
    }
    if (s_.is_vector_in_row) s_.inner.push_back(s_.vector_dim);
  }

  bool find_passes() {
    const auto& values = s_.kernel.values;
    s_.pass.assign(values.size(), 0);
    s_.is_final.assign(values.size(), false);
    for (size_t i = 0; i < values.size(); ++i) {
      for (const int32_t used : values_used(values[i])) {
        s_.pass[i] = std::max(s_.pass[i], s_.pass[used]);
        if (s_.is_final[used]) s_.is_final[i] = true;
      }
      const KernelReduce* reduce = reduce_of(s_.kernel, i);
      if (reduce == nullptr) continue;
      if (s_.is_final[reduce->operand]) return refuse("a reduction of the result of a reduction over outer dims");
      if (is_subset(reduce->over, s_.row)) {
        if (reduce->over != s_.row) return refuse("reductions over different dims of a row");
        s_.passes = std::max(s_.passes, ++s_.pass[i]);
      } else {
        s_.is_final[i] = true;
      }
    }
    return true;
  }

  bool find_final_reductions() {
    for (size_t i = 0; i < s_.kernel.values.size(); ++i) {
      const KernelReduce* reduce = reduce_of(s_.kernel, i);
      if (reduce == nullptr || !s_.is_final[i]) continue;
      const DimSet kept = s_.domains[i], over = reduce->over;
      if (reduce->reduction->result == ReductionResult::kPosition) return refuse("positions over outer dims");
      if (!(over & s_.row).empty()) return refuse("a reduction over outer dims and parts of a row");
      if (!is_subset(all_dims().without(s_.row), kept | over)) return refuse("a reduction that does not see all rows");
      if (!(kept & s_.row).empty() && !is_subset(s_.row, kept)) return refuse("sums of parts of a row");
      const bool has_elements = !(kept & s_.row).empty();
      if (has_elements && s_.vector_dim >= 0 && over.contains(s_.vector_dim)) return refuse("sums across a vector");
      FinalReduction final{static_cast<int32_t>(i), {}, s_.count(kept), {}};
      for (const auto* dims : {&s_.outer, &s_.inner}) {
        for (const int32_t d : *dims) {
          if (kept.contains(d) && d != s_.vector_dim) final.kept.push_back(d);
        }
      }
      if (s_.vector_dim >= 0 && kept.contains(s_.vector_dim)) final.kept.push_back(s_.vector_dim);
      s_.final_reductions.push_back(std::move(final));
    }
    return check_final_values();
  }

  // What follows from final reductions is computed at the points that they keep.
  bool check_final_values() {
    for (size_t i = 0; i < s_.kernel.values.size(); ++i) {
      if (!s_.is_final[i] || reduce_of(s_.kernel, i) != nullptr) continue;
      std::optional<DimSet> kept;
      std::vector<int32_t> pending = values_used(s_.kernel.values[i]);
      while (!pending.empty()) {
        const int32_t used = pending.back();
        pending.pop_back();
        const bool is_reduction = reduce_of(s_.kernel, used) != nullptr;
        if (is_reduction && !s_.is_final[used]) return refuse("a row's reduction beside one over outer dims");
        if (is_reduction && kept && *kept != s_.domains[used]) return refuse("results of different reductions");
        if (is_reduction) {
          kept = s_.domains[used];
        } else {
          const auto more = values_used(s_.kernel.values[used]);
          pending.insert(pending.end(), more.begin(), more.end());
        }
      }
      if (s_.domains[i] != *kept) return refuse("a result of a reduction over outer dims that is used along them");
    }
    return true;
  }

  bool check_stores() {
    for (const KernelStore& store : s_.kernel.stores) {
      const DimSet domain = store_domain(store, s_.domains);
      if (s_.is_final[store.value]) {
        if (domain != s_.domains[store.value]) return refuse("a broadcast of a result over outer dims");
        continue;
      }
      const DimSet missing = all_dims().without(s_.row).without(domain);
      if (!missing.empty() && !s_.count(missing).is(1))
        return refuse("an output that does not vary along all outer dims");
      for (const IndexTerm& term : store.map.terms()) {
        if (term.factor == IndexFactor::kValue && !store.is_add) return refuse("stores at indices that are values");
      }
    }
    return true;
  }

  void choose_lanes() {
    int size = 4;
    for (const KernelValue& value : s_.kernel.values) {
      if (value.dtype == at::kDouble) size = 8;
    }
    const int in_register = s_.target.vector_bytes / size;
    int lanes = vectors_at_once(s_.kernel) * in_register;
    const int64_t extent = s_.vector_dim < 0 ? 1 : s_.likely_extent(s_.vector_dim);
    // Where the end of a loop is a part of it, it should not be computed for many vectors.
    while (lanes > 2 * in_register && extent < 8 * lanes) lanes /= 2;
    // Of dynamic size, it may be longer than the hint says.
    const bool is_fixed = s_.vector_dim < 0 || s_.extent(s_.vector_dim).is_constant();
    const int least = is_fixed ? 2 : lanes / 2;
    while (lanes > least && lanes / 2 >= extent) lanes /= 2;
    s_.lanes = lanes;
  }

  // A block of all points of a dim of dynamic size would leave it to one thread however long it is.
  void choose_block() {
    if (s_.vector_dim < 0 || s_.is_vector_in_row) return;
    const SizeTerm extent = s_.extent(s_.vector_dim);
    int64_t outer = 1;
    for (const int32_t d : s_.outer) outer *= s_.likely_extent(d);
    const int64_t least = s_.row.empty() ? kBlock : 4 * s_.lanes;
    const int64_t whole = extent.is_constant() ? std::max<int64_t>(extent.factor, 1) : kBlock;
    s_.block = outer >= kMostChunks ? whole : least;
  }

  // What depends on the call's sizes is a parameter, which call_sizes() computes; what does not is a constant.
  void name_parameters() {
    s_.parameters = symbol_count(s_.kernel);
    if (s_.final_reductions.empty()) return;
    const bool is_dynamic =
        std::ranges::any_of(s_.kernel.extents, [](const auto& size) { return !size.is_constant(); });
    if (is_dynamic) {
      const auto parameter = [&] { return SizeTerm{1, s_.parameters++}; };
      s_.chunks = parameter();
      s_.partial_bytes = parameter();
      for (FinalReduction& final : s_.final_reductions) final.offset = parameter();
    } else {
      const PartialSizes sizes = partial_sizes(s_, {});
      s_.chunks = {sizes.chunks};
      s_.partial_bytes = {sizes.bytes};
      for (size_t i = 0; i < sizes.offsets.size(); ++i) s_.final_reductions[i].offset = {sizes.offsets[i]};
    }
  }

  Schedule s_;
  std::string& why_;
};

}  // namespace

SizeProduct Schedule::count(DimSet dims) const {
  SizeProduct count;
  for (size_t d = 0; d < kernel.extents.size(); ++d) {
    if (dims.contains(static_cast<int32_t>(d))) count = count * kernel.extents[d];
  }
  return count;
}

int64_t Schedule::likely_count(DimSet dims) const {
  int64_t count = 1;
  for (size_t d = 0; d < kernel.extents.size(); ++d) {
    if (dims.contains(static_cast<int32_t>(d))) count *= likely_extent(static_cast<int32_t>(d));
  }
  return count;
}

std::optional<Schedule> make_schedule(const Kernel& kernel, std::string& why, const CodeTarget& target) {
  // A dim of which one position is picked may have had no other use, and is then one more along which nothing varies.
  auto schedule = Scheduler(kernel, OneHotTerms::kAny, why, target).run();
  return schedule ? std::move(schedule) : Scheduler(kernel, OneHotTerms::kEqual, why, target).run();
}

}  // namespace diptych::detail
