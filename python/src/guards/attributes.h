// What a guard reads in an object that is not a tree.
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

/// What can be read in an object.
enum class AttributeSource : uint8_t {
  kNothing,     ///< known by its address: an enumeration's member, an object or a class of the standard library
  kClass,       ///< the numbers, strings and containers that a class names
  kElements,    ///< a set
  kArguments,   ///< functools.partial
  kAttributes,  ///< attributes that the object has and its class does not know
  kMemory,      ///< the bytes of a numpy array or a bytearray
  kMapping,     ///< a read-only view of a dict
  kView,        ///< a view of a dict's keys, values or entries
  kReference,   ///< a weak reference, or a proxy
};

/// Returns what an object of no other kind holds; remembered by type. Requires: the GIL.
AttributeSource holds(py::handle object);

/// The names that code, and the code inside it, uses besides its own variables. Remembered forever. Requires: the GIL.
struct CodeNames {
  std::vector<PyObject*> variables;   ///< globals, and modules that it imports
  std::vector<PyObject*> attributes;  ///< attributes, and strings that may name attributes
};
const CodeNames& names_of_code(PyObject* code);

/// Whether a module is the user's, rather than one of an installed library. Requires: the GIL.
bool is_users_module(PyObject* module);
/// Returns the user's module of that name if it has been imported, else null.
PyObject* users_module_called(PyObject* name);

/// Attributes of a class and its bases, by name; one of a base comes after the one that hides it, since super() finds
/// it.
using Members = std::vector<std::pair<PyObject*, py::object>>;

/// The functions that a user's class gives its objects, as far as guards read them. Remembered for one state of the
/// class and its bases.
struct ClassMembers {
  Members special;           ///< functions that Python calls by itself: __call__, __getattr__, __mul__
  Members makers;            ///< functions that make an object: __init__
  Members functions;         ///< all functions
  bool is_autograd = false;  ///< whether it is a torch.autograd.Function, all of whose functions may be called
};
std::shared_ptr<const ClassMembers> members_of_class(PyTypeObject* type);

/// Returns the user's attributes of a class that `code` names. Remembered in the same way.
std::shared_ptr<const Members> members_named(const CodeNames& code, PyTypeObject* type);

/// Whether a class or one of its bases is the user's. Remembered. Requires: the GIL.
bool has_users_base(PyTypeObject* type);

/// Whether an object given as an argument is known by what it holds, rather than by its address: a set, or a user's
/// object that can't be weakly referenced.
bool is_all_it_holds(py::handle object);

/// Returns a hash of the bytes of an object of AttributeSource::kMemory, or of a sample of them if there are more than
/// a million, and of its shape and its format; nullopt if they are not plain bytes.
std::optional<uint64_t> hash_of_memory(py::handle object);

/// Whether a class belongs to torch, numpy, the standard library, or Diptych. Remembered. Requires: the GIL.
bool is_class_of_library(py::handle type);

/// Returns an object's attributes by name, including those in slots, without asking its class for computed ones.
py::dict attributes_of(py::handle object);

/// Whether an object is a collections.deque, or of a class derived from it.
bool is_deque(py::handle object);

/// Returns the attributes of an object whose class says little about them; empty if it can have none.
py::dict attributes_beside(py::handle object);

/// Returns what a method of a builtin class is bound to; null for anything else, and for functions of modules.
py::object bound_to(py::handle object);

/// Returns the dict of the attributes that were set on a tensor; null if there are none. Requires: nobody keeps it.
py::object attributes_of_tensor(py::handle tensor);

/// Whether a function belongs to an installed library, the standard one, or Diptych; guards do not read what it reads.
bool is_of_library(PyObject* function);

/// Returns the user's Python function that a callable is, or that a library's decorator has put inside it; null if
/// none.
PyObject* users_function(PyObject* callable);

/// Returns what is called when an attribute of a class is used: behind a property, a static or a class method.
py::object method_behind(py::handle attribute);

/// Returns where the memory lies that an object lends by the buffer protocol, as a numpy array does; empty if it lends
/// none.
diptych::detail::MemoryRange memory_of(py::handle object);

/// Returns something that lives as long as the object; an object whose end can't be observed is kept forever.
std::weak_ptr<const void> lifetime_if_any(py::handle object);

}  // namespace diptych::python
