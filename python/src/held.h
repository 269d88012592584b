// What a guard reads of an object that is no tree.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "diptych/trace/memory_overlap.h"

namespace diptych::python {

namespace py = pybind11;

/// What there is to read in an object.
enum class Holds : uint8_t {
  kNothing,     ///< known by its address: an enumeration's member, an object or a class of the standard library
  kClass,       ///< numbers, strings and containers that it gives names
  kElements,    ///< a set
  kArguments,   ///< functools.partial
  kAttributes,  ///< what its class does not know
  kMemory,      ///< an array of numpy's, a bytearray: its bytes
  kMapping,     ///< a read-only view of a dict
  kView,        ///< a view of a dict's keys, values or entries
  kReference,   ///< a weak reference, or a proxy
};

/// What an object of no other kind holds; remembered by type. Requires: the GIL.
Holds holds(py::handle object);

/// What code, and the code inside it, names besides its own variables. Remembered for good. Requires: the GIL.
struct CodeNames {
  std::vector<PyObject*> variables;   ///< globals, and modules that it imports
  std::vector<PyObject*> attributes;  ///< attributes, and strings that may be names of such
};
const CodeNames& names_of_code(PyObject* code);

/// Whether a module is the user's, and not of an installed library. Requires: the GIL.
bool is_users_module(PyObject* module);
/// The module of the user's of a name, if it has been imported; null if not.
PyObject* users_module_called(PyObject* name);

/// Attributes of a class and its bases, by name; a base's stands behind the one that hides it, as super() finds it.
using Members = std::vector<std::pair<PyObject*, py::object>>;

/// What a class of the user's gives its objects by a function, as far as guards read it. Remembered for a state of the
/// class and its bases.
struct ClassMembers {
  Members special;           ///< what Python calls by itself: __call__, __getattr__, __mul__
  Members makers;            ///< what makes an object: __init__
  Members functions;         ///< all functions
  bool is_autograd = false;  ///< whether it is a torch.autograd.Function, all of whose functions may be called
};
std::shared_ptr<const ClassMembers> members_of_class(PyTypeObject* type);

/// The attributes of the user's that `code` names, in objects of a class. Remembered likewise.
std::shared_ptr<const Members> members_named(const CodeNames& code, PyTypeObject* type);

/// Whether a class or a base of it is the user's. Remembered. Requires: the GIL.
bool has_users_base(PyTypeObject* type);

/// Whether an object given as an argument is known by what it holds, and not by its address: a set, and one of the
/// user's that can't be weakly referenced.
bool is_all_it_holds(py::handle object);

/// A hash of the bytes of an object of Holds::kMemory, of a sample of them if there are more than a million, of its
/// shape and its format; none if they are not plain bytes.
std::optional<uint64_t> hash_of_memory(py::handle object);

/// Whether a class is torch's, of the standard library, or ours. Remembered. Requires: the GIL.
bool is_class_of_library(py::handle type);

/// An object's attributes by name, those in slots as well; without asking its class for computed ones.
py::dict attributes_of(py::handle object);

/// Whether an object is a collections.deque, or of a class derived from it.
bool is_deque(py::handle object);

/// The attributes of an object whose class says little of them; empty where it can have none.
py::dict attributes_beside(py::handle object);

/// What a method of a builtin class is bound to; null for anything else, and for functions of modules.
py::object bound_to(py::handle object);

/// The dict of the attributes that a tensor was given; null where there are none. Requires: nobody keeps it.
py::object attributes_of_tensor(py::handle tensor);

/// Whether a function is of an installed library, the standard one, or ours; what it reads is not read.
bool is_of_library(PyObject* function);

/// The user's Python function that a callable is, or that a decorator of a library's has put inside it; null if none.
PyObject* users_function(PyObject* callable);

/// What is called when an attribute that a class has is used: behind a property, a static or a class method.
py::object method_behind(py::handle attribute);

/// Where the memory lies that an object lends by the buffer protocol, as a numpy array does; empty where it lends none.
diptych::detail::MemoryRange memory_of(py::handle object);

/// Something that lives for as long as the object; the object stays for good where that can't be told.
std::weak_ptr<const void> lifetime_if_any(py::handle object);

}  // namespace diptych::python
