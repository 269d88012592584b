// What diptych_llvm does: a shared library of its own, since LLVM is large (one link of it and not one in every
// program) and hidden in it, so that nothing of it meets another LLVM of the process. It knows nothing of the rest of
// Diptych.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "diptych/native/jit/jit.h"

#define DIPTYCH_LLVM_EXPORT __attribute__((visibility("default")))

namespace diptych::detail {

/// The machine that runs this process.
DIPTYCH_LLVM_EXPORT HostTarget find_host_target();

/// The same machine as another CPU of those that LLVM has a name for: code is made and scheduled for that one, of the
/// features that both have, so that it runs here. Nothing if LLVM knows no such CPU.
DIPTYCH_LLVM_EXPORT std::optional<HostTarget> find_host_as(const std::string& cpu);

/// What else than its text and its target a module's code depends on: LLVM's version and the passes.
DIPTYCH_LLVM_EXPORT std::string compiler_version();

enum class CodeForm { kObject, kAssembly };

/// Compiles a module's text for a target of the host's kind to an object file (ELF) or to assembly.
/// Errors: std::runtime_error with LLVM's words. Threads: any, at once.
DIPTYCH_LLVM_EXPORT std::string compile_module(const std::string& text, const std::string& name,
                                               const HostTarget& target, CodeForm form);

/// Where a function is, and the bytes that it takes.
struct LoadedFunction {
  void* address = nullptr;
  uint64_t bytes = 0;
};

/// An object file in executable memory.
struct LoadedObject {
  std::shared_ptr<void> memory;                     ///< holds the code
  std::map<std::string, LoadedFunction> functions;  ///< that the object defines
};

/// Where a function is that an object calls and does not define; null for nowhere.
using FindFunction = void* (*)(const char* name);

/// Links an object file into this process. Debuggers that are attached, or attach later, find its functions by name if
/// `for_debuggers`. Errors: std::runtime_error with LLVM's words. Threads: any, at once.
DIPTYCH_LLVM_EXPORT LoadedObject load_object(const std::string& object, const std::string& name, FindFunction find,
                                             bool for_debuggers);

}  // namespace diptych::detail
