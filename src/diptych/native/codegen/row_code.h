// The passes over one row of a kernel as LLVM IR.
#pragma once
#include <string>
#include <vector>

#include "diptych/native/codegen/point_code.h"
#include "diptych/native/codegen/sum_code.h"
#include "diptych/native/schedule/row_plan.h"
#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {

class RowCode {
 public:
  RowCode(LlvmWriter& writer, PointCode& point, const Schedule& schedule, const RowPlan& plan)
      : writer_(writer), point_(point), s_(schedule), plan_(plan), sums_(writer, point, schedule) {}

  /// Writes all passes over the row whose outer indices are set, and what the row as a whole stores.
  void write();
  /// Around a loop over vectors of rows: sums across all of these are kept in registers until it ends.
  void begin_vectors();
  void end_vectors();
  bool has_sums_across_vectors() const;
  /// Of the stores once per row, those that may be non-temporal.
  std::vector<const KernelStore*> nontemporal_stores() const { return nontemporal_among(plan_.stores); }
  /// The result of a final reduction at a point that it keeps, from the partial results of all chunks.
  Code fold_chunks(size_t final);

 private:
  void write_values_of_row(int pass);
  void write_pass(int pass);
  void write_inner_loops(int pass, size_t level, std::vector<Sum>& sums);
  void write_innermost_loop(int pass, size_t level, std::vector<Sum>& sums);
  void write_point(int pass, std::vector<Sum>& sums);
  void write_known_values(const PassResults& pass, DimSet known);
  std::vector<const KernelStore*> nontemporal_among(const std::vector<size_t>& stores) const;
  void write_stores(const PassResults& pass, DimSet known, DimSet before);

  void keep(int32_t value);
  Code kept(int32_t value);
  std::string kept_address(int32_t value);
  std::string partial_address(size_t final, const std::string& chunk);
  void add_to_partial(size_t final);
  bool is_across_vectors(size_t final) const;

  LlvmWriter& writer_;
  PointCode& point_;
  const Schedule& s_;
  const RowPlan& plan_;
  SumCode sums_;
  std::vector<Sum> across_;  // by place in RowPlan::finals
};

}  // namespace diptych::detail
