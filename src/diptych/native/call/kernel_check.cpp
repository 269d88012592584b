#include "diptych/native/call/kernel_check.h"

#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <optional>

#include "diptych/base/check.h"
#include "diptych/base/switches.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/safetensors.h"
#include "diptych/graph/serialize.h"
#include "diptych/interpreter/symbols.h"

namespace diptych::detail {
namespace {

// How far a result may be off, relative to the largest number around: sums of some thousand terms are, by a hundred
// roundings, and half types by a few of their own.
double bound_of(at::ScalarType dtype) {
  switch (c10::toRealValueType(dtype)) {
    case at::kDouble:
      return 1e-11;
    case at::kHalf:
      return 4e-3;
    case at::kBFloat16:
      return 3e-2;
    default:
      return 2e-5;
  }
}

// The loosest bound of the dtypes that occur in a body: a result may be of a wider one than what it was computed from.
double bound_of(const Graph& body) {
  double bound = bound_of(at::kDouble);
  for (size_t id = 0; id < body.num_values(); ++id) {
    const at::ScalarType dtype = body.meta(Value{static_cast<int32_t>(id)}).dtype;
    if (c10::isFloatingType(dtype) || c10::isComplexType(dtype)) bound = std::max(bound, bound_of(dtype));
  }
  return bound;
}

// Complex elements as pairs of real ones.
at::Tensor parts_of(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

double largest_finite(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || !(tensor.is_floating_point() || tensor.is_complex())) return 0;
  const at::Tensor wide = parts_of(tensor).to(at::kDouble).abs();
  return at::where(wide.isfinite(), wide, 0).max().item<double>();
}

// The body at the sizes of a call's inputs, where all sizes follow from those.
Graph at_sizes_of(const Graph& body, const std::vector<at::Tensor>& inputs) {
  const SymbolBinder binder(body);
  if (!binder.has_symbols() || binder.open_symbol()) return body;
  return instantiate(body, binder.solve(binder.observe(inputs)));
}

std::string write_files(const Graph& body, const std::vector<at::Tensor>& inputs) {
  static std::atomic<int> count{0};
  const auto folder = std::filesystem::temp_directory_path();
  const std::string path = folder / fmt::format("diptych_kernel_{}_{}", ::getpid(), count++);
  write_kernel_file(body, inputs, path);
  return path;
}

thread_local int open_scopes = 0;

}  // namespace

KernelCheckScope::KernelCheckScope() { ++open_scopes; }

KernelCheckScope::~KernelCheckScope() { --open_scopes; }

bool is_kernel_checked() { return open_scopes > 0 || checks_kernels(); }

void write_kernel_file(const Graph& body, const std::vector<at::Tensor>& inputs, const std::string& name) {
  std::map<std::string, at::Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) tensors.emplace(fmt::format("input{:03}", i), inputs[i]);
  save(at_sizes_of(body, inputs), name + ".graph");
  save_tensors(tensors, name + ".safetensors");
}

std::string element_text(const at::Tensor& tensor, int64_t index) {
  const at::Scalar number = tensor.reshape(-1)[index].item();
  if (number.isComplex()) {
    const auto complex = number.toComplexDouble();
    return fmt::format("({}, {})", complex.real(), complex.imag());
  }
  return number.isFloatingPoint() ? fmt::format("{}", number.toDouble()) : fmt::format("{}", number.toLong());
}

double largest_finite(const std::vector<at::Tensor>& tensors) {
  double largest = 0;
  for (const at::Tensor& tensor : tensors) largest = std::max(largest, largest_finite(tensor));
  return largest;
}

at::Tensor differing_elements(const Graph& body, double largest, const at::Tensor& got, const at::Tensor& expected) {
  if (expected.is_complex()) return differing_elements(body, largest, parts_of(got), parts_of(expected)).any(-1);
  if (!expected.is_floating_point()) return got.ne(expected);
  const double bound = bound_of(body) * std::max(largest, largest_finite(expected));
  const at::Tensor a = got.to(at::kDouble), b = expected.to(at::kDouble);
  const at::Tensor are_finite = a.isfinite().logical_and(b.isfinite());
  const at::Tensor are_far = a.sub(b).abs().gt(bound);
  const at::Tensor are_nan = a.isnan().logical_and(b.isnan());
  return at::where(are_finite, are_far, a.ne(b).logical_and(are_nan.logical_not()));
}

std::vector<int64_t> position_of(int64_t index, at::IntArrayRef sizes) {
  std::vector<int64_t> position(sizes.size());
  for (size_t dim = sizes.size(); dim-- > 0;) {
    position[dim] = index % sizes[dim];
    index /= sizes[dim];
  }
  return position;
}

void check_kernel(const Graph& body, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& got,
                  const std::vector<at::Tensor>& expected) {
  const double largest = largest_finite(inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor wrong = differing_elements(body, largest, got[i], expected[i]).contiguous().view(-1);
    if (!wrong.any().item<bool>()) continue;
    const int64_t index = wrong.to(at::kByte).argmax().item<int64_t>();
    const std::string path = write_files(body, inputs);
    DIPTYCH_ASSERT(
        false,
        "kernel '{}' computed {} at [{}] of output {}, and the interpreter {}; {} of {} elements differ. Its "
        "body and inputs are in {}.graph and .safetensors, which `diptych check-kernel {}.graph` runs alone\n{}",
        body.name(), element_text(got[i], index), fmt::join(position_of(index, got[i].sizes()), ","), i,
        element_text(expected[i], index), wrong.sum().item<int64_t>(), wrong.numel(), path, path, body.code());
  }
}

}  // namespace diptych::detail
