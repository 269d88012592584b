// The PJRT C API of one plugin: loading the shared library, and calling its functions so that errors are exceptions.
// Source: OpenXLA, xla/pjrt/c/pjrt_c_api.h.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "pjrt_c_api.h"

namespace diptych::detail {

/// The table of functions of a PJRT plugin. A plugin stays loaded until the process ends: it may own threads.
class PjrtApi {
 public:
  /// Loads the plugin at `path`, or returns the one that has been loaded from there. Threads: any.
  /// Errors: UserError for a file that can't be loaded, that is not a plugin, whose version does not fit, or that does
  /// not start.
  static const PjrtApi& load(const std::string& path);

  const PJRT_Api& table() const { return *table_; }
  /// Whether this process is the one that loaded the plugin. One that was forked from it lacks the plugin's threads.
  bool is_alive() const { return forks_before_ == forks_.load(std::memory_order_relaxed); }
  /// Errors: UserError in a process that was forked after the plugin was loaded, where its functions would hang.
  void check_process() const;
  const std::string& path() const { return path_; }

  /// Calls `function` of the table with the arguments, after it has set what all arguments share. `task` completes
  /// "[xla] ... failed": a text, or a function that returns one and is called only then. Errors: UserError holds the
  /// plugin's text.
  template <class Args, class Task>
  void call(PJRT_Error* (*function)(Args*), Args& args, const Task& task) const {
    args.struct_size = sizeof(Args);
    PJRT_Error* const error = function(&args);
    if (error == nullptr) return;
    if constexpr (std::is_invocable_v<const Task&>) {
      raise(error, task());
    } else {
      raise(error, task);
    }
  }

  /// Calls a function that destroys something; an error is dropped, since there is nobody to handle it.
  template <class Args>
  void destroy(PJRT_Error* (*function)(Args*), Args args) const noexcept {
    args.struct_size = sizeof(Args);
    drop(function(&args));
  }

  /// Waits for an event and destroys it; null is an event that has happened. Errors: UserError.
  void await(PJRT_Event* event, std::string_view task) const;

 private:
  PjrtApi(std::string path, const PJRT_Api* table)
      : path_(std::move(path)), table_(table), forks_before_(count_forks()) {}
  static int count_forks();
  [[noreturn]] void raise(PJRT_Error* error, std::string_view task) const;
  void drop(PJRT_Error* error) const noexcept;

  std::string path_;
  const PJRT_Api* table_;
  // The forks between this process and the first one that counts them; asking for the process's number instead would be
  // a system call for each transfer.
  inline static std::atomic<int> forks_ = 0;
  int forks_before_;
};

/// Destroys an object of the plugin's by the function of the table that is made for it. In a forked process it leaves
/// the object alone: the plugin's threads, which may hold it, are not there.
template <class Object, class Args, Object* Args::*kObject, PJRT_Error* (*PJRT_Api::*kFunction)(Args*)>
struct PjrtDeleter {
  const PjrtApi* api;

  void operator()(Object* object) const noexcept {
    if (!api->is_alive()) return;
    Args args{};
    args.*kObject = object;
    api->destroy(api->table().*kFunction, args);
  }
};
using PjrtClientHandle =
    std::unique_ptr<PJRT_Client, PjrtDeleter<PJRT_Client, PJRT_Client_Destroy_Args, &PJRT_Client_Destroy_Args::client,
                                             &PJRT_Api::PJRT_Client_Destroy>>;
using PjrtBufferHandle =
    std::unique_ptr<PJRT_Buffer, PjrtDeleter<PJRT_Buffer, PJRT_Buffer_Destroy_Args, &PJRT_Buffer_Destroy_Args::buffer,
                                             &PJRT_Api::PJRT_Buffer_Destroy>>;
using PjrtEventHandle =
    std::unique_ptr<PJRT_Event, PjrtDeleter<PJRT_Event, PJRT_Event_Destroy_Args, &PJRT_Event_Destroy_Args::event,
                                            &PJRT_Api::PJRT_Event_Destroy>>;
using PjrtExecutableHandle =
    std::unique_ptr<PJRT_Executable,
                    PjrtDeleter<PJRT_Executable, PJRT_Executable_Destroy_Args,
                                &PJRT_Executable_Destroy_Args::executable, &PJRT_Api::PJRT_Executable_Destroy>>;
using PjrtLoadedExecutableHandle =
    std::unique_ptr<PJRT_LoadedExecutable, PjrtDeleter<PJRT_LoadedExecutable, PJRT_LoadedExecutable_Destroy_Args,
                                                       &PJRT_LoadedExecutable_Destroy_Args::executable,
                                                       &PJRT_Api::PJRT_LoadedExecutable_Destroy>>;

/// Returns the path of the plugin to use: the environment variable DIPTYCH_PJRT_PLUGIN, or else the CPU plugin's wheel
/// in the folder where this process's LibTorch lies. Errors: UserError names what to install or to set.
std::string find_pjrt_plugin();

}  // namespace diptych::detail
