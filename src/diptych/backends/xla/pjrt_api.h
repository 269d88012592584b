// The PJRT C API of one plugin: loading the shared library, and calling its functions so that errors are exceptions.
// Source: OpenXLA, xla/pjrt/c/pjrt_c_api.h.
#pragma once
#include <memory>
#include <string>
#include <string_view>

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
  const std::string& path() const { return path_; }

  /// Calls `function` of the table with the arguments, after it has set what all arguments share. `task` completes
  /// "[xla] ... failed". Errors: UserError holds the plugin's text.
  template <class Args>
  void call(PJRT_Error* (*function)(Args*), Args& args, std::string_view task) const {
    args.struct_size = sizeof(Args);
    check(function(&args), task);
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
  PjrtApi(std::string path, const PJRT_Api* table) : path_(std::move(path)), table_(table) {}
  void check(PJRT_Error* error, std::string_view task) const;
  void drop(PJRT_Error* error) const noexcept;

  std::string path_;
  const PJRT_Api* table_;
};

/// Returns the path of the plugin to use: the environment variable DIPTYCH_PJRT_PLUGIN, or else the CPU plugin's wheel
/// in the folder where this process's LibTorch lies. Errors: UserError names what to install or to set.
std::string find_pjrt_plugin();

}  // namespace diptych::detail
