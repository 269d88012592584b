#include "modes.h"

#include <pybind11/gil_safe_call_once.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bindings.h"
#include "diptych/base/check.h"
#include "diptych/hops/transformed_call.h"
#include "diptych/trace/transforms.h"
#include "guards/classes.h"

namespace diptych::python {
namespace {

using Modes = at::impl::PythonTorchFunctionTLS;

py::handle mode_at(int64_t index) { return Modes::get_stack_at(index)->ptr(getPyInterpreter()); }

// Whether a mode is torch's own one that only says where new tensors lie, which guards know. The meta device is
// excluded, since nothing can run on it.
bool is_default_device(py::handle mode) {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> storage;
  const py::object& type =
      storage
          .call_once_and_store_result([] { return py::module_::import("torch.utils._device").attr("DeviceContext"); })
          .get_stored();
  return py::type::of(mode).is(type) && py::str(mode.attr("device").attr("type")).cast<std::string>() != "meta";
}

std::optional<std::string> active_mode() {
  const py::gil_scoped_acquire gil;
  for (int64_t i = 0; i < Modes::stack_len(); ++i) {
    if (!is_default_device(mode_at(i))) return fmt::format("the TorchFunctionMode {} is active", type_name(mode_at(i)));
  }
  return std::nullopt;
}

at::Tensor tensor_of(const py::object& result) {
  DIPTYCH_CHECK(THPVariable_Check(result.ptr()),
                "[tree] an operator of a tensor subclass returned a {}, expected a tensor; have its __torch_function__ "
                "return one",
                type_name(result));
  return THPVariable_Unpack(result.ptr());
}

py::object python_tensor(const at::Tensor& tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

// Takes slices, stacks and clones as Python code does, since a tensor's class may redefine them.
constexpr diptych::detail::EagerOperators kOfPython{
    [](const at::Tensor& tensor, int64_t index) {
      const py::gil_scoped_acquire gil;
      return tensor_of(python_tensor(tensor)[py::int_(index)]);
    },
    [](const std::vector<at::Tensor>& tensors) {
      const py::gil_scoped_acquire gil;
      py::list list;
      for (const at::Tensor& tensor : tensors) list.append(python_tensor(tensor));
      return tensor_of(py::module_::import("torch").attr("stack")(list));
    },
    [](const at::Tensor& tensor) {
      const py::gil_scoped_acquire gil;
      return tensor_of(python_tensor(tensor).attr("clone")());
    },
};

}  // namespace

std::vector<std::string> default_devices() {
  std::vector<std::string> devices;
  for (int64_t i = 0; i < Modes::stack_len(); ++i) {
    if (is_default_device(mode_at(i))) devices.push_back(py::str(mode_at(i).attr("device")).cast<std::string>());
  }
  return devices;
}

std::vector<std::pair<const char*, py::object>> hooks_of_all_modules() {
  // Modules look these up when they are called; the hooks for registering a parameter are not among them.
  static constexpr std::array kVariables{"_global_forward_pre_hooks",         "_global_forward_hooks",
                                         "_global_forward_hooks_with_kwargs", "_global_forward_hooks_always_called",
                                         "_global_backward_pre_hooks",        "_global_backward_hooks"};
  struct Variables {
    py::object module_variables = py::module_::import("torch.nn.modules.module").attr("__dict__");
    std::array<PyObject*, kVariables.size()> names{}, values{};
    uint64_t version = 0;  ///< of the module's variables, when these values were looked up
    Variables() { std::transform(kVariables.begin(), kVariables.end(), names.begin(), &PyUnicode_InternFromString); }
    void look_up() {
      const auto value = [&](PyObject* name) { return PyDict_GetItem(module_variables.ptr(), name); };
#if PY_VERSION_HEX < 0x030C0000  // a later Python does not say whether a dict was changed
      const uint64_t now = reinterpret_cast<PyDictObject*>(module_variables.ptr())->ma_version_tag;
      if (now == version) return;
      version = now;
#endif
      std::transform(names.begin(), names.end(), values.begin(), value);
    }
  };
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Variables> storage;
  Variables& variables = storage.call_once_and_store_result([] { return Variables(); }).get_stored();
  variables.look_up();
  std::vector<std::pair<const char*, py::object>> held;
  for (size_t i = 0; i < kVariables.size(); ++i) {
    PyObject* const value = variables.values[i];
    if (value == nullptr || (PyDict_Check(value) && PyDict_GET_SIZE(value) == 0)) continue;  // usually no hooks
    held.emplace_back(kVariables[i], py::reinterpret_borrow<py::object>(value));
  }
  if (!held.empty()) held.emplace_back("kind", variables.module_variables["_global_is_full_backward_hook"]);
  return held;
}

void bind_modes() {
  diptych::detail::set_mode_reader(&active_mode);
  diptych::detail::set_eager_operators(&kOfPython);
}

}  // namespace diptych::python
