// What one visit of Python objects has met so far.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "diptych/tree/path.h"
#include "guards/attributes.h"

namespace diptych::python {

/// What tensors inside an object are to a visitor.
enum class TensorRole : uint8_t {
  kArgument,  ///< leaves
  kModule,    ///< parts of a module, which are never replaced
  kClosure,   ///< known by identity; a capture lifts them as free variables
};

/// The objects that one visit has met: an object that holds itself, or that several others hold, is read once.
struct Visited {
  std::unordered_map<PyObject*, int> depths;      ///< of objects with attributes: inside how many others they were read
  std::unordered_map<PyObject*, int64_t> places;  ///< of modules, functions and objects with attributes, by first sight
  std::vector<PyObject*> open;                    ///< containers that are being read
  std::vector<PyTypeObject*> classes;             ///< the user's classes among those of the objects that were met
  std::vector<const CodeNames*> codes;            ///< of the functions that were met
  int depth = 0;                                  ///< of what is being read

  /// Whether an object with attributes, inside `depth` others, has yet to be read: the first time, and again if it was
  /// read inside more others before, and so less deeply.
  bool enter(PyObject* object, int depth) {
    const auto [found, is_new] = depths.try_emplace(object, depth);
    if (!is_new && found->second <= depth) return false;
    found->second = depth;
    enter(object);
    return true;
  }
  /// Forgets all but the classes.
  void keep_classes() {
    if (!codes.empty()) codes.clear();
    if (places.empty()) return;  // as after reading a tensor
    depths.clear();
    places.clear();
  }
  /// Whether an object is met for the first time.
  bool enter(PyObject* object) { return places.try_emplace(object, static_cast<int64_t>(places.size())).second; }
};

[[noreturn]] void refuse_depth(const Path& path);

/// Counts one more level of objects that are being read or rebuilt, as long as it is alive.
/// Errors: UserError for too many levels, or for an object inside itself.
class Nesting {
 public:
  Nesting(int& depth, const Path& path) : depth_(depth) {
    constexpr int kMost = 500;
    if (depth == kMost) refuse_depth(path);
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

}  // namespace diptych::python
