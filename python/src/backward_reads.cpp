// What the backward of a torch.autograd.Function reads: see Note [What a backward reads].
#include <torch/csrc/autograd/python_cpp_function.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "closure.h"
#include "diptych/autodiff/host_reads.h"
#include "diptych/tree/spec.h"
#include "handle.h"
#include "tensors.h"

namespace diptych::python {
namespace {

class ReadsOfFunction final : public diptych::detail::HostReads {
 public:
  explicit ReadsOfFunction(const py::object& kind) : kind_(kind) {}

  std::string name() const override {
    const py::gil_scoped_acquire gil;
    return kind_.get().attr("__qualname__").cast<std::string>();
  }

  uint64_t hash() const override {
    const py::gil_scoped_acquire gil;
    TreeHasher hasher;
    Met met;
    ClosureReader<TreeHasher> reader(hasher, met);
    for (const char* const name : {"backward", "vjp"}) {
      reader.visit(kind_.get().attr(name), Path(Path(), name));
    }
    return hasher.hash();
  }

 private:
  Handle kind_;
};

std::shared_ptr<const diptych::detail::HostReads> reads_of(torch::autograd::Node& node) {
  const py::gil_scoped_acquire gil;
  const auto made = py::reinterpret_steal<py::object>(torch::autograd::functionToPyObject(node.getptr()));
  const py::object type = py::type::of(made);
  if (!py::hasattr(type, "_forward_cls")) return nullptr;
  const py::object kind = type.attr("_forward_cls");
  return is_class_of_library(kind) ? nullptr : std::make_shared<const ReadsOfFunction>(kind);
}

}  // namespace

void bind_backward_reads() { diptych::detail::host_reads_of = &reads_of; }

}  // namespace diptych::python
