#include "diptych/native/report/check_kernel_file.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <vector>

#include "diptych/base/check.h"
#include "diptych/graph/safetensors.h"
#include "diptych/graph/serialize.h"
#include "diptych/interpreter/program.h"
#include "diptych/native/call/kernel_check.h"
#include "diptych/native/call/kernel_code.h"
#include "diptych/native/kernel/evaluate.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/report/text_table.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

// Files have elements alone; kernels are made for strides, with which elements may share a place.
at::Tensor laid_out(const at::Tensor& tensor, const TensorMeta& meta) {
  const auto sizes = meta.size_hints(), strides = meta.stride_hints();
  if (tensor.numel() == 0) return at::empty_strided(sizes, strides, tensor.options());
  at::Tensor places = at::zeros(sizes, at::kLong);
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    std::vector<int64_t> shape(sizes.size(), 1);
    shape[dim] = sizes[dim];
    places = places.add(at::arange(sizes[dim], at::kLong).mul(strides[dim]).view(shape));
  }
  const at::Tensor memory = at::empty({places.max().item<int64_t>() + 1}, tensor.options());
  memory.scatter_(0, places.reshape(-1), tensor.reshape(-1));
  return memory.as_strided(sizes, strides);
}

Tensors read_inputs(const Graph& body, const std::string& path) {
  Tensors inputs;
  const auto tensors = load_tensors(path);
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const TensorMeta& meta = body.meta(body.inputs()[i]);
    const auto found = tensors.find(fmt::format("input{:03}", i));
    const bool fits = found != tensors.end() && found->second.scalar_type() == meta.dtype &&
                      found->second.sizes() == at::IntArrayRef(meta.size_hints());
    DIPTYCH_CHECK(fits, "[check_kernel_file] {} has no input {} of type {}; take the two files of one report", path, i,
                  type_string(meta));
    inputs.push_back(laid_out(found->second, meta));
  }
  return inputs;
}

Tensors new_outputs(const Graph& body) {
  Tensors outputs;
  for (const Value value : body.outputs()) {
    const TensorMeta& meta = body.meta(value);
    outputs.push_back(at::empty_strided(meta.size_hints(), meta.stride_hints(), at::TensorOptions(meta.dtype)));
  }
  return outputs;
}

// One run of a kernel, of its code or by the evaluator; `fails` becomes what its check says.
struct KernelRun {
  explicit KernelRun(const Graph& body, bool has_check) : outputs(new_outputs(body)), buffers(outputs) {
    if (has_check) buffers.push_back(at::zeros({1}, at::kBool));
  }
  bool fails() const { return buffers.size() > outputs.size() && buffers.back().item<bool>(); }
  Tensors outputs, buffers;
};

KernelRun run_code(const Graph& body, const KernelCode& code, const Tensors& inputs) {
  KernelRun run(body, code.has_check);
  std::vector<void*> from, to;
  for (const at::Tensor& input : inputs) from.push_back(input.data_ptr());
  for (const at::Tensor& output : run.buffers) to.push_back(output.data_ptr());
  code.code->run(from.data(), to.data(), /*symbols=*/{});
  return run;
}

KernelRun run_evaluator(const Graph& body, const KernelCode& code, const Tensors& inputs) {
  KernelRun run(body, code.has_check);
  std::vector<KernelMemory> from, to;
  for (const at::Tensor& input : inputs) from.push_back(KernelMemory::of(input));
  for (const at::Tensor& output : run.buffers) to.push_back(KernelMemory::of(output));
  evaluate(*code.kernel, from, to, {});
  return run;
}

// "3 of 24 differ, most at [1,2]: 0.5 and 0.25"; "no difference beyond the bound" where none does.
std::string difference_text(const Graph& body, double largest, const at::Tensor& a, const at::Tensor& b,
                            bool& differs) {
  const at::Tensor wrong = differing_elements(body, largest, a, b).contiguous().view(-1);
  const at::ScalarType wide = a.is_complex() ? at::kComplexDouble : at::kDouble;
  const at::Tensor apart = a.to(wide).sub(b.to(wide)).abs().reshape(-1);
  const double most = largest_finite({apart});
  if (!wrong.any().item<bool>()) return fmt::format("as it should be, at most {:.2g} apart", most);
  differs = true;
  const int64_t first = wrong.to(at::kByte).argmax().item<int64_t>();
  return fmt::format("{} of {} differ, the first at [{}]: {} and {}", wrong.sum().item<int64_t>(), wrong.numel(),
                     fmt::join(position_of(first, a.sizes()), ","), element_text(a, first), element_text(b, first));
}

Graph read_body(const std::string& path) {
  const GraphFile file = load(path);
  DIPTYCH_CHECK(file.graphs.size() == 1, "[check_kernel_file] {} holds {} graphs, expected the body of one kernel",
                path, file.graphs.size());
  return file.graphs[0].second;
}

}  // namespace

KernelFileReport check_kernel_file(const std::string& path) {
  const std::string name = path.ends_with(".graph") ? path.substr(0, path.size() - 6) : path;
  const auto body = std::make_shared<const Graph>(read_body(name + ".graph"));
  const Tensors inputs = read_inputs(*body, name + ".safetensors");
  const auto code = code_of(body);
  DIPTYCH_CHECK(
      code->code != nullptr,
      "[check_kernel_file] no kernel can be made of {}: {}; the interpreter runs it, and nothing is to be checked",
      path, code->problem);
  const Tensors expected = Program(*body).run(Tensors(inputs));
  const KernelRun made = run_code(*body, *code, inputs), evaluated = run_evaluator(*body, *code, inputs);
  KernelFileReport report{false, print(*code->kernel) + "\n"};
  if (made.fails() || evaluated.fails()) {
    report.differs = made.fails() != evaluated.fails();
    report.text += "an index is out of range, so that the interpreter runs the nodes\n";
    return report;
  }
  const double largest = largest_finite(inputs);
  std::vector<TableRow> rows{{"output", "type", "compared", "result"}};
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto compare = [&](const char* which, const at::Tensor& a, const at::Tensor& b) {
      rows.push_back({std::to_string(i), type_string(body->meta(body->outputs()[i])), which,
                      difference_text(*body, largest, a, b, report.differs)});
    };
    compare("kernel and interpreter", made.outputs[i], expected[i]);
    compare("kernel and evaluator", made.outputs[i], evaluated.outputs[i]);
    compare("evaluator and interpreter", evaluated.outputs[i], expected[i]);
  }
  report.text += aligned_table(rows, {});
  return report;
}

}  // namespace diptych::detail
