// Hooks on gradients that Python has registered.
#pragma once
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_hook.h>

#include <string_view>
#include <typeinfo>

namespace diptych::python {

namespace py = pybind11;

/// The name of a class of hooks in its mangled form, by which it is compared, since torch does not export the classes.
template <class OfPython>
constexpr std::string_view kNameOfHooks = "";
template <>
inline constexpr std::string_view kNameOfHooks<torch::autograd::PyFunctionTensorPreHook> = "PyFunctionTensorPreHook";
template <>
inline constexpr std::string_view kNameOfHooks<torch::autograd::PyFunctionPreHook> = "PyFunctionPreHook";
template <>
inline constexpr std::string_view kNameOfHooks<torch::autograd::PyFunctionPostHook> = "PyFunctionPostHook";

/// Returns the functions that stand behind a hook of an autograd node, in order; null if it is not one of Python's.
template <class OfPython>
PyObject* functions_of(const auto& hook) {
  const bool is_pythons = std::string_view(typeid(hook).name()).find(kNameOfHooks<OfPython>) != std::string_view::npos;
  return is_pythons ? static_cast<const OfPython&>(hook).dict : nullptr;
}

}  // namespace diptych::python
