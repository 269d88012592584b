// Object files become code in this process, by ORC's linking layer: a library (JITDylib) for each, so that names of two
// never meet and each is freed by itself.
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/DebugObjectManagerPlugin.h>
#include <llvm/ExecutionEngine/Orc/EPCDebugObjectRegistrar.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h>
#include <llvm/Object/ELFObjectFile.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "diptych/native/jit/llvm_library.h"

namespace diptych::detail {
namespace {

template <class T>
T value_of(llvm::Expected<T> result) {
  if (!result) throw std::runtime_error(llvm::toString(result.takeError()));
  return std::move(*result);
}

void check(llvm::Error error) {
  if (error) throw std::runtime_error(llvm::toString(std::move(error)));
}

// What the session says of a failure beside the error that it returns. Linking happens on the thread that asks for it.
std::string& reported() {
  static thread_local std::string text;
  return text;
}

class Session {
 public:
  Session()
      : session_(value_of(llvm::orc::SelfExecutorProcessControl::Create())),
        layer_(session_, session_.getExecutorProcessControl().getMemMgr()) {
    session_.setErrorReporter([](llvm::Error error) { reported() += llvm::toString(std::move(error)) + "\n"; });
  }
  llvm::orc::ExecutionSession& session() { return session_; }
  llvm::orc::ObjectLinkingLayer& layer() { return layer_; }
  /// Copies of what is linked from now on are kept where debuggers look for code that a process makes.
  void tell_debuggers() {
    std::call_once(told_, [this] {
      const auto address = llvm::orc::ExecutorAddr::fromPtr(&llvm_orc_registerJITLoaderGDBWrapper);
      auto registrar = std::make_unique<llvm::orc::EPCDebugObjectRegistrar>(session_, address);
      layer_.addPlugin(std::make_shared<llvm::orc::DebugObjectManagerPlugin>(
          session_, std::move(registrar), /*RequireDebugSections=*/false, /*AutoRegisterCode=*/true));
    });
  }
  /// A name for a library that no other has.
  std::string unique_name(const std::string& name) { return name + "#" + std::to_string(++count_); }

 private:
  llvm::orc::ExecutionSession session_;
  llvm::orc::ObjectLinkingLayer layer_;
  std::atomic<size_t> count_{0};
  std::once_flag told_;
};

// Never destroyed: code may be held by objects that die after everything here has.
Session& session() {
  static auto* const value = new Session;
  return *value;
}

// Answers for what a library does not define.
class ProcessFunctions : public llvm::orc::DefinitionGenerator {
 public:
  explicit ProcessFunctions(FindFunction find) : find_(find) {}
  llvm::Error tryToGenerate(llvm::orc::LookupState&, llvm::orc::LookupKind, llvm::orc::JITDylib& library,
                            llvm::orc::JITDylibLookupFlags, const llvm::orc::SymbolLookupSet& wanted) override {
    llvm::orc::SymbolMap found;
    for (const auto& [name, flags] : wanted) {
      if (void* address = find_((*name).str().c_str())) {
        found[name] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
      }
    }
    if (found.empty()) return llvm::Error::success();
    return library.define(llvm::orc::absoluteSymbols(std::move(found)));
  }

 private:
  FindFunction find_;
};

// The functions that an object defines, with their sizes.
std::map<std::string, uint64_t> functions_of(llvm::MemoryBufferRef object) {
  const auto file = value_of(llvm::object::ObjectFile::createObjectFile(object));
  std::map<std::string, uint64_t> functions;
  for (const auto& symbol : file->symbols()) {
    const auto flags = value_of(symbol.getFlags());
    const bool defined =
        (flags & llvm::object::SymbolRef::SF_Global) != 0 && (flags & llvm::object::SymbolRef::SF_Undefined) == 0;
    if (defined && value_of(symbol.getType()) == llvm::object::SymbolRef::ST_Function) {
      functions.emplace(value_of(symbol.getName()).str(), llvm::object::ELFSymbolRef(symbol).getSize());
    }
  }
  return functions;
}

void free_library(llvm::orc::JITDylib* library) {
  // There is nobody to tell, and nothing to be done, where memory cannot be given back.
  llvm::consumeError(session().session().removeJITDylib(*library));
}

std::map<std::string, LoadedFunction> link_functions(llvm::orc::JITDylib& library,
                                                     const std::map<std::string, uint64_t>& functions) {
  auto& run = session().session();
  llvm::orc::SymbolLookupSet wanted;
  for (const auto& [name, bytes] : functions) wanted.add(run.intern(name));
  auto found = run.lookup({{&library, llvm::orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted));
  if (!found) {
    const auto error = llvm::toString(found.takeError());
    throw std::runtime_error(reported() + error);
  }
  std::map<std::string, LoadedFunction> addresses;
  for (const auto& [symbol, definition] : *found) {
    const auto name = (*symbol).str();
    addresses[name] = {definition.getAddress().toPtr<void*>(), functions.at(name)};
  }
  return addresses;
}

}  // namespace

LoadedObject load_object(const std::string& object, const std::string& name, FindFunction find, bool for_debuggers) {
  reported().clear();
  auto& owner = session();
  if (for_debuggers) owner.tell_debuggers();
  const auto functions = functions_of(llvm::MemoryBufferRef(object, name));
  auto& library = owner.session().createBareJITDylib(owner.unique_name(name));
  const auto free = [](void* it) { free_library(static_cast<llvm::orc::JITDylib*>(it)); };
  LoadedObject result{std::shared_ptr<void>(&library, free), {}};
  library.addGenerator(std::make_unique<ProcessFunctions>(find));
  check(owner.layer().add(library, llvm::MemoryBuffer::getMemBufferCopy(object, name)));
  result.functions = link_functions(library, functions);
  return result;
}

}  // namespace diptych::detail
