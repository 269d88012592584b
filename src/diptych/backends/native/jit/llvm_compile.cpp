// Text of LLVM IR becomes an object file: parse, verify, a few passes, code.
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "diptych/backends/native/jit/llvm_library.h"

namespace diptych::detail {
namespace {

// Values in memory become registers; common subexpressions and what a loop need not repeat are computed once. No pass
// here widens, unrolls or reorders loops: the text is as the one who wrote it wants it.
constexpr const char* kPasses =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
    "early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg)";

// LLVM ends the process where it knows no way on, such as an instruction that it cannot select. Its frames have unwind
// tables and no destructors run: the module's memory is lost, and the process goes on.
[[noreturn]] void throw_fatal_error(void*, const char* reason, bool) { throw std::runtime_error(reason); }

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::install_fatal_error_handler(throw_fatal_error);
  });
}

std::unique_ptr<llvm::TargetMachine> make_machine(const HostTarget& target) {
  std::string error;
  const auto* found = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (found == nullptr) throw std::runtime_error(error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only what the text marks as `contract`
  return std::unique_ptr<llvm::TargetMachine>(
      found->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                 llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
}

// Machines that no thread uses now: making one, and what it learns of its processor, is a tenth of a kernel's time.
class Machines {
 public:
  std::unique_ptr<llvm::TargetMachine> take(const HostTarget& target) {
    {
      const std::lock_guard lock(mutex_);
      auto& free = free_[key_of(target)];
      if (!free.empty()) {
        auto machine = std::move(free.back());
        free.pop_back();
        return machine;
      }
    }
    return make_machine(target);
  }
  void give_back(const HostTarget& target, std::unique_ptr<llvm::TargetMachine> machine) {
    const std::lock_guard lock(mutex_);
    free_[key_of(target)].push_back(std::move(machine));
  }

 private:
  static std::string key_of(const HostTarget& target) { return target.triple + target.cpu + target.features; }

  std::mutex mutex_;
  std::map<std::string, std::vector<std::unique_ptr<llvm::TargetMachine>>> free_;
};

// Never destroyed: LLVM's own tables may be gone by then.
Machines& machines() {
  static auto* const value = new Machines;
  return *value;
}

// Collects what LLVM says; the default prints errors and ends the process.
void keep_errors(const llvm::DiagnosticInfo* info, void* errors) {
  if (info->getSeverity() != llvm::DS_Error) return;
  llvm::raw_string_ostream stream(*static_cast<std::string*>(errors));
  llvm::DiagnosticPrinterRawOStream printer(stream);
  info->print(printer);
}

std::unique_ptr<llvm::Module> parse_module(const std::string& text, const std::string& name,
                                           llvm::LLVMContext& context) {
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseAssembly(llvm::MemoryBufferRef(text, name), diagnostic, context);
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (!module) {
    diagnostic.print(/*ProgName=*/nullptr, stream, /*ShowColors=*/false);
    throw std::runtime_error(stream.str());
  }
  if (llvm::verifyModule(*module, &stream)) throw std::runtime_error(stream.str());
  return module;
}

// Without the attribute, code for some hosts with 64-byte vectors splits them in two.
void set_vector_width(llvm::Module& module, int vector_bytes) {
  for (auto& function : module) {
    if (!function.isDeclaration()) function.addFnAttr("prefer-vector-width", std::to_string(vector_bytes * 8));
  }
}

void run_passes(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, kPasses));
  passes.run(module, modules);
}

std::string write_code(llvm::Module& module, llvm::TargetMachine& machine, CodeForm form) {
  llvm::SmallVector<char, 0> code;
  llvm::raw_svector_ostream stream(code);
  llvm::legacy::PassManager passes;
  const auto type = form == CodeForm::kObject ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    throw std::runtime_error("the target makes no code of this kind");
  }
  passes.run(module);
  return std::string(code.data(), code.size());
}

}  // namespace

std::string compiler_version() { return std::string(LLVM_VERSION_STRING) + " " + kPasses; }

HostTarget find_host_target() {
  HostTarget target;
  target.triple = llvm::sys::getProcessTriple();
  target.cpu = llvm::sys::getHostCPUName().str();
  const auto features = llvm::sys::getHostCPUFeatures();
  std::map<std::string, bool> sorted;  // a map of LLVM has no order
  for (const auto& feature : features) sorted.emplace(feature.getKey().str(), feature.getValue());
  llvm::SubtargetFeatures list;
  for (const auto& [name, there] : sorted) list.AddFeature(name, there);
  target.features = list.getString();
  const auto has = [&](const char* name) { return features.lookup(name); };
  const bool wide = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  target.vector_bytes = wide ? 64 : has("avx2") && has("fma") ? 32 : 16;
  return target;
}

std::string compile_module(const std::string& text, const std::string& name, const HostTarget& target, CodeForm form) {
  initialize_llvm();
  llvm::LLVMContext context;
  std::string errors;
  context.setDiagnosticHandlerCallBack(keep_errors, &errors);
  const auto module = parse_module(text, name, context);
  auto machine = machines().take(target);
  module->setTargetTriple(target.triple);
  module->setDataLayout(machine->createDataLayout());
  set_vector_width(*module, target.vector_bytes);
  run_passes(*module, *machine);
  auto code = write_code(*module, *machine, form);
  if (!errors.empty()) throw std::runtime_error(errors);
  machines().give_back(target, std::move(machine));  // one that met an error is not used again
  return code;
}

}  // namespace diptych::detail
