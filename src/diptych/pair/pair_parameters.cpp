#include "diptych/pair/pair_parameters.h"

#include <fmt/ranges.h>

#include <set>

#include "diptych/base/check.h"
#include "diptych/compile/check_slots.h"
#include "diptych/graph/file.h"
#include "diptych/graph/safetensors.h"
#include "diptych/pair/pair_file.h"

namespace diptych {

using namespace detail;
namespace {

std::string beside(const std::string& path) { return path + ".safetensors"; }

// Returns the name, without a prefix, of the tensor for a slot of `argument`; nullopt for a slot of another argument.
std::optional<std::string> name_in(std::string_view argument, std::string_view path) {
  if (path == argument) return std::string(argument);
  if (path.substr(0, argument.size()) != argument || path[argument.size()] != '.') return std::nullopt;
  return std::string(path.substr(argument.size() + 1));
}

// Returns the names of the arguments, for an error.
std::string arguments_text(const Signature& signature) {
  std::vector<std::string> names;
  for (size_t i = 0; i < signature.num_arguments(); ++i) {
    const std::string& path = signature.forward_inputs()[i].slot.path;
    std::string name = path.substr(0, path.find('.'));
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void check_all_taken(const NamedTensors& tensors, std::string_view prefix, const std::set<std::string>& taken,
                     std::string_view argument) {
  for (const auto& [name, tensor] : tensors) {
    if (name.substr(0, prefix.size()) != prefix || taken.count(name) > 0) continue;
    throw UserError(
        fmt::format("[tensors_of_argument] the tensor '{}' does not belong to a slot of the argument '{}'; use the "
                    "pair that it was saved for, or leave it out",
                    name, argument));
  }
}

}  // namespace

void save_with_tensors(const Pair& pair, const NamedTensors& tensors, const std::string& path) {
  // This throws if a file can't hold the pair, before the tensors are written.
  const auto parts = detail::file_parts(detail::file_of(pair));
  save_tensors(tensors, beside(path));
  write_file_atomically(path, {parts.first_line, parts.text, parts.constants});
}

std::pair<Pair, NamedTensors> load_with_tensors(const std::string& path) {
  return {load_pair(path), load_tensors(beside(path))};
}

std::vector<at::Tensor> tensors_of_argument(const Signature& signature, std::string_view argument,
                                            const NamedTensors& tensors, std::string_view prefix) {
  std::vector<at::Tensor> found;
  std::set<std::string> taken;
  for (size_t i = 0; i < signature.num_arguments(); ++i) {
    const SlotInfo& info = signature.forward_inputs()[i];
    const auto rest = name_in(argument, info.slot.path);
    if (!rest) continue;
    const std::string name = std::string(prefix) + *rest;
    const auto entry = tensors.find(name);
    DIPTYCH_CHECK(entry != tensors.end() && entry->second.defined(),
                  "[tensors_of_argument] there is no tensor '{}', expected {} for the slot '{}'; use the tensors that "
                  "were saved with this pair",
                  name, type_string(*info.meta), info.slot.path);
    detail::check_fits("tensors_of_argument", "the tensor for slot", i, {info.slot.kind, name}, entry->second,
                       *info.meta);
    found.push_back(entry->second);
    taken.insert(name);
  }
  DIPTYCH_CHECK(!found.empty(), "[tensors_of_argument] the pair has no argument '{}', expected one of {}", argument,
                arguments_text(signature));
  check_all_taken(tensors, prefix, taken, argument);
  return found;
}

}  // namespace diptych
