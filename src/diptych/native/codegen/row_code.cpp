#include "diptych/native/codegen/row_code.h"

#include <algorithm>

#include "diptych/native/codegen/folds.h"
#include "diptych/native/codegen/loops.h"
#include "diptych/native/scalar/casts.h"

namespace diptych::detail {
namespace {

// A sum of more elements than kLongRow is made of sums of blocks: the error then grows with the number of blocks.
constexpr int64_t kLongRow = 8192;
constexpr int64_t kVectorBlock = 4096;
constexpr int64_t kScalarBlock = 256;

DimSet set_of(const std::vector<int32_t>& dims, size_t count) {
  DimSet set;
  for (size_t i = 0; i < count; ++i) set = set | DimSet::of(dims[i]);
  return set;
}

}  // namespace

void RowCode::write() {
  write_values_of_row(0);
  for (int pass = 0; pass <= s_.passes; ++pass) {
    write_pass(pass);
    write_values_of_row(pass + 1);
  }
  for (const size_t store : plan_.stores) point_.write_store(s_.kernel.stores[store], plan_.nontemporal[store]);
  for (size_t i = 0; i < plan_.finals.size(); ++i) {
    if (is_across_vectors(plan_.finals[i])) {
      sums_.add(across_[i]);
    } else {
      add_to_partial(plan_.finals[i]);
    }
  }
}

void RowCode::write_values_of_row(int pass) {
  for (const int32_t id : plan_.needed) {
    if (s_.pass[id] == pass) point_.value(id);
  }
}

void RowCode::write_pass(int pass) {
  const PassResults& results = plan_.passes[pass];
  if (results.reductions.empty() && results.stores.empty() && results.finals.empty()) return;
  const SizeProduct points = s_.count(s_.row);
  const bool is_long = !points.is_constant() || points.factor > kLongRow;
  std::vector<Sum> sums;
  for (const int32_t reduction : results.reductions) sums.push_back(sums_.begin(reduction, results.lanes, is_long));
  write_inner_loops(pass, 0, sums);
  for (const Sum& sum : sums) point_.set_value(sum.value, sums_.finish(sum));
}

// Writes what is known once the first `level` inner dims have an index, and the loop over the next one.
void RowCode::write_inner_loops(int pass, size_t level, std::vector<Sum>& sums) {
  const PassResults& results = plan_.passes[pass];
  if (level > 0) {
    const DimSet known = set_of(s_.inner, level);
    write_known_values(results, known);
    write_stores(results, known, set_of(s_.inner, level - 1));
  }
  if (level == s_.inner.size()) return write_point(pass, sums);
  if (level + 1 == s_.inner.size()) return write_innermost_loop(pass, level, sums);
  const int32_t dim = s_.inner[level];
  write_loop(writer_, point_, "0", point_.size(s_.extent(dim)), 1, [&](const std::string& index) {
    point_.set_index(dim, index);
    write_inner_loops(pass, level + 1, sums);
  });
}

// The innermost loop goes in blocks where a sum is long.
void RowCode::write_innermost_loop(int pass, size_t level, std::vector<Sum>& sums) {
  const int32_t dim = s_.inner[level];
  const SizeTerm extent = s_.extent(dim);
  const std::string end_of_all = point_.size(extent);
  const bool is_vector = s_.is_vector_in_row;
  const auto part = [&](const std::string& begin, const std::string& end) {
    if (is_vector) {
      const int lanes = plan_.passes[pass].lanes;
      const VectorLoop loop{dim,
                            lanes,
                            begin,
                            end,
                            is_multiple(extent, lanes),
                            nontemporal_among(plan_.passes[pass].stores),
                            /*can_shift=*/sums.empty()};
      write_vector_loop(writer_, point_, loop, [&] { write_inner_loops(pass, level + 1, sums); });
    } else {
      write_loop(writer_, point_, begin, end, 1, [&](const std::string& index) {
        point_.set_index(dim, index);
        write_inner_loops(pass, level + 1, sums);
      });
    }
    for (const Sum& sum : sums) sums_.move_to_total(sum);
  };
  const int64_t block = is_vector ? kVectorBlock : kScalarBlock;
  const bool has_totals = std::ranges::any_of(sums, [](const Sum& sum) { return !sum.total.empty(); });
  const bool is_one_block = extent.is_constant() && extent.factor <= block;
  if (!has_totals || is_one_block) return part("0", end_of_all);
  write_loop(writer_, point_, "0", end_of_all, block, [&](const std::string& begin) {
    part(begin, write_block_end(writer_, begin, block, extent, end_of_all));
  });
}

void RowCode::write_point(int pass, std::vector<Sum>& sums) {
  const PassResults& results = plan_.passes[pass];
  for (const int32_t value : results.kept) keep(value);
  for (Sum& sum : sums) sums_.add(sum);
  for (const size_t final : results.finals) add_to_partial(final);
  if (pass != plan_.busiest) return;
  for (const RowStream& stream : plan_.ahead) point_.write_fetch_ahead(stream, s_.outer.back());
}

void RowCode::write_known_values(const PassResults& pass, DimSet known) {
  const DimSet open = s_.row.without(known);
  if (open.empty()) {
    for (const int32_t value : pass.reused) point_.set_value(value, kept(value));
  }
  for (const int32_t value : pass.needed) {
    if ((s_.domains[value] & open).empty()) point_.value(value);
  }
}

// Stores at the innermost of the loops that they vary along.
void RowCode::write_stores(const PassResults& pass, DimSet known, DimSet before) {
  for (const size_t i : pass.stores) {
    const KernelStore& store = s_.kernel.stores[i];
    const DimSet in_row = store_domain(store, s_.domains) & s_.row;
    const bool is_new = in_row.without(known).empty() && !in_row.without(before).empty();
    if (is_new) point_.write_store(store, plan_.nontemporal[i]);
  }
}

std::vector<const KernelStore*> RowCode::nontemporal_among(const std::vector<size_t>& stores) const {
  std::vector<const KernelStore*> nontemporal;
  for (const size_t i : stores) {
    if (plan_.nontemporal[i]) nontemporal.push_back(&s_.kernel.stores[i]);
  }
  return nontemporal;
}

std::string RowCode::kept_address(int32_t value) {
  const std::string index = point_.index_among(s_.inner, s_.is_vector_in_row ? 1 : s_.lanes);
  SizeProduct offset = plan_.kept_offsets[value];
  if (plan_.is_per_point) offset = offset * s_.count(s_.row);
  const std::string base = writer_.value("getelementptr i8, ptr %memory, i64 {}", point_.size(offset));
  return point_.address(base, s_.kernel.values[value].dtype, index);
}

void RowCode::keep(int32_t value) {
  const at::ScalarType dtype = s_.kernel.values[value].dtype;
  const Code code = point_.value(value);
  const int lanes = s_.varies_along(value, s_.vector_dim) ? point_.lanes() : 0;
  point_.write(kept_address(value), dtype, {lanes == 0 ? code.name : point_.widened(code, dtype), lanes});
}

Code RowCode::kept(int32_t value) {
  const int lanes = s_.varies_along(value, s_.vector_dim) ? point_.lanes() : 0;
  return {point_.read(kept_address(value), s_.kernel.values[value].dtype, lanes), lanes};
}

// Whether a final reduction runs over the rows that lie side by side in one vector.
bool RowCode::is_across_vectors(size_t final) const {
  const bool is_outer = s_.vector_dim >= 0 && !s_.is_vector_in_row;
  return is_outer && sums_.reduce_of(s_.final_reductions[final].value).over.contains(s_.vector_dim);
}

bool RowCode::has_sums_across_vectors() const {
  return std::ranges::any_of(plan_.finals, [&](size_t final) { return is_across_vectors(final); });
}

void RowCode::begin_vectors() {
  across_.assign(plan_.finals.size(), {});
  for (size_t i = 0; i < plan_.finals.size(); ++i) {
    if (!is_across_vectors(plan_.finals[i])) continue;
    const int32_t value = s_.final_reductions[plan_.finals[i]].value;
    const std::string type = llvm_type(sums_.folded_dtype(value), s_.lanes);
    across_[i] = {value, s_.lanes, writer_.variable(type), "", ""};
    writer_.line("store {} {}, ptr {}", type, sums_.first(value, s_.lanes), across_[i].variable);
  }
}

void RowCode::end_vectors() {
  for (size_t i = 0; i < plan_.finals.size(); ++i) {
    if (!is_across_vectors(plan_.finals[i])) continue;
    const int32_t value = across_[i].value;
    const at::ScalarType dtype = sums_.folded_dtype(value);
    const std::string address = partial_address(plan_.finals[i], "0");
    const std::string so_far = point_.read(address, dtype, 0);
    const std::string folded =
        write_fold(writer_, *sums_.reduce_of(value).reduction, dtype, so_far, sums_.finish(across_[i]).name, 0);
    point_.write(address, dtype, {folded, 0});
  }
}

std::string RowCode::partial_address(size_t final, const std::string& chunk) {
  const FinalReduction& reduction = s_.final_reductions[final];
  const std::string begin = writer_.value("mul i64 {}, {}", chunk, point_.size(s_.partial_bytes));
  const std::string offset = writer_.value("add i64 {}, {}", begin, point_.size(reduction.offset));
  const std::string base = writer_.value("getelementptr i8, ptr %partial, i64 {}", offset);
  const std::string index = point_.index_among(reduction.kept, /*stride=*/1);
  return point_.address(base, s_.kernel.values[reduction.value].dtype, index);
}

void RowCode::add_to_partial(size_t final) {
  const int32_t value = s_.final_reductions[final].value;
  const KernelReduce& reduce = sums_.reduce_of(value);
  const at::ScalarType from = s_.kernel.values[reduce.operand].dtype, dtype = sums_.folded_dtype(value);
  const int lanes = point_.is_vector() && s_.varies_along(value, s_.vector_dim) ? point_.lanes() : 0;
  const Code code = point_.value(reduce.operand);
  std::string element = lanes == 0 ? code.name : point_.widened(code, from);
  element = write_cast(writer_, from, dtype, element, lanes);
  const std::string address = partial_address(final, "0");
  const std::string so_far = point_.read(address, dtype, lanes);
  point_.write(address, dtype, {write_fold(writer_, *reduce.reduction, dtype, so_far, element, lanes), lanes});
}

Code RowCode::fold_chunks(size_t final) {
  const int32_t value = s_.final_reductions[final].value;
  const at::ScalarType dtype = sums_.folded_dtype(value);
  const int lanes = point_.lanes();
  const std::string type = llvm_type(dtype, lanes), variable = writer_.variable(type);
  writer_.line("store {} {}, ptr {}", type, sums_.first(value, lanes), variable);
  write_loop(writer_, point_, "0", point_.size(s_.chunks), 1, [&](const std::string& chunk) {
    const std::string part = point_.read(partial_address(final, chunk), dtype, lanes);
    const std::string so_far = writer_.value("load {}, ptr {}", type, variable);
    const std::string folded = write_fold(writer_, *sums_.reduce_of(value).reduction, dtype, so_far, part, lanes);
    writer_.line("store {} {}, ptr {}", type, folded, variable);
  });
  return {writer_.value("load {}, ptr {}", type, variable), lanes};
}

}  // namespace diptych::detail
