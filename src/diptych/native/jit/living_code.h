// The code of this process, so that one text is compiled once however many kernels it is.
#pragma once
#include <memory>
#include <string>

#include "diptych/native/jit/llvm_library.h"

namespace diptych::detail {

/// Machine code that knows the key of what it was made of: its text, the target and the compiler.
class LivingCode : public MachineCode {
 public:
  LivingCode(std::string key, std::string name, LoadedObject object);
  ~LivingCode() override;
  void* address(const std::string& function) const override;

  /// The code of a key, while someone holds it; or null. Threads: any.
  static std::shared_ptr<const MachineCode> find(const std::string& key);
  /// Makes code known. Returns it, or what another thread made known of the same key first. Threads: any.
  static std::shared_ptr<const MachineCode> publish(std::shared_ptr<LivingCode> code);

 private:
  std::string key_, name_;
  LoadedObject object_;
};

}  // namespace diptych::detail
