#include "diptych/native/codegen/point_code.h"

#include <utility>

#include "diptych/base/check.h"
#include "diptych/native/codegen/complex_parts.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/scalar/scalar_code.h"
#include "diptych/native/schedule/nontemporal_stores.h"

namespace diptych::detail {
namespace {

// "v16f32": a vector's type in the names of LLVM's intrinsics.
std::string suffix(at::ScalarType dtype, int lanes) {
  const int bits = static_cast<int>(c10::elementSize(dtype)) * 8;
  const bool is_float = has_dtype(kFloats, dtype) || dtype == at::kHalf;
  return fmt::format("v{}{}{}", lanes, is_float ? "f" : "i", bits);
}

int size_of(at::ScalarType dtype) { return static_cast<int>(c10::elementSize(dtype)); }

}  // namespace

void PointCode::enter_function() {
  std::fill(code_.begin(), code_.end(), std::nullopt);
  written_.clear();
  const auto load_all = [&](std::string_view from, size_t count) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      const std::string place = writer_.value("getelementptr ptr, ptr %{}, i64 {}", from, i);
      names.push_back(writer_.value("load ptr, ptr {}", place));
    }
    return names;
  };
  inputs_ = load_all("inputs", kernel_.inputs.size());
  outputs_ = load_all("outputs", kernel_.outputs.size());
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const std::string place = writer_.value("getelementptr i64, ptr %symbols, i64 {}", i);
    symbols_[i] = writer_.value("load i64, ptr {}", place);
  }
}

std::string PointCode::size(const SizeProduct& what) {
  std::string product = what.is_constant() || what.factor != 1 ? std::to_string(what.factor) : "";
  for (const int32_t symbol : what.symbols) {
    product = product.empty() ? symbols_[symbol] : writer_.value("mul i64 {}, {}", product, symbols_[symbol]);
  }
  return product;
}

void PointCode::begin_vector(int32_t dim, int lanes, std::string mask) {
  vector_dim_ = dim;
  lanes_ = lanes;
  mask_ = std::move(mask);
}

void PointCode::end_vector() {
  vector_dim_ = -1;
  mask_.clear();
}

Code PointCode::value(int32_t id) {
  if (!code_[id]) set_value(id, write_value(id));
  return *code_[id];
}

void PointCode::set_value(int32_t id, Code code) {
  code_[id] = std::move(code);
  written_.push_back(id);
}

void PointCode::forget(size_t mark) {
  for (; written_.size() > mark; written_.pop_back()) code_[written_.back()].reset();
}

std::string PointCode::widened(const Code& code, at::ScalarType dtype) {
  if (code.lanes == lanes()) return code.name;
  return writer_.splat(llvm_type(dtype, 0), code.name, lanes());
}

std::string PointCode::linear(const LinearTerms& terms) {
  std::string sum;
  for (const auto& [name, factor] : terms) {
    const std::string term = factor.is(1) ? name : writer_.value("mul i64 {}, {}", name, size(factor));
    sum = sum.empty() ? term : writer_.value("add i64 {}, {}", sum, term);
  }
  return sum;
}

std::string PointCode::index_among(const std::vector<int32_t>& dims, int64_t stride) {
  LinearTerms terms;
  SizeProduct step = stride;
  for (size_t i = dims.size(); i-- > 0;) {
    terms.emplace_back(index_[dims[i]], step);
    step = step * kernel_.extents[dims[i]];
  }
  return terms.empty() ? "0" : linear(terms);
}

std::string PointCode::lane_offsets(const std::string& stride) {
  const std::string lanes = LlvmWriter::lane_numbers("i64", lanes_);
  if (stride == "1") return lanes;
  const std::string strides = writer_.splat("i64", stride, lanes_);
  return writer_.value("mul {} {}, {}", llvm_type("i64", lanes_), lanes, strides);
}

PointCode::Place PointCode::place(const IndexMap& map) {
  int64_t offset = 0;
  std::string stride = "0";  // along the vector dim
  LinearTerms scalars, vectors;
  for (const IndexTerm& term : map.terms()) {
    const SizeTerm& factor = term.coefficient;
    if (term.factor == IndexFactor::kOne) {
      if (factor.is_constant()) offset += factor.factor;
      if (!factor.is_constant()) scalars.emplace_back(symbols_[factor.symbol], factor.factor);
    } else if (term.factor == IndexFactor::kDim) {
      scalars.emplace_back(index_[term.id], factor);
      if (term.id != vector_dim_) continue;
      const std::string step = size(factor);
      stride = stride == "0" ? step : writer_.value("add i64 {}, {}", stride, step);
    } else {
      const Code code = value(term.id);
      (code.lanes == 0 ? scalars : vectors).emplace_back(code.name, factor);
    }
  }
  if (offset != 0 || scalars.empty()) scalars.emplace_back(std::to_string(offset), 1);
  Place place{linear(scalars), stride == "1" && vectors.empty(), stride == "2" && vectors.empty(), {}};
  if (place.is_side_by_side || (stride == "0" && vectors.empty())) return place;

  const std::string type = llvm_type("i64", lanes_);
  const std::string first = writer_.splat("i64", place.index, lanes_);
  place.lane_indices = stride == "0" ? first : writer_.value("add {} {}, {}", type, first, lane_offsets(stride));
  for (const auto& [name, factor] : vectors) {
    const std::string factors = writer_.splat("i64", size(factor), lanes_);
    const std::string term = writer_.value("mul {} {}, {}", type, name, factors);
    place.lane_indices = writer_.value("add {} {}, {}", type, place.lane_indices, term);
  }
  return place;
}

void PointCode::write_fetch_ahead(const RowStream& stream, int32_t dim) {
  constexpr int kLineBytes = 64, kNearest = 3, kData = 1;
  LinearTerms terms{{place(stream.map).index, 1}};
  for (const IndexTerm& term : stream.map.terms()) {
    if (term.factor == IndexFactor::kDim && term.id == dim) terms.emplace_back("1", term.coefficient);
  }
  const auto& buffers = stream.is_output ? outputs_ : inputs_;
  const std::string first = address(buffers[stream.buffer], stream.dtype, linear(terms));
  writer_.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)");
  const int bytes = std::max(1, lanes()) * static_cast<int>(c10::elementSize(stream.dtype));
  for (int line = 0; line < bytes; line += kLineBytes) {
    const std::string place = writer_.value("getelementptr i8, ptr {}, i64 {}", first, line);
    writer_.line("call void @llvm.prefetch.p0(ptr {}, i32 {}, i32 {}, i32 {})", place, stream.is_output ? 1 : 0,
                 kNearest, kData);
  }
}

std::string PointCode::address(const std::string& base, at::ScalarType dtype, const std::string& index) {
  return writer_.value("getelementptr {}, ptr {}, i64 {}", llvm_memory_type(dtype, 0), base, index);
}

std::string PointCode::lane_addresses(const std::string& base, at::ScalarType dtype, const Place& place) {
  return writer_.value("getelementptr {}, ptr {}, {} {}", llvm_memory_type(dtype, 0), base, llvm_type("i64", lanes_),
                       place.lane_indices);
}

// The point's mask and another one; every lane where there is neither.
std::string PointCode::whole_mask(const std::string& extra) {
  if (!mask_.empty() && !extra.empty()) return writer_.value("and {} {}, {}", llvm_type("i1", lanes_), mask_, extra);
  if (!mask_.empty()) return mask_;
  return extra.empty() ? writer_.splat("i1", "true", lanes_) : extra;
}

std::string PointCode::to_register(at::ScalarType dtype, const std::string& name, int lanes) {
  if (dtype != at::kBool) return name;
  return writer_.value("icmp ne {} {}, zeroinitializer", llvm_type("i8", lanes), name);
}

std::string PointCode::to_memory(at::ScalarType dtype, const std::string& name, int lanes) {
  if (dtype != at::kBool) return name;
  return writer_.value("zext {} {} to {}", llvm_type("i1", lanes), name, llvm_type("i8", lanes));
}

std::string PointCode::read(const std::string& address, at::ScalarType dtype, int lanes) {
  const std::string type = llvm_memory_type(dtype, lanes);
  if (lanes == 0 || mask_.empty()) {
    return to_register(dtype, writer_.value("load {}, ptr {}, align {}", type, address, size_of(dtype)), lanes);
  }
  const std::string symbol = fmt::format("@llvm.masked.load.{}.p0", suffix(dtype, lanes));
  writer_.declare(fmt::format("{} {}(ptr, i32, <{} x i1>, {})", type, symbol, lanes, type));
  return to_register(dtype,
                     writer_.value("call {} {}(ptr {}, i32 {}, <{} x i1> {}, {} zeroinitializer)", type, symbol,
                                   address, size_of(dtype), lanes, mask_, type),
                     lanes);
}

void PointCode::write(const std::string& address, at::ScalarType dtype, const Code& code) {
  const std::string type = llvm_memory_type(dtype, code.lanes);
  const std::string held = to_memory(dtype, code.name, code.lanes);
  if (code.lanes == 0 || mask_.empty()) {
    writer_.line("store {} {}, ptr {}, align {}", type, held, address, size_of(dtype));
    return;
  }
  const std::string symbol = fmt::format("@llvm.masked.store.{}.p0", suffix(dtype, code.lanes));
  writer_.declare(fmt::format("void {}({}, ptr, i32, <{} x i1>)", symbol, type, code.lanes));
  writer_.line("call void {}({} {}, ptr {}, i32 {}, <{} x i1> {})", symbol, type, held, address, size_of(dtype),
               code.lanes, mask_);
}

void PointCode::write_nontemporal(const std::string& address, at::ScalarType dtype, const Code& code) {
  const std::string held = to_memory(dtype, code.name, code.lanes);
  const int64_t alignment = nontemporal_alignment(dtype, code.lanes);
  writer_.line("store {} {}, ptr {}, align {}, !nontemporal !{{i32 1}}", llvm_memory_type(dtype, code.lanes), held,
               address, alignment);
}

std::string PointCode::first_address(const KernelStore& store) {
  return address(outputs_[store.output], dtype_of(store), place(store.map).index);
}

Code PointCode::sum_of(at::ScalarType dtype, const Code& a, const Code& b) {
  return {write_scalar_op(writer_, {find_scalar_op("add"), dtype, dtype, {a.name, b.name}, a.lanes}), a.lanes};
}

void PointCode::write_store(const KernelStore& store, bool may_be_nontemporal) {
  const auto number = static_cast<int32_t>(&store - kernel_.stores.data());
  if (pairs_[number] == number) return;
  if (pairs_[number] == kAlone) return write_one_store(store, may_be_nontemporal);
  const KernelStore& other = kernel_.stores[pairs_[number]];
  if (write_pairs(store, other)) return;
  write_one_store(store, false);
  write_one_store(other, false);
}

// Both parts of complex numbers that lie side by side, of whole vectors. Returns false where they do not.
bool PointCode::write_pairs(const KernelStore& store, const KernelStore& other) {
  if (!is_vector() || !mask_.empty()) return false;
  const Place to = place(store.map);
  if (!to.is_every_second) return false;
  const at::ScalarType dtype = dtype_of(store);
  const std::string first = widened(value(store.value), dtype), second = widened(value(other.value), dtype);
  const std::string pairs = writer_.pairs_of(llvm_type(dtype, 0), first, second, lanes_);
  write(address(outputs_[store.output], dtype, to.index), dtype, {pairs, 2 * lanes_});
  return true;
}

void PointCode::write_one_store(const KernelStore& store, bool may_be_nontemporal) {
  const at::ScalarType dtype = dtype_of(store);
  const Code code = value(store.value);
  const Place to = place(store.map);
  const std::string& base = outputs_[store.output];
  const auto write_at = [&](const std::string& place, const Code& what) {
    const Code written = store.is_add ? sum_of(dtype, {read(place, dtype, what.lanes), what.lanes}, what) : what;
    write(place, dtype, written);
  };
  if (to.is_side_by_side && may_be_nontemporal && is_nontemporal_ && mask_.empty()) {
    write_nontemporal(address(base, dtype, to.index), dtype, {widened(code, dtype), lanes_});
  } else if (to.is_side_by_side) {
    write_at(address(base, dtype, to.index), {widened(code, dtype), lanes_});
  } else if (to.lane_indices.empty()) {
    write_at(address(base, dtype, to.index), code);
  } else {
    const std::string type = llvm_memory_type(dtype, lanes_);
    Code written{widened(code, dtype), lanes_};
    if (store.is_add) written = sum_of(dtype, {gather(base, dtype, to), lanes_}, written);
    const std::string held = to_memory(dtype, written.name, lanes_);
    const std::string symbol = fmt::format("@llvm.masked.scatter.{0}.v{1}p0", suffix(dtype, lanes_), lanes_);
    writer_.declare(fmt::format("void {}({}, <{} x ptr>, i32, <{} x i1>)", symbol, type, lanes_, lanes_));
    const std::string addresses = lane_addresses(base, dtype, to);
    writer_.line("call void {}({} {}, <{} x ptr> {}, i32 {}, <{} x i1> {})", symbol, type, held, lanes_, addresses,
                 size_of(dtype), lanes_, whole_mask(""));
  }
}

Code PointCode::write_value(int32_t id) {
  const KernelValue& value = kernel_.values[id];
  return std::visit([&](const auto& made_by) { return write(value, made_by); }, value.made_by);
}

Code PointCode::write(const KernelValue& value, const KernelConstant& constant) {
  return {constant_text(constant.number, value.dtype), 0};
}

Code PointCode::write(const KernelValue&, const KernelIndex& index) {
  const Place to = place(index.map);
  if (to.is_side_by_side) {
    const std::string type = llvm_type("i64", lanes_);
    return {writer_.value("add {} {}, {}", type, writer_.splat("i64", to.index, lanes_), lane_offsets("1")), lanes_};
  }
  return to.lane_indices.empty() ? Code{to.index, 0} : Code{to.lane_indices, lanes_};
}

// Where the condition does not hold, a place of the function's own is read, since there may be no element.
Code PointCode::masked_scalar_load(const KernelLoad& load, at::ScalarType dtype, const std::string& address) {
  const Code condition = value(load.mask->condition), other = value(load.mask->other);
  const std::string own = writer_.variable(llvm_memory_type(dtype, 0));
  writer_.line("store {} zeroinitializer, ptr {}", llvm_memory_type(dtype, 0), own);
  const std::string from = writer_.value("select i1 {}, ptr {}, ptr {}", condition.name, address, own);
  const std::string element = read(from, dtype, 0);
  const std::string type = llvm_type(dtype, 0);
  return {writer_.value("select i1 {}, {} {}, {} {}", condition.name, type, element, type, other.name), 0};
}

Code PointCode::write(const KernelValue& kernel_value, const KernelLoad& load) {
  const at::ScalarType dtype = kernel_value.dtype;
  const Place from = place(load.map);
  const std::string& base = inputs_[load.input];
  const bool is_one = !from.is_side_by_side && from.lane_indices.empty();
  const int condition_lanes = load.mask ? value(load.mask->condition).lanes : 0;
  if (is_one && condition_lanes == 0) {
    const std::string place = address(base, dtype, from.index);
    return load.mask ? masked_scalar_load(load, dtype, place) : Code{read(place, dtype, 0), 0};
  }
  const bool has_pairs = has_dtype(kComplexes, kernel_.inputs[load.input]) && from.is_every_second;
  if (has_pairs && mask_.empty() && !load.mask) return read_part_of_pairs(load, dtype, from);
  // For as long as it is read, the mask is the point's and the load's together.
  const std::string mask = mask_;
  if (load.mask) mask_ = whole_mask(widened(value(load.mask->condition), at::kBool));
  const std::string element =
      from.is_side_by_side ? read(address(base, dtype, from.index), dtype, lanes_) : gather(base, dtype, from);
  mask_ = mask;
  if (!load.mask) return {element, lanes_};
  const std::string type = llvm_type(dtype, lanes_);
  const std::string condition = widened(value(load.mask->condition), at::kBool);
  const std::string other = widened(value(load.mask->other), dtype);
  return {writer_.value("select <{} x i1> {}, {} {}, {} {}", lanes_, condition, type, element, type, other), lanes_};
}

// One part of complex numbers that lie side by side. Passes see that the other part reads the same.
Code PointCode::read_part_of_pairs(const KernelLoad& load, at::ScalarType dtype, const Place& from) {
  const auto part = static_cast<int>(part_of(load.map));
  const std::string first = part == 0 ? from.index : writer_.value("sub i64 {}, {}", from.index, part);
  const std::string pairs = read(address(inputs_[load.input], dtype, first), dtype, 2 * lanes_);
  return {writer_.halves_of_pairs(llvm_type(dtype, 0), pairs, lanes_, part), lanes_};
}

std::string PointCode::gather(const std::string& base, at::ScalarType dtype, Place from) {
  if (from.lane_indices.empty()) from.lane_indices = writer_.splat("i64", from.index, lanes_);
  const std::string type = llvm_memory_type(dtype, lanes_);
  const std::string symbol = fmt::format("@llvm.masked.gather.{0}.v{1}p0", suffix(dtype, lanes_), lanes_);
  writer_.declare(fmt::format("{} {}(<{} x ptr>, i32, <{} x i1>, {})", type, symbol, lanes_, lanes_, type));
  const std::string mask = whole_mask(""), addresses = lane_addresses(base, dtype, from);
  const std::string element = writer_.value("call {} {}(<{} x ptr> {}, i32 {}, <{} x i1> {}, {} zeroinitializer)", type,
                                            symbol, lanes_, addresses, size_of(dtype), lanes_, mask, type);
  return to_register(dtype, element, lanes_);
}

Code PointCode::write(const KernelValue& kernel_value, const KernelScalar& scalar) {
  std::vector<Code> operands;
  int lanes = 0;
  for (const int32_t operand : scalar.operands) {
    operands.push_back(value(operand));
    lanes = std::max(lanes, operands.back().lanes);
  }
  ScalarCall call{scalar.op, kernel_.values[scalar.operands.back()].dtype, kernel_value.dtype, {}, lanes};
  for (size_t i = 0; i < operands.size(); ++i) {
    const at::ScalarType dtype = kernel_.values[scalar.operands[i]].dtype;
    call.operands.push_back(lanes == 0 ? operands[i].name : widened(operands[i], dtype));
  }
  return {write_scalar_op(writer_, call), lanes};
}

Code PointCode::write(const KernelValue&, const KernelReduce& reduce) {
  DIPTYCH_ASSERT(false, "the result of {} is asked for before its loop has ended", reduce.reduction->name);
}

}  // namespace diptych::detail
