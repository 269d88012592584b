// What a Python object is to Diptych.
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>

namespace diptych::python {

namespace py = pybind11;

/// How an object takes part in a tree.
enum class Kind : uint8_t {
  kTensor,    ///< torch.Tensor itself, Parameter and Buffer
  kCarrier,   ///< a tensor of another class that at most wraps calls (__torch_function__), which a trace sees as they
              ///< are
  kSubclass,  ///< a tensor of another class, which may redefine what operators do
  kAbsent,    ///< absent_tensor(): the place of a tensor that is undefined, or not known yet
  kConstant,  ///< None, bool, int, float, complex, str, classes made of these, scalars of numpy, dtype, device, layout,
              ///< memory format, slice, range, bytes, Ellipsis, Fraction, Decimal, dates, paths: guarded by value
  kList,
  kTuple,
  kNamedTuple,
  kDict,
  kDataclass,
  kModule,      ///< torch.nn.Module
  kRegistered,  ///< a class that torch.utils._pytree knows how to flatten
  kObject,      ///< anything else: guarded by identity
};

/// The kind of an object; remembered by type. Requires: the GIL.
Kind kind_of(py::handle object);

/// Returns the object that stands in a tree in place of a missing tensor.
py::handle absent_tensor();
/// Returns what stands in a result in place of a tensor of this class.
py::object absent_tensor_of(py::handle type);

/// Whether an object is a number whose value a trace may still be asked for: see diptych/_host/numbers/. Trees hold it
/// as the float or the integer that it is.
bool is_open_number(py::handle object);
/// Sets the classes of such floats, and of such integers: in their traces, and after them. All are kept.
void set_classes_of_open_numbers(py::tuple floats, py::tuple integers);
/// Returns the float or the integer that such a number is, which asks for its value; other objects as they are.
py::object closed_number(py::handle object);

/// Whether a tensor is a parameter or a buffer of a lazy module that was not called yet.
bool is_uninitialized(py::handle object);

/// Returns the name of an object's class, with its module.
std::string type_name(py::handle object);

/// Returns something that lives as long as the object, since another object may get the address of a dead one.
/// Errors: UserError names a type that can't be weakly referenced.
std::weak_ptr<const void> lifetime_of(py::handle object);

/// Returns the fields of a dataclass that are set, in the order of their declaration, then its other attributes.
py::tuple field_names(py::handle dataclass);

/// The children of an object of a registered class, and the rest of it.
struct Parts {
  py::list children;
  py::object context;
};
Parts parts_of(py::handle object);
py::object from_parts(py::handle type, py::list children, const py::object& context);

}  // namespace diptych::python
