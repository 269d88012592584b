// Watches, while a Python function is captured, what it does on the host besides its operators.
#pragma once
#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/capture_watch.h"

namespace diptych::python {

namespace py = pybind11;

/// Note [What a function does on the host]: a graph holds operators alone. A random number of Python's, the time of day
/// or a file that the traced function read is a constant of the graph; a counter that it raised, a list that it added
/// to and an iterator that it advanced stay what they are when the graph runs. So a capture is watched: a profile
/// function of the interpreter's sees the calls of those that tell another thing each time (diptych/_host_events.py),
/// and what the function leads to is compared before and after (diptych/_host_state.py). If something is found, it is
/// taken back, and calls of that kind run the function itself. Where there is no function to run, as in a bare pair, it
/// is refused.
class HostWatch : public CaptureWatch {
 public:
  /// The watch of this thread, or null.
  static HostWatch* current();
  /// Begins to watch a capture of `function`, unless this thread is watched already: then null. Takes the GIL.
  /// `can_run`: whether calls may run the function itself, whatever it does.
  static std::unique_ptr<HostWatch> begin(py::handle function, bool can_run);
  ~HostWatch() override;

  /// Before a function runs on stand-ins: if it is the captured one, remembers what it and its arguments lead to, of
  /// which the containers are copies. Requires: the GIL.
  void enter(py::handle function, const py::tuple& args, const py::dict& kwargs, const std::vector<std::string>& names,
             std::vector<const void*> arguments);
  /// After it: looks at what it returned.
  void leave(py::handle function, py::handle result) const;
  /// The same where it raised an exception: what its frames hold is let go.
  void leave_by(py::handle function, const py::error_already_set& error) const;
  /// Whether a tensor is one of those that stand for the captured function's arguments.
  bool is_argument(const at::Tensor& tensor) const;
  Found finish(const std::vector<at::Tensor>& written) override;
  /// The same where draws of random numbers are all that counts: the first of them, in words.
  std::string finish_draws();
  bool forget() override;

 private:
  HostWatch(py::handle function, bool can_run);
  void stop();
  void find_shared_memory(const std::vector<at::Tensor>& written) const;

  PyObject* function_;  // which the caller holds
  py::object watch_;
  bool is_on_ = false;
  uint64_t writes_before_ = 0;
  std::vector<const void*> arguments_;  ///< the addresses of what `args` holds, which live as long as the run
};

/// Watches a capture beside which the function itself can't be run: a pair's, or that of a body. What else was done is
/// taken back.
class HostRefusal {
 public:
  HostRefusal(const char* who, py::handle function) : who_(who), watch_(HostWatch::begin(function, false)) {}
  /// After the capture. Errors: UserError if the function has drawn random numbers.
  void finish();

 private:
  const char* who_;
  std::unique_ptr<HostWatch> watch_;
};

}  // namespace diptych::python
