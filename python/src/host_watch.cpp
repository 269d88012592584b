#include "host_watch.h"

#include <frameobject.h>
#include <pybind11/gil_safe_call_once.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <exception>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/trace/traced_writes.h"
#include "diptych/trace/transforms.h"
#include "errors.h"
#include "guards/attributes.h"
#include "guards/classes.h"
#include "guards/environment.h"

namespace diptych::python {

using namespace detail;
namespace {

thread_local HostWatch* current_watch = nullptr;

/// The callables of watched(), by what an event shows of a call: the definition of a builtin, or the code of a
/// function.
using WatchedCalls = std::unordered_map<const void*, PyObject*>;

const void* definition_of(py::handle callable) {
  PyObject* const object = callable.ptr();
  if (PyCFunction_Check(object)) return reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
  if (PyFunction_Check(object)) return PyFunction_GetCode(object);
  const bool is_method = Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyClassMethodDescr_Type;
  return is_method ? reinterpret_cast<PyMethodDescrObject*>(object)->d_method : nullptr;
}

/// What is to be watched; both members are kept forever.
struct Watched {
  py::object state = py::module_::import("diptych._host.watch");
  py::list table = state.attr("watched")();
  WatchedCalls calls;
  Watched() {
    for (const py::handle row : table) {
      const auto pair = py::reinterpret_borrow<py::tuple>(row);
      if (const void* const definition = definition_of(pair[0])) calls.emplace(definition, py::object(pair[1]).ptr());
    }
  }
};

const Watched& watched_calls() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Watched> storage;
  return storage.call_once_and_store_result([] { return Watched(); }).get_stored();
}

py::object replaced() { return py::module_::import("diptych._host.replaced"); }

const void* definition_of_event(PyFrameObject* frame, int what, PyObject* argument) {
  if (what == PyTrace_C_CALL) {
    return PyCFunction_Check(argument) ? reinterpret_cast<PyCFunctionObject*>(argument)->m_ml : nullptr;
  }
  if (what != PyTrace_CALL) return nullptr;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  Py_DECREF(code);  // the frame keeps it alive
  return code;
}

/// The profiler that this thread had before, which goes on seeing all events.
struct Profiler {
  Py_tracefunc function = nullptr;
  PyObject* object = nullptr;
};
thread_local Profiler earlier_profiler;

/// The code that no watch has to be told of, such as torch's; kept forever.
std::unordered_set<const PyObject*>& untold_code() {
  static auto* const code = new std::unordered_set<const PyObject*>();
  return *code;
}

using diptych::detail::GivenStandIns;

/// The stand-ins that something still referred to when their watch ended. Requires: the GIL.
GivenStandIns::Weak& left_weakly() {
  static auto* const left = new GivenStandIns::Weak();
  return *left;
}

// Returns the stand-ins to which something of Python refers. A tensor that C++ has besides, as it is here, refers to
// its Python object once.
std::vector<at::Tensor> kept_by_python(const GivenStandIns::Weak& given) {
  std::vector<at::Tensor> kept = GivenStandIns::alive(given);
  std::erase_if(kept, [](const at::Tensor& tensor) {
    PyObject* const object = tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
    return object == nullptr || Py_REFCNT(object) < 2;
  });
  return kept;
}

int on_profile_event(PyObject* watch, PyFrameObject* frame, int what, PyObject* argument) {
  if (const void* const definition = definition_of_event(frame, what, argument)) {
    static const WatchedCalls& calls = watched_calls().calls;
    if (const auto found = calls.find(definition); found != calls.end()) {
      const py::object function = py::reinterpret_borrow<py::object>(what == PyTrace_C_CALL ? argument : Py_None);
      try {
        py::handle(watch).attr("event")(py::handle(found->second), py::handle(reinterpret_cast<PyObject*>(frame)),
                                        function);
      } catch (py::error_already_set& error) {
        error.restore();
        return -1;
      }
    }
  }
  if (what == PyTrace_CALL && current_watch != nullptr) {
    try {
      current_watch->tell_of_call(frame);
    } catch (py::error_already_set& error) {
      error.restore();
      return -1;
    }
  }
  const Profiler& earlier = earlier_profiler;
  return earlier.function != nullptr ? earlier.function(earlier.object, frame, what, argument) : 0;
}

}  // namespace

HostWatch* HostWatch::current() { return current_watch; }

std::unique_ptr<HostWatch> HostWatch::begin(py::handle function, bool can_run) {
  if (current_watch != nullptr) return nullptr;
  const py::gil_scoped_acquire gil;
  return std::unique_ptr<HostWatch>(new HostWatch(function, can_run));
}

HostWatch::HostWatch(py::handle function, bool can_run)
    : function_(function.ptr()),
      watch_(watched_calls().state.attr("Watch")(can_run)),
      is_on_(true),
      writes_before_(diptych::detail::traced_writes) {
  const PyThreadState* const thread = PyThreadState_Get();
  earlier_profiler = {thread->c_profilefunc, thread->c_profileobj};
  Py_XINCREF(earlier_profiler.object);
  current_watch = this;
  replaced().attr("begin")();
  PyEval_SetProfile(&on_profile_event, watch_.ptr());
}

HostWatch::~HostWatch() {
  const py::gil_scoped_acquire gil;
  stop();
  watch_ = py::object();
  told_code_.clear();
  for (const at::Tensor& kept : kept_by_python(given_.given())) left_weakly().emplace_back(kept.getIntrusivePtr());
}

std::vector<at::Tensor> HostWatch::left_behind() {
  auto kept = kept_by_python(left_weakly());
  left_weakly().clear();
  for (const at::Tensor& tensor : kept) left_weakly().emplace_back(tensor.getIntrusivePtr());
  return kept;
}

void HostWatch::stop() {
  if (!is_on_) return;
  is_on_ = false;
  current_watch = nullptr;
  const Profiler earlier = std::exchange(earlier_profiler, {});
  PyEval_SetProfile(earlier.function, earlier.object);
  Py_XDECREF(earlier.object);
  const py::error_scope error;  // saves what is raised while the watch is destroyed
  replaced().attr("end")();
  py::module_::import("diptych._host.numbers.base").attr("end")();
}

void HostWatch::tell_of_call(PyFrameObject* frame) {
  const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  if (untold_code().contains(code.ptr()) || !told_code_.emplace(code.ptr(), code).second) return;
  if (watch_.attr("called")(py::handle(reinterpret_cast<PyObject*>(frame))).cast<bool>()) return;
  untold_code().insert(code.inc_ref().ptr());
}

void HostWatch::begin_trace(py::handle function) const {
  if (function.ptr() != function_) return;
  const py::gil_scoped_acquire gil;
  watch_.attr("begin_trace")();
}

void HostWatch::enter(py::handle function, const py::tuple& args, const py::dict& kwargs,
                      const std::vector<std::string>& names, std::vector<const void*> arguments) {
  if (function.ptr() != function_) return;
  arguments_ = std::move(arguments);
  watch_.attr("enter")(function, args, kwargs, names);
}

void HostWatch::leave(py::handle function, py::handle result) const {
  if (function.ptr() == function_) watch_.attr("leave")(result);
}

// Clears the frames: guards of modes and generators that they hold began inside the trace, and must end there, too.
void HostWatch::leave_by(py::handle function, const py::error_already_set& error) const {
  if (function.ptr() != function_ || !error.trace()) return;
  py::module_::import("traceback").attr("clear_frames")(error.trace());
}

bool HostWatch::is_argument(const at::Tensor& tensor) const {
  return std::find(arguments_.begin(), arguments_.end(), tensor.unsafeGetTensorImpl()) != arguments_.end();
}

// Notes arrays that share memory with a written tensor: a trace does not see who reads the memory of a numpy array, a
// bytearray and the like.
void HostWatch::find_shared_memory(const std::vector<at::Tensor>& written) const {
  std::vector<diptych::detail::MemoryRange> ranges;
  for (const at::Tensor& tensor : written) {
    if (!tensor.has_storage()) continue;
    ranges.push_back(diptych::detail::MemoryRange::of(*tensor.storage().unsafeGetStorageImpl()));
  }
  if (ranges.empty()) return;
  const py::dict known = watch_.attr("capture").attr("known");
  const auto is_written = [&](const auto& object) {
    const auto memory = memory_of(object.second);
    return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) { return range.overlaps(memory); });
  };
  if (std::any_of(known.begin(), known.end(), is_written)) {
    watch_.attr("note")("writes to a tensor that shares its memory with an array that the function can reach");
  }
}

void HostWatch::refuse_strays() const {
  if (kept_by_python(given_.given()).empty()) return;
  py::module_::import("gc").attr("collect")();
  const auto kept = kept_by_python(given_.given());
  if (kept.empty()) return;
  py::module_::import("diptych._host.strays").attr("refuse_strays")(kept, std::current_exception() != nullptr);
}

CaptureWatch::Found HostWatch::finish(const std::vector<at::Tensor>& written) {
  const py::gil_scoped_acquire gil;
  stop();
  find_shared_memory(written);
  const py::object found = watch_.attr("finish")();
  watch_.attr("let_go")();
  refuse_strays();
  const auto what = found.attr("what").cast<std::string>();
  DIPTYCH_CHECK(!found.attr("is_lost").cast<bool>(),
                "[capture] the function {}, which can't be undone so that the function itself could run, and leaves a "
                "traced tensor or a changed argument behind; pass what the iterator yields as an argument",
                what);
  if (found.attr("is_once").cast<bool>()) throw diptych::detail::TransformMet("the function " + what);
  const bool guards_more = guard_environment(function_, found.attr("environment"));
  return {what, found.attr("is_undone").cast<bool>(), found.attr("reads").cast<std::string>(), guards_more};
}

std::string HostWatch::finish_draws() {
  const py::gil_scoped_acquire gil;
  stop();
  return watch_.attr("finish")().attr("draw").cast<std::string>();
}

bool HostWatch::forget() {
  const py::gil_scoped_acquire gil;
  bool may_run = false;
  {
    const py::error_scope error;  // saves the error of a hook, which torch leaves set on its way here
    may_run = forgets();
  }
  if (may_run) PyErr_Clear();
  return may_run;
}

bool HostWatch::forgets() {
  stop();
  const auto [exception, is_of_backward] = exception_of_function(std::current_exception());
  // A backward of eager raises later than the function returns, which writes and keeps what it does until then.
  const bool is_too_late = is_of_backward || diptych::detail::traced_writes != writes_before_;
  const py::object lasting = watch_.attr("forget")(exception, is_too_late);
  if (lasting.is_none()) return false;
  const auto words = lasting.cast<std::string>();
  DIPTYCH_CHECK(words.empty(),
                "[capture] the function raises {} after it has changed or kept tensors, and {}, which can't be undone "
                "so that the function itself could run; raise before that, or do it outside the function",
                type_name(exception), words);
  return true;
}

std::string HostWatch::refusal() const {
  const py::gil_scoped_acquire gil;
  std::string found;
  {
    const py::error_scope error;
    found = refusal_in_python(std::current_exception());
  }
  if (found.empty()) found = CaptureWatch::refusal();
  if (!found.empty()) PyErr_Clear();  // torch leaves the error of a backward set, which nobody will raise
  return found;
}

void HostRefusal::finish() {
  if (!watch_) return;  // an outer watch sees the draws
  const std::string draw = watch_->finish_draws();
  DIPTYCH_CHECK(draw.empty(),
                "[{}] the function {}, expected one that does the same at each run, because it is captured once; draw "
                "outside it and pass the number, or use torch's random numbers",
                who_, draw);
}

}  // namespace diptych::python
