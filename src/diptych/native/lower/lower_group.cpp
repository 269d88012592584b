#include "diptych/native/lower/lower_group.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "diptych/native/kernel/verify.h"
#include "diptych/native/lower/group_space.h"
#include "diptych/native/lower/kernel_row.h"
#include "diptych/native/lower/merge_dims.h"

namespace diptych::detail {
namespace {

bool is_computable(const TensorMeta& meta) {
  return meta.device.is_cpu() && meta.numel() > 0 && has_dtype(kStored, meta.dtype);
}

// Letters, digits, '_' and '.' alone, as kernels have them.
std::string kernel_name(const std::string& name) {
  std::string kept;
  for (const char c : name) kept += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ? c : '_';
  return kept.empty() || std::isalpha(static_cast<unsigned char>(kept[0])) == 0 ? "kernel_" + kept : kept;
}

// Whether elements fill a block of memory, each with a place of its own, at all sizes.
bool is_always_dense(const TensorMeta& meta) {
  if (meta.is_static()) return is_dense(meta.size_hints(), meta.stride_hints());
  std::vector<size_t> order;
  for (size_t dim = 0; dim < meta.sizes.size(); ++dim) {
    if (!is_one(meta.sizes[dim])) order.push_back(dim);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return meta.strides[a].hint() < meta.strides[b].hint(); });
  SizeExpr step = 1;
  for (const size_t dim : order) {
    if (!(meta.strides[dim] == step)) return false;
    step = step * meta.sizes[dim];
  }
  return true;
}

class GroupLowering {
 public:
  explicit GroupLowering(const Graph& body) : body_(body), space_(body), values_(body.num_values(), -1) {}

  // Returns what stood in the way; empty if nothing did.
  std::string run() {
    for (size_t i = 0; i < body_.nodes().size(); ++i) {
      if (!space_.add(i)) return "no common iteration space with " + body_.nodes()[i].op.name();
    }
    order_dims();
    for (const Value input : body_.inputs()) kernel_.inputs.push_back(body_.meta(input).dtype);
    for (size_t i = 0; i < body_.nodes().size(); ++i) {
      if (auto fault = lower_node(i); !fault.empty()) return fault;
    }
    for (const Value output : body_.outputs()) {
      if (auto fault = store(output); !fault.empty()) return fault;
    }
    store_check();
    kernel_.name = kernel_name(body_.name());
    kernel_.values = builder_.values();
    remove_unused_values(kernel_);
    merge_dims(kernel_, sizes_);
    number_symbols();
    const auto problem = find_problem(kernel_);
    return problem ? problem->what : "";
  }

  Kernel& kernel() { return kernel_; }
  const std::vector<SizeExpr>& symbols() const { return sizes_.symbols(); }

 private:
  // The kernel's dims: those of the largest tensor that is read or written from the outermost in memory to the
  // innermost, then those of the next. A reduction that counts positions needs its own in order.
  void order_dims() {
    std::vector<Access> accesses;
    for (const Value output : body_.outputs()) {
      if (output && body_.info(output).kind == ValueInfo::Kind::kNode)
        accesses.push_back({body_.meta(output).numel(), atoms_in_memory(output, space_.dims(output))});
    }
    for (const size_t node : space_.nodes()) {
      for (const auto& [value, dims] : space_.uses_of(node))
        accesses.push_back({body_.meta(value).numel(), atoms_in_memory(value, dims)});
    }
    std::stable_sort(accesses.begin(), accesses.end(), [](const auto& a, const auto& b) { return a.numel > b.numel; });
    std::vector<int32_t> order;
    const auto take = [&](int32_t atom) {
      if (std::find(order.begin(), order.end(), atom) == order.end()) order.push_back(atom);
    };
    for (const Access& access : accesses) std::for_each(access.atoms.begin(), access.atoms.end(), take);
    const auto extents = space_.extents();
    for (size_t atom = 0; atom < extents.size(); ++atom) take(static_cast<int32_t>(atom));
    for (const size_t node : space_.nodes()) {
      if (may_count_positions(body_.nodes()[node])) sort_within(order, space_.reduced_atoms(node));
    }
    dim_of_atom_.resize(extents.size());
    for (size_t dim = 0; dim < order.size(); ++dim) {
      dim_of_atom_[order[dim]] = static_cast<int32_t>(dim);
      extents_.push_back(extents[order[dim]]);
      kernel_.extents.push_back(sizes_.term(extents[order[dim]]));
    }
  }

  // A tensor that is read or written, and the atoms of its dims from the outermost in memory to the innermost.
  struct Access {
    int64_t numel;
    std::vector<int32_t> atoms;
  };

  std::vector<int32_t> atoms_in_memory(Value value, const DimAtoms& dims) const {
    const auto strides = body_.meta(value).stride_hints();
    std::vector<size_t> by_stride(dims.size());
    std::iota(by_stride.begin(), by_stride.end(), 0);
    std::stable_sort(by_stride.begin(), by_stride.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
    std::vector<int32_t> atoms;
    for (const size_t dim : by_stride) {
      if (strides[dim] != 0) atoms.insert(atoms.end(), dims[dim].begin(), dims[dim].end());
    }
    return atoms;
  }

  bool may_count_positions(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](Value output) { return output && body_.meta(output).dtype == at::kLong; });
  }

  // Puts `atoms` into their own order, at the places that they have together.
  static void sort_within(std::vector<int32_t>& order, const std::vector<int32_t>& atoms) {
    size_t next = 0;
    for (int32_t& atom : order) {
      if (std::find(atoms.begin(), atoms.end(), atom) != atoms.end()) atom = atoms[next++];
    }
  }

  DimAtoms as_kernel_dims(DimAtoms dims) const {
    for (auto& atoms : dims) {
      for (int32_t& atom : atoms) atom = dim_of_atom_[atom];
    }
    return dims;
  }

  IndexMap map_of(const DimAtoms& dims, const Sizes& strides) {
    IndexMap map;
    for (size_t i = 0; i < dims.size(); ++i) add_dim_terms(map, sizes_, dims[i], extents_, strides[i]);
    return map;
  }

  int32_t load(Value value, const IndexMap& map, std::optional<LoadMask> mask) {
    const ValueInfo& info = body_.info(value);
    if (info.kind == ValueInfo::Kind::kConstant) {
      const int32_t number = builder_.constant(body_.constants()[info.index].item(), info.meta.dtype);
      return mask ? builder_.scalar("select", {mask->condition, number, mask->other}) : number;
    }
    return builder_.load(info.index, info.meta.dtype, map, mask);
  }

  int32_t operand(size_t node, Value value) {
    if (values_[value.id] >= 0) return values_[value.id];
    const auto dims = as_kernel_dims(space_.used_dims(node, value));
    return load(value, map_of(dims, body_.meta(value).strides), {});
  }

  std::string constants_fault(const Node& node) const {
    std::string fault;
    for_each_operand_value(node, [&](Value value) {
      if (body_.info(value).kind == ValueInfo::Kind::kConstant && body_.meta(value).numel() != 1)
        fault = "a constant of several elements";
    });
    return fault;
  }

  std::string lower_node(size_t index) {
    const Node& node = body_.nodes()[index];
    if (auto fault = constants_fault(node); !fault.empty()) return fault;
    NodeLowering::Sources sources;
    sources.operand = [&](Value value) { return operand(index, value); };
    sources.load = [&](Value value, const IndexMap& map, std::optional<LoadMask> mask) {
      return load(value, map, mask);
    };
    sources.is_made = [&](Value value) { return values_[value.id] >= 0; };
    sources.dims = [&](Value value) { return as_kernel_dims(space_.dims(value)); };
    sources.check = [&](int32_t is_wrong) {
      if (std::find(checks_.begin(), checks_.end(), is_wrong) == checks_.end()) checks_.push_back(is_wrong);
    };
    sources.reduced = space_.reduced_atoms(index);
    for (int32_t& atom : sources.reduced) atom = dim_of_atom_[atom];
    sources.extents = &extents_;
    sources.sizes = &sizes_;
    NodeLowering lowering(body_, node, builder_, sources);
    const Terms terms = find_kernel_row(body_, node)->lower(lowering);
    if (terms.size() < node.outputs.size()) return "a position that counts dims in another order: " + node.op.name();
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (const Value output = node.outputs[i]) values_[output.id] = terms[i].to(body_.meta(output).dtype).value();
    }
    return {};
  }

  std::string store(Value output) {
    if (!output || values_[output.id] < 0) return "an output that no node of the group makes";
    const TensorMeta& meta = body_.meta(output);
    if (!is_always_dense(meta)) return "an output with gaps or several elements at one place";
    kernel_.stores.push_back({static_cast<int32_t>(kernel_.outputs.size()),
                              map_of(as_kernel_dims(space_.dims(output)), meta.strides), values_[output.id], false});
    kernel_.outputs.push_back(meta.dtype);
    return {};
  }

  // Runs through all dims, as every reduction does that goes on after a row: some checks may not vary along them.
  void store_check() {
    if (checks_.empty()) return;
    Term is_wrong(builder_, checks_[0]);
    for (size_t i = 1; i < checks_.size(); ++i) is_wrong = is_wrong | Term(builder_, checks_[i]);
    DimSet all;
    for (size_t dim = 0; dim < extents_.size(); ++dim) all = all | DimSet::of(static_cast<int32_t>(dim));
    kernel_.stores.push_back(
        {static_cast<int32_t>(kernel_.outputs.size()), {}, is_wrong.reduce("any", all, at::kBool).value(), false});
    kernel_.outputs.push_back(at::kBool);
  }

  // Symbols that were needed on the way alone are left out.
  void number_symbols() {
    std::vector<SizeExpr> used;
    std::map<int32_t, int32_t> numbers;
    const auto renumber = [&](SizeTerm size) {
      if (size.is_constant()) return size;
      const auto [entry, is_new] = numbers.emplace(size.symbol, static_cast<int32_t>(used.size()));
      if (is_new) used.push_back(sizes_.symbols()[size.symbol]);
      return SizeTerm{size.factor, entry->second};
    };
    for (SizeTerm& extent : kernel_.extents) extent = renumber(extent);
    for_each_map(kernel_, [&](IndexMap& map) {
      IndexMap renumbered;
      for (IndexTerm term : map.terms()) {
        term.coefficient = renumber(term.coefficient);
        renumbered.add(term);
      }
      map = std::move(renumbered);
    });
    for (const SizeExpr& size : used) kernel_.hints.push_back(std::max<int64_t>(size.hint(), 0));
    sizes_.set_symbols(std::move(used));
  }

  const Graph& body_;
  GroupSpace space_;
  SizeTable sizes_;
  KernelBuilder builder_;
  Kernel kernel_;
  std::vector<int32_t> values_;  // of the kernel, by the graph's values
  std::vector<int32_t> checks_;  // what has to be false at all points
  std::vector<int32_t> dim_of_atom_;
  Sizes extents_;
};

}  // namespace

bool is_lowered_to_kernels(const Graph& graph, const Node& node) {
  if (node.op.is_hop()) return false;
  bool is_covered = true;
  for_each_operand_value(node, [&](Value value) { is_covered = is_covered && is_computable(graph.meta(value)); });
  for (const Value output : node.outputs) {
    if (output) is_covered = is_covered && is_computable(graph.meta(output));
  }
  // Rows look at the first result.
  if (!is_covered || node.outputs.empty() || !node.outputs[0]) return false;
  const KernelRow* const row = find_kernel_row(graph, node);
  if (row == nullptr) return false;
  const NodeArguments arguments(graph, node);
  return arguments.has_plain_constants(row->sizes) && (row->takes_complex || !arguments.has_complex()) &&
         arguments.holds_numbers();
}

std::optional<Kernel> lower_group(const Graph& body, std::string* why, std::vector<SizeExpr>* symbols) {
  GroupLowering lowering(body);
  const std::string fault = lowering.run();
  if (why) *why = fault;
  if (!fault.empty()) return std::nullopt;
  if (symbols) *symbols = lowering.symbols();
  return std::move(lowering.kernel());
}

bool has_check(const Kernel& kernel, const Graph& body) { return kernel.outputs.size() > body.outputs().size(); }

bool is_checked_by_kernels(const Graph& graph, const Node& node) { return find_kernel_row(graph, node)->checks; }

bool is_scattered_by_kernels(const Graph& graph, const Node& node) { return find_kernel_row(graph, node)->scatters; }

}  // namespace diptych::detail
