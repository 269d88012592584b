// Text of LLVM IR becomes an object file: parse, verify, a few passes, code.
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/MemorySSA.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ProfileSummaryInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScopedNoAliasAA.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "diptych/native/jit/llvm_library.h"

namespace diptych::detail {
namespace {

// Changes with what the passes below do: compiled code is kept by it.
constexpr const char* kPasses = "passes 1";

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

const llvm::Target& find_target(const std::string& triple) {
  std::string error;
  const auto* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (found == nullptr) throw std::runtime_error(error);
  return *found;
}

std::unique_ptr<llvm::TargetMachine> make_machine(const HostTarget& target) {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only what the text marks as `contract`
  return std::unique_ptr<llvm::TargetMachine>(
      find_target(target.triple)
          .createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
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

// Values in memory become registers; common subexpressions and what a loop need not repeat are computed once. No pass
// here widens, unrolls or reorders loops: the text is as the one who wrote it wants it.
llvm::FunctionPassManager passes() {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LoopRotatePass());
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  return passes;
}

// What the passes ask for. LLVM's PassBuilder would register it, and every other pass of LLVM with it: a third of the
// library's size, and of the time that a process takes to load it.
class Analyses {
 public:
  Analyses(llvm::Module& module, llvm::TargetMachine& machine) {
    functions_.registerPass([&] { return machine.getTargetIRAnalysis(); });
    functions_.registerPass([] {
      llvm::AAManager aliases;
      aliases.registerFunctionAnalysis<llvm::BasicAA>();
      aliases.registerFunctionAnalysis<llvm::ScopedNoAliasAA>();
      return aliases;
    });
    add<llvm::TargetLibraryAnalysis, llvm::AssumptionAnalysis, llvm::DominatorTreeAnalysis,
        llvm::PostDominatorTreeAnalysis, llvm::LoopAnalysis, llvm::ScalarEvolutionAnalysis, llvm::MemorySSAAnalysis,
        llvm::BasicAA, llvm::ScopedNoAliasAA, llvm::OptimizationRemarkEmitterAnalysis, llvm::BlockFrequencyAnalysis,
        llvm::BranchProbabilityAnalysis, llvm::PassInstrumentationAnalysis>();
    loops_.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
    modules_.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
    modules_.registerPass([] { return llvm::ProfileSummaryAnalysis(); });
    modules_.registerPass([&] { return llvm::FunctionAnalysisManagerModuleProxy(functions_); });
    functions_.registerPass([&] { return llvm::ModuleAnalysisManagerFunctionProxy(modules_); });
    functions_.registerPass([&] { return llvm::LoopAnalysisManagerFunctionProxy(loops_); });
    loops_.registerPass([&] { return llvm::FunctionAnalysisManagerLoopProxy(functions_); });
    modules_.getResult<llvm::ProfileSummaryAnalysis>(module);  // passes look at what is there and ask for nothing
  }
  llvm::FunctionAnalysisManager& functions() { return functions_; }

 private:
  template <class... Kinds>
  void add() {
    (functions_.registerPass([] { return Kinds(); }), ...);
  }

  llvm::LoopAnalysisManager loops_;
  llvm::FunctionAnalysisManager functions_;
  llvm::ModuleAnalysisManager modules_;
};

void run_passes(llvm::Module& module, llvm::TargetMachine& machine) {
  Analyses analyses(module, machine);
  auto pipeline = passes();
  for (auto& function : module) {
    if (function.isDeclaration()) continue;
    analyses.functions().invalidate(function, pipeline.run(function, analyses.functions()));
  }
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

// Whether the machine has each feature that LLVM asks it for; a map of LLVM has no order.
using Features = std::map<std::string, bool>;

HostTarget make_target(const std::string& cpu, const Features& features) {
  HostTarget target;
  target.triple = llvm::sys::getProcessTriple();
  target.cpu = cpu;
  llvm::SubtargetFeatures list;
  for (const auto& [name, there] : features) list.AddFeature(name, there);
  target.features = list.getString();
  const auto has = [&](const char* name) {
    const auto found = features.find(name);
    return found != features.end() && found->second;
  };
  const bool wide = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  target.vector_bytes = wide ? 64 : has("avx2") && has("fma") ? 32 : 16;
  return target;
}

Features host_features() {
  Features features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    features.emplace(feature.getKey().str(), feature.getValue());
  }
  return features;
}

}  // namespace

std::string compiler_version() { return std::string(LLVM_VERSION_STRING) + " " + kPasses; }

HostTarget find_host_target() { return make_target(llvm::sys::getHostCPUName().str(), host_features()); }

std::optional<HostTarget> find_host_as(const std::string& cpu) {
  initialize_llvm();
  const std::string triple = llvm::sys::getProcessTriple();
  const auto subtarget = [&](const std::string& name) {
    return std::unique_ptr<llvm::MCSubtargetInfo>(find_target(triple).createMCSubtargetInfo(triple, name, ""));
  };
  if (!subtarget("")->isCPUStringValid(cpu)) return std::nullopt;  // it would be printed to standard error
  std::set<std::string> known;
  for (const auto& feature : subtarget(cpu)->getEnabledProcessorFeatures()) known.insert(feature.Key);
  Features features = host_features();
  for (auto& [name, there] : features) there = there && known.contains(name);
  return make_target(cpu, features);
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
