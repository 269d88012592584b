// The values of a kernel at one point of its space, or at a vector of points, as LLVM IR.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/scalar/llvm_writer.h"
#include "diptych/native/schedule/row_streams.h"
#include "diptych/native/schedule/size_product.h"

namespace diptych::detail {

/// Writes values where they are asked for, and remembers them for as long as the code that follows can see them. The
/// point is set by the loops around: an index by dim, and along the vector dim the index of the first lane.
class PointCode {
 public:
  /// `parameters`: how many numbers the function's %symbols has. `pairs`: of stores, see stored_pairs().
  PointCode(LlvmWriter& writer, const Kernel& kernel, int32_t parameters, std::vector<int32_t> pairs)
      : writer_(writer),
        kernel_(kernel),
        pairs_(std::move(pairs)),
        symbols_(parameters),
        index_(kernel.extents.size()),
        code_(kernel.values.size()) {}

  /// Loads the addresses of the buffers and the parameters, at the beginning of a function that has %inputs and
  /// %outputs, and %symbols if there are parameters.
  void enter_function();

  void set_index(int32_t dim, std::string index) { index_[dim] = std::move(index); }
  const std::string& index(int32_t dim) const { return index_[dim]; }
  /// Goes over to vectors along `dim`: `lanes` points from its index on, those where `mask` is set if it is not empty.
  void begin_vector(int32_t dim, int lanes, std::string mask);
  void end_vector();
  bool is_vector() const { return vector_dim_ >= 0; }
  const std::string& mask() const { return mask_; }
  int lanes() const { return vector_dim_ < 0 ? 0 : lanes_; }

  /// The value at the point; a vector if it varies along the vector dim.
  Code value(int32_t id);
  void set_value(int32_t id, Code code);
  bool has_value(int32_t id) const { return code_[id].has_value(); }
  /// The code with as many lanes as the point has.
  std::string widened(const Code& code, at::ScalarType dtype);
  /// Forgets what was written since: it was in a block that code from now on does not pass through.
  size_t mark() const { return written_.size(); }
  void forget(size_t mark);

  /// `may_be_nontemporal`: whether it is where the loop says so.
  void write_store(const KernelStore& store, bool may_be_nontemporal = false);
  /// Whether stores that may be non-temporal are, for whole vectors from now on.
  void set_nontemporal(bool is_nontemporal) { is_nontemporal_ = is_nontemporal; }
  /// Where a store writes at the point, or at the first of a vector's. Requires: lanes side by side.
  std::string first_address(const KernelStore& store);
  at::ScalarType dtype_of(const KernelStore& store) const { return kernel_.values[store.value].dtype; }
  /// Fetches the lines that the point has in the next row, which is one further along `dim`, into the cache.
  void write_fetch_ahead(const RowStream& stream, int32_t dim);

  /// Reads or writes elements side by side in memory: lanes() of them, or one.
  std::string read(const std::string& address, at::ScalarType dtype, int lanes);
  void write(const std::string& address, at::ScalarType dtype, const Code& code);
  void write_nontemporal(const std::string& address, at::ScalarType dtype, const Code& code);
  /// The address of an element: `base` + `index` elements of the dtype.
  std::string address(const std::string& base, at::ScalarType dtype, const std::string& index);
  /// The number of the point among those of `dims`, of which the last runs fastest, times `stride`.
  std::string index_among(const std::vector<int32_t>& dims, int64_t stride);
  /// The name of a size, or the number that it is.
  std::string size(const SizeProduct& what);
  /// The sum of products of indices and sizes: "" where it has no terms.
  using LinearTerms = std::vector<std::pair<std::string, SizeProduct>>;
  std::string linear(const LinearTerms& terms);

 private:
  // Where a map leads: from the address of the first lane, and if the lanes do not lie side by side the indices of all.
  struct Place {
    std::string index;  // of the first lane, a scalar
    bool is_side_by_side = false;
    bool is_every_second = false;
    std::string lane_indices;  // not empty: a vector
  };
  Place place(const IndexMap& map);
  std::string lane_offsets(const std::string& stride);
  std::string lane_addresses(const std::string& base, at::ScalarType dtype, const Place& place);
  std::string whole_mask(const std::string& extra);
  std::string to_register(at::ScalarType dtype, const std::string& name, int lanes);
  std::string to_memory(at::ScalarType dtype, const std::string& name, int lanes);

  void write_one_store(const KernelStore& store, bool may_be_nontemporal);
  bool write_pairs(const KernelStore& store, const KernelStore& other);
  Code read_part_of_pairs(const KernelLoad& load, at::ScalarType dtype, const Place& from);
  Code sum_of(at::ScalarType dtype, const Code& a, const Code& b);
  Code write_value(int32_t id);
  Code write(const KernelValue& value, const KernelConstant& constant);
  Code write(const KernelValue& value, const KernelIndex& index);
  Code write(const KernelValue& value, const KernelLoad& load);
  Code write(const KernelValue& value, const KernelScalar& scalar);
  Code write(const KernelValue& value, const KernelReduce& reduce);
  std::string gather(const std::string& base, at::ScalarType dtype, Place from);
  Code masked_scalar_load(const KernelLoad& load, at::ScalarType dtype, const std::string& address);

  LlvmWriter& writer_;
  const Kernel& kernel_;
  std::vector<int32_t> pairs_;  // by store
  std::vector<std::string> inputs_, outputs_, symbols_, index_;
  std::vector<std::optional<Code>> code_;
  std::vector<int32_t> written_;
  int32_t vector_dim_ = -1;
  int lanes_ = 0;
  std::string mask_;
  bool is_nontemporal_ = false;
};

}  // namespace diptych::detail
