// Watches what a Python function does on the host, besides calling operators, while it is captured.
#pragma once
#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "diptych/compile/capture_watch.h"
#include "diptych/trace/fake_tensor.h"

namespace diptych::python {

using namespace detail;

namespace py = pybind11;

/// Note [What a function does on the host]: a graph holds only operators. A random number of Python, the time of day or
/// a file that the traced function read is a constant of the graph; a counter that it raised, a list that it appended
/// to and an iterator that it advanced do not change when the graph runs. So a capture is watched: a profile function
/// of the interpreter sees calls of functions that return something else each time (diptych/_host/events.py), and the
/// objects that the function leads to are compared before and after (diptych/_host/watch.py). If something is found, it
/// is undone, and calls of that kind run the function itself. If there is no function to run, as in a bare pair, the
/// function is refused.
class HostWatch : public CaptureWatch {
 public:
  /// Returns the watch of this thread, or null.
  static HostWatch* current();
  /// Begins to watch a capture of `function`; returns null if this thread is watched already. Takes the GIL. `can_run`:
  /// whether calls may run the function itself, whatever it does.
  static std::unique_ptr<HostWatch> begin(py::handle function, bool can_run);
  ~HostWatch() override;
  /// Returns the stand-ins of traces that have ended to which something of Python still refers. Requires: the GIL.
  static std::vector<at::Tensor> left_behind();

  /// Called for each call of a Python function: tells the Python side of its code, the first time, before it runs.
  void tell_of_call(PyFrameObject* frame);
  /// Called before a function is traced: if it is the captured one, undoes what an earlier trace has left on the host.
  void begin_trace(py::handle function) const;
  /// Called before a function runs on stand-ins: if it is the captured one, remembers what it and its arguments, whose
  /// containers are copies, lead to. Requires: the GIL.
  void enter(py::handle function, const py::tuple& args, const py::dict& kwargs, const std::vector<std::string>& names,
             std::vector<const void*> arguments);
  /// Called after the function: looks at what it returned.
  void leave(py::handle function, py::handle result) const;
  /// Called instead of leave() if the function raised an exception: lets go of what its frames hold.
  void leave_by(py::handle function, const py::error_already_set& error) const;
  /// Whether a tensor is the stand-in of one of the captured function's arguments.
  bool is_argument(const at::Tensor& tensor) const;
  Found finish(const std::vector<at::Tensor>& written) override;
  /// Ends the watch if only draws of random numbers count: returns the first of them, in words.
  std::string finish_draws();
  bool forget() override;
  std::string refusal() const override;

 private:
  HostWatch(py::handle function, bool can_run);
  void stop();
  bool forgets();
  void refuse_strays() const;
  void find_shared_memory(const std::vector<at::Tensor>& written) const;

  PyObject* function_;  // owned by the caller
  py::object watch_;
  bool is_on_ = false;
  uint64_t writes_before_ = 0;
  diptych::detail::GivenStandIns given_;
  std::unordered_map<const PyObject*, py::object> told_code_;  ///< what tell_of_call() has told of, which it keeps
  std::vector<const void*> arguments_;  ///< the addresses of what `args` holds, which live as long as the run
};

/// Watches a capture that can't give way to a run of the function itself: that of a pair, or of a body. Random draws
/// are refused; whatever else was done is undone.
class HostRefusal {
 public:
  HostRefusal(const char* who, py::handle function) : who_(who), watch_(HostWatch::begin(function, false)) {}
  /// Ends the watch after the capture. Errors: UserError if the function has drawn random numbers.
  void finish();

 private:
  const char* who_;
  std::unique_ptr<HostWatch> watch_;
};

}  // namespace diptych::python
