#include "diptych/native/report/kernel_work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "diptych/native/kernel/dtypes.h"
#include "diptych/native/kernel/memory_extent.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/schedule/scattered_sums.h"

namespace diptych::detail {
namespace {

// How many points are walked to see which elements several maps share; with more, they are taken to share none.
constexpr int64_t kMostWalked = int64_t{1} << 24;

int64_t points_of(const Kernel& kernel, DimSet dims) {
  int64_t points = 1;
  for (size_t dim = 0; dim < kernel.extents.size(); ++dim) {
    if (dims.contains(static_cast<int32_t>(dim))) points *= kernel.extents[dim].factor;
  }
  return points;
}

// An affine access: steps in ascending order, all positive.
struct Access {
  struct Dim {
    int64_t step, extent;
    bool operator<(const Dim& other) const { return step < other.step; }
  };
  int64_t first = 0;
  std::vector<Dim> dims;

  Access(const Kernel& kernel, const IndexMap& map) {
    for (const IndexTerm& term : map.terms()) {
      const int64_t step = term.coefficient.factor;
      if (term.factor == IndexFactor::kOne) first += step;
      if (term.factor != IndexFactor::kDim) continue;
      const int64_t extent = kernel.extents[term.id].factor;
      if (step < 0) first += step * (extent - 1);
      if (extent != 1) dims.push_back({std::abs(step), extent});
    }
    std::sort(dims.begin(), dims.end());
  }

  int64_t points() const {
    int64_t points = 1;
    for (const Dim& dim : dims) points *= dim.extent;
    return points;
  }
  int64_t last() const {
    int64_t last = first;
    for (const Dim& dim : dims) last += dim.step * (dim.extent - 1);
    return last;
  }
  // Whether no two points reach one element.
  bool is_injective() const {
    int64_t span = 0;
    for (const Dim& dim : dims) {
      if (dim.step <= span) return false;
      span += dim.step * (dim.extent - 1);
    }
    return true;
  }
};

// The elements of one buffer that a kernel reaches.
class ReachedElements {
 public:
  explicit ReachedElements(int64_t reach) : reach_(reach) {}

  // `points`: of the whole access.
  void add(const Kernel& kernel, const IndexMap& map, int64_t points) {
    if (std::find(maps_.begin(), maps_.end(), map) != maps_.end()) return;
    maps_.push_back(map);
    const auto& terms = map.terms();
    const bool is_indirect = std::any_of(terms.begin(), terms.end(),
                                         [](const IndexTerm& term) { return term.factor == IndexFactor::kValue; });
    if (is_indirect) {
      indirect_ += points;
    } else if (const Access access(kernel, map); access.points() > 0) {
      accesses_.push_back(access);
    }
  }

  int64_t count() const { return std::min(reach_, indirect_ + count_direct()); }

 private:
  int64_t count_direct() const {
    int64_t points = 0;
    bool is_simple = accesses_.size() <= 1;
    for (const Access& access : accesses_) {
      points += access.points();
      is_simple = is_simple && access.is_injective() && access.first >= 0 && access.last() < reach_;
    }
    if (is_simple || points > kMostWalked) return points;
    std::vector<bool> is_reached(static_cast<size_t>(reach_));
    for (const Access& access : accesses_) walk(access, access.dims.size(), access.first, is_reached);
    return std::count(is_reached.begin(), is_reached.end(), true);
  }

  // Elements outside of the buffer are those that a mask leaves out.
  static void walk(const Access& access, size_t dim, int64_t at, std::vector<bool>& is_reached) {
    if (dim == 0) {
      if (at >= 0 && at < static_cast<int64_t>(is_reached.size())) is_reached[static_cast<size_t>(at)] = true;
      return;
    }
    const auto& [step, extent] = access.dims[dim - 1];
    for (int64_t i = 0; i < extent; ++i) walk(access, dim - 1, at + i * step, is_reached);
  }

  int64_t reach_;
  int64_t indirect_ = 0;
  std::vector<IndexMap> maps_;
  std::vector<Access> accesses_;
};

std::vector<ReachedElements> buffers(const Graph& body, const std::vector<Value>& values, size_t count) {
  std::vector<ReachedElements> buffers;
  for (const Value value : values) {
    const TensorMeta& meta = body.meta(value);
    buffers.emplace_back(span_of(meta.size_hints(), meta.stride_hints()));
  }
  buffers.resize(count, ReachedElements(1));  // a check
  return buffers;
}

int64_t bytes_of(const std::vector<ReachedElements>& buffers, const std::vector<at::ScalarType>& dtypes) {
  int64_t bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    bytes += buffers[i].count() * static_cast<int64_t>(c10::elementSize(dtypes[i]));
  }
  return bytes;
}

// The operations on floats of one value.
int64_t flops_of(const Kernel& kernel, const std::vector<DimSet>& domains, size_t index) {
  const auto is_float = [&](int32_t value) { return has_dtype(kFloats | kComplexes, kernel.values[value].dtype); };
  const KernelValue& value = kernel.values[index];
  if (const auto* scalar = std::get_if<KernelScalar>(&value.made_by)) {
    const bool moves = scalar->op->result == ResultRule::kAny || scalar->op->has_condition;
    return !moves && is_float(scalar->operands.back()) ? points_of(kernel, domains[index]) : 0;
  }
  if (const auto* reduce = std::get_if<KernelReduce>(&value.made_by)) {
    return is_float(reduce->operand) ? points_of(kernel, domains[reduce->operand] | reduce->over) : 0;
  }
  return 0;
}

}  // namespace

KernelWork work_of(const Kernel& at_any_sizes, const Graph& body) {
  auto inputs = buffers(body, body.inputs(), at_any_sizes.inputs.size());
  auto outputs = buffers(body, body.outputs(), at_any_sizes.outputs.size());
  KernelWork work;
  for (const Kernel& kernel : kernels_without_scattered_sums(at_hints(at_any_sizes))) {
    const auto domains = value_domains(kernel);
    for (size_t i = 0; i < kernel.values.size(); ++i) {
      work.flops += flops_of(kernel, domains, i);
      if (const auto* load = std::get_if<KernelLoad>(&kernel.values[i].made_by)) {
        inputs[load->input].add(kernel, load->map, points_of(kernel, domains[i]));
      }
    }
    for (const KernelStore& store : kernel.stores) {
      const int64_t points = points_of(kernel, store_domain(store, domains));
      outputs[store.output].add(kernel, store.map, points);
      if (store.is_add && has_dtype(kFloats, kernel.outputs[store.output])) work.flops += points;
    }
  }
  work.bytes_read = bytes_of(inputs, at_any_sizes.inputs);
  work.bytes_written = bytes_of(outputs, at_any_sizes.outputs);
  return work;
}

}  // namespace diptych::detail
