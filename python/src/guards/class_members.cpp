// Remembers what code names, and what classes have under these names: guards ask for both in each call.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "guards/attributes.h"
#include "guards/by_address.h"

namespace diptych::python {
namespace {

std::string_view text_of(PyObject* name) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(name, &size);
  if (text == nullptr) return PyErr_Clear(), std::string_view();
  return {text, static_cast<size_t>(size)};
}

void add_once(std::vector<PyObject*>& names, PyObject* name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

PyObject* interned(py::handle name) {
  PyObject* kept = py::reinterpret_borrow<py::object>(name).release().ptr();
  PyUnicode_InternInPlace(&kept);
  return kept;
}

/// Returns the number of the state of a class and its bases; 0 if it has none now.
unsigned version_of(PyTypeObject* type) {
  return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

/// What is remembered about a class, for one state of it.
template <class Found>
struct Versioned {
  unsigned version = 0;
  std::shared_ptr<const Found> found;  // shared by readers, in case the class changes meanwhile
};

// Whether a method that Python calls by itself is not guarded, since captured functions have no use for it.
bool is_of_no_use(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__repr__",          "__str__",           "__del__",      "__reduce__", "__reduce_ex__",
      "__getstate__",      "__setstate__",      "__deepcopy__", "__copy__",   "__sizeof__",
      "__init_subclass__", "__class_getitem__", "__dir__",      "__format__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string type_text(py::handle type, const char* attribute) {
  return py::str(py::getattr(type, attribute, py::str())).cast<std::string>();
}

bool makes_objects(std::string_view name) { return name == "__init__" || name == "__new__" || name == "__post_init__"; }

ClassMembers find_members(PyTypeObject* type) {
  ClassMembers members;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    const py::handle base = PyTuple_GET_ITEM(type->tp_mro, i);
    if (is_class_of_library(base)) {
      members.is_autograd |=
          type_text(base, "__module__") == "torch.autograd.function" && type_text(base, "__name__") == "Function";
      continue;
    }
    for (const auto& [name, value] : py::dict(base.attr("__dict__"))) {
      if (users_function(method_behind(value).ptr()) == nullptr || is_of_no_use(text_of(name.ptr()))) continue;
      const std::pair member(interned(name), py::reinterpret_borrow<py::object>(value));
      members.functions.push_back(member);
      if (!text_of(name.ptr()).starts_with("__")) continue;
      (makes_objects(text_of(name.ptr())) ? members.makers : members.special).push_back(member);
    }
  }
  return members;
}

Members find_named(const std::vector<PyObject*>& names, PyTypeObject* type) {
  Members found;
  for (PyObject* const name : names) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
      const py::handle base = PyTuple_GET_ITEM(type->tp_mro, i);
      const py::object members = base.attr("__dict__");
      if (!members.contains(py::handle(name))) continue;
      if (is_class_of_library(base)) break;
      found.emplace_back(name, members[py::handle(name)]);
    }
  }
  return found;
}

// Looking up an attribute gives the class a number if it has none.
template <class Found, class Find>
std::shared_ptr<const Found> remembered(Versioned<Found>& entry, PyTypeObject* type, const Find& find) {
  if (const unsigned version = version_of(type); version == 0 || version != entry.version) {
    entry.found = std::make_shared<const Found>(find());
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    _PyType_Lookup(type, name);
    entry.version = version_of(type);
  }
  return entry.found;
}

template <class Key>
Key* kept(Key* object) {
  Py_INCREF(object);  // so that no other object gets its address
  return object;
}

}  // namespace

const CodeNames& names_of_code(PyObject* code) {
  static ByAddress<PyObject, const CodeNames*> known;
  return *known.get(code, [](py::handle asked) {
    const auto pair = py::module_::import("diptych._host.contents").attr("names_by_use")(asked);
    auto* const names = new CodeNames;
    for (const py::handle name : py::reinterpret_borrow<py::tuple>(pair)[0]) add_once(names->variables, interned(name));
    for (const py::handle name : py::reinterpret_borrow<py::tuple>(pair)[1])
      add_once(names->attributes, interned(name));
    return names;
  });
}

bool is_users_module(PyObject* module) {
  static ByAddress<PyObject, bool> known;
  return known.get(module, [](py::handle asked) {
    return !py::module_::import("diptych._host.contents").attr("is_library_module")(asked).cast<bool>();
  });
}

PyObject* users_module_called(PyObject* name) {
  PyObject* const found = PyDict_GetItem(PyImport_GetModuleDict(), name);
  return found != nullptr && PyModule_Check(found) && is_users_module(found) ? found : nullptr;
}

std::shared_ptr<const ClassMembers> members_of_class(PyTypeObject* type) {
  static auto* const known = new std::unordered_map<PyTypeObject*, Versioned<ClassMembers>>;
  auto found = known->find(type);
  if (found == known->end()) found = known->try_emplace(kept(type)).first;
  return remembered(found->second, type, [&] { return find_members(type); });
}

std::shared_ptr<const Members> members_named(const CodeNames& code, PyTypeObject* type) {
  using Pair = std::pair<const CodeNames*, PyTypeObject*>;
  static constexpr auto kHash = [](const Pair& pair) {
    return (reinterpret_cast<uintptr_t>(pair.first) >> 4) * 31 + (reinterpret_cast<uintptr_t>(pair.second) >> 4);
  };
  static auto* const known = new std::unordered_map<Pair, Versioned<Members>, decltype(kHash)>(64, kHash);
  auto found = known->find({&code, type});
  if (found == known->end()) found = known->try_emplace({&code, kept(type)}).first;
  return remembered(found->second, type, [&] { return find_named(code.attributes, type); });
}

bool has_users_base(PyTypeObject* type) {
  static auto* const known = new std::unordered_map<PyTypeObject*, bool>;
  const auto found = known->find(type);
  if (found != known->end()) return found->second;
  bool has = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    has |= !is_class_of_library(PyTuple_GET_ITEM(type->tp_mro, i));
  }
  return known->emplace(kept(type), has).first->second;
}

}  // namespace diptych::python
