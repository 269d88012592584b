// Compiled programs in a folder, for the next process.
#pragma once
#include <string>
#include <string_view>

#include "diptych/backend/cache_folder.h"
#include "diptych/xla/pjrt/pjrt_client.h"

namespace diptych::detail {

/// The part of an executable that tells about it. Errors: UserError.
PjrtExecutableHandle executable_of(const PjrtApi& api, PJRT_LoadedExecutable* executable);

/// The entry of one program in `programs` of the user's cache folder, or in the folder that the environment variable
/// DIPTYCH_XLA_CACHE names; where that is 0, there is no entry and nothing is read or written. An entry holds all that
/// the compiled program depends on: the module's text, the options, and the plugin's and devices' fingerprint. Whatever
/// is wrong with an entry is logged (DIPTYCH_LOG=cache), and the program is compiled as if there were none.
class ProgramCache {
 public:
  /// Errors: UserError if the folder that the variable names is not there and cannot be made.
  ProgramCache(const PjrtClient& client, std::string_view module, std::string_view options);

  /// Returns the program of the entry, or null.
  PjrtLoadedExecutableHandle load() const;
  /// Writes the entry, in one step for whoever reads it meanwhile.
  void store(PJRT_LoadedExecutable* executable);

 private:
  std::string serialize(PJRT_LoadedExecutable* executable) const;

  const PjrtClient& client_;
  CacheFolder folder_;
  std::string key_;
};

}  // namespace diptych::detail
