#include "diptych/native/codegen/kernel_text.h"

#include <fmt/format.h>
#include <algorithm>

#include "diptych/native/codegen/complex_parts.h"
#include "diptych/native/codegen/folds.h"
#include "diptych/native/codegen/loops.h"
#include "diptych/native/codegen/row_code.h"

namespace diptych::detail {
namespace {

constexpr int64_t kFinishBlock = 512;  // points of the last kept dim that one step of a finish function has

class KernelWriter {
 public:
  explicit KernelWriter(const Schedule& s)
      : s_(s),
        plan_(plan_row(s)),
        writer_(s.target),
        point_(writer_, s.kernel, s.parameters, stored_pairs(s)),
        row_(writer_, point_, s, plan_) {}

  KernelText write() {
    write_rows();
    KernelText code;
    for (const std::vector<size_t>& group : final_groups()) {
      write_finish(code.finishes.size(), group);
      code.finishes.push_back(s_.final_reductions[group[0]].kept);
    }
    code.text = writer_.text();
    code.memory_bytes = plan_.bytes;
    code.is_per_point = plan_.is_per_point;
    code.has_nontemporal_stores = has_nontemporal_stores();
    return code;
  }

 private:
  const char* symbols_argument() const { return s_.parameters > 0 ? ", ptr %symbols" : ""; }

  void write_rows() {
    writer_.begin_function(
        fmt::format("void @{}(ptr %inputs, ptr %outputs, i64 %begin, i64 %end, ptr %partial, ptr %memory, i64 %zero, "
                    "i64 %nontemporal{})",
                    s_.kernel.name, symbols_argument()));
    point_.enter_function();
    set_partial_results();
    write_values(/*is_known=*/[&](DimSet domain) { return domain.empty(); });
    write_loop(writer_, point_, "%begin", "%end", 1, [&](const std::string& row) { write_row(row); });
    if (has_nontemporal_stores()) {
      writer_.declare("void @llvm.x86.sse.sfence()");
      writer_.line("call void @llvm.x86.sse.sfence()");  // other threads see the stores before what tells them of it
    }
    writer_.line("ret void");
    writer_.end_function();
  }

  bool has_nontemporal_stores() const { return std::ranges::find(plan_.nontemporal, true) != plan_.nontemporal.end(); }

  // Values that stay the same over many rows, or over all, are written before the loops.
  template <class IsKnown>
  void write_values(const IsKnown& is_known) {
    for (const int32_t id : plan_.needed) {
      if (s_.pass[id] == 0 && is_known(s_.domains[id])) point_.value(id);
    }
  }

  void set_partial_results() {
    for (const FinalReduction& final : s_.final_reductions) {
      const at::ScalarType dtype = s_.kernel.values[final.value].dtype;
      const auto& reduce = std::get<KernelReduce>(s_.kernel.values[final.value].made_by);
      const std::string base = writer_.value("getelementptr i8, ptr %partial, i64 {}", point_.size(final.offset));
      write_loop(writer_, point_, "0", point_.size(final.count), 1, [&](const std::string& i) {
        point_.write(point_.address(base, dtype, i), dtype, {first_of(*reduce.reduction, dtype), 0});
      });
    }
  }

  // Sets the indices of `dims`, the last of which runs fastest, to point `number` of them.
  void set_indices(const std::vector<int32_t>& dims, std::string number) {
    for (size_t i = dims.size(); i-- > 0;) {
      const SizeTerm of = s_.extent(dims[i]);
      const std::string extent = of.is_constant() ? std::to_string(std::max<int64_t>(of.factor, 1)) : point_.size(of);
      point_.set_index(dims[i], i == 0 ? number : writer_.value("urem i64 {}, {}", number, extent));
      if (i > 0) number = writer_.value("udiv i64 {}, {}", number, extent);
    }
  }

  // How many blocks of so many points an extent has, and at least one.
  std::string count_blocks(const SizeTerm& extent, int64_t block) {
    if (extent.is_constant()) return std::to_string(std::max<int64_t>(1, (extent.factor + block - 1) / block));
    const std::string most = writer_.value("add i64 {}, {}", point_.size(extent), block - 1);
    const std::string blocks = writer_.value("udiv i64 {}, {}", most, block);
    const std::string is_none = writer_.value("icmp eq i64 {}, 0", blocks);
    return writer_.value("select i1 {}, i64 1, i64 {}", is_none, blocks);
  }

  void write_row(const std::string& row) {
    const int32_t dim = s_.vector_dim;
    if (dim < 0 || s_.is_vector_in_row) {
      set_indices(s_.outer, row);
      row_.write();
      return;
    }
    const SizeTerm extent = s_.extent(dim);
    const std::string blocks = count_blocks(extent, s_.block);
    const std::string block = writer_.value("urem i64 {}, {}", row, blocks);
    set_indices(s_.outer, writer_.value("udiv i64 {}, {}", row, blocks));
    write_values([&](DimSet domain) { return !domain.contains(dim) && (domain & s_.row).empty(); });
    const std::string begin = writer_.value("mul i64 {}, {}", block, s_.block);
    const std::string end = write_block_end(writer_, begin, s_.block, extent, point_.size(extent));
    row_.begin_vectors();
    const VectorLoop loop{dim,
                          s_.lanes,
                          begin,
                          end,
                          is_multiple(extent, s_.lanes),
                          row_.nontemporal_stores(),
                          /*can_shift=*/!row_.has_sums_across_vectors()};
    write_vector_loop(writer_, point_, loop, [&] { row_.write(); });
    row_.end_vectors();
  }

  // Final reductions that keep the same dims end together.
  std::vector<std::vector<size_t>> final_groups() const {
    std::vector<std::vector<size_t>> groups;
    for (size_t i = 0; i < s_.final_reductions.size(); ++i) {
      const auto same = [&](const std::vector<size_t>& group) {
        return s_.final_reductions[group[0]].kept == s_.final_reductions[i].kept;
      };
      const auto found = std::ranges::find_if(groups, same);
      if (found == groups.end()) {
        groups.push_back({i});
      } else {
        found->push_back(i);
      }
    }
    return groups;
  }

  void write_finish(size_t number, const std::vector<size_t>& group) {
    std::vector<int32_t> dims = s_.final_reductions[group[0]].kept;
    const int32_t last = dims.empty() ? -1 : dims.back();
    const SizeTerm extent = last < 0 ? SizeTerm{1} : s_.extent(last);
    if (last >= 0) dims.pop_back();
    writer_.begin_function(
        fmt::format("void @{}_finish_{}(ptr %inputs, ptr %outputs, i64 %begin, i64 %end, ptr %partial, i64 %zero{})",
                    s_.kernel.name, number, symbols_argument()));
    point_.enter_function();
    write_loop(writer_, point_, "%begin", "%end", 1, [&](const std::string& step) {
      if (last < 0) return write_final_point(group);
      const std::string blocks = count_blocks(extent, kFinishBlock);
      set_indices(dims, writer_.value("udiv i64 {}, {}", step, blocks));
      const std::string begin =
          writer_.value("mul i64 {}, {}", writer_.value("urem i64 {}, {}", step, blocks), kFinishBlock);
      const std::string end = write_block_end(writer_, begin, kFinishBlock, extent, point_.size(extent));
      const VectorLoop loop{last, s_.lanes, begin, end, is_multiple(extent, s_.lanes), {}, false};
      write_vector_loop(writer_, point_, loop, [&] { write_final_point(group); });
    });
    writer_.line("ret void");
    writer_.end_function();
  }

  void write_final_point(const std::vector<size_t>& group) {
    for (const size_t final : group) {
      const int32_t value = s_.final_reductions[final].value;
      point_.set_value(value, row_.fold_chunks(final));
    }
    const auto& kept = s_.final_reductions[group[0]].kept;
    for (const KernelStore& store : s_.kernel.stores) {
      if (s_.is_final[store.value] && keeps(store.value, kept)) point_.write_store(store);
    }
  }

  bool keeps(int32_t value, const std::vector<int32_t>& kept) const {
    DimSet dims;
    for (const int32_t dim : kept) dims = dims | DimSet::of(dim);
    return s_.domains[value] == dims;
  }

  const Schedule& s_;
  RowPlan plan_;
  LlvmWriter writer_;
  PointCode point_;
  RowCode row_;
};

}  // namespace

int64_t count_finish_steps(const Schedule& schedule, const std::vector<int32_t>& dims,
                           const std::vector<int64_t>& symbols) {
  int64_t steps = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t extent = SizeProduct(schedule.extent(dims[i])).at(symbols);
    const bool is_last = i + 1 == dims.size();
    steps *= is_last ? std::max<int64_t>(1, (extent + kFinishBlock - 1) / kFinishBlock) : extent;
  }
  return steps;
}

KernelText write_kernel(const Schedule& schedule) { return KernelWriter(schedule).write(); }

}  // namespace diptych::detail
