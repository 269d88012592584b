#include "diptych/xla/pjrt/sharded_program.h"

#include <fmt/ranges.h>

#include <numeric>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

std::vector<size_t> devices_of(const PjrtClient& client, const xla::Mesh& mesh) {
  check_devices(client, mesh);
  std::vector<size_t> devices(mesh.num_devices());
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::vector<xla::Sharding> shardings_of(std::initializer_list<std::span<const HloSlot>> lists) {
  std::vector<xla::Sharding> shardings;
  for (const auto& slots : lists) {
    for (const HloSlot& slot : slots) shardings.push_back(slot.sharding);
  }
  return shardings;
}

}  // namespace

ShardedProgram::ShardedProgram(std::shared_ptr<const PjrtClient> client, const HloModule& module, xla::Mesh mesh)
    : mesh_(std::move(mesh)),
      inputs_(shardings_of({module.inputs, module.constants})),
      outputs_(shardings_of({module.outputs})),
      program_(client, module.text, {.donated = module.donated, .devices = devices_of(*client, mesh_)}) {}

ShardedProgram::Buffers ShardedProgram::run(const Buffers& inputs, std::span<const size_t> kept) const {
  DIPTYCH_CHECK(inputs.size() == inputs_.size(), "[xla] a program of several devices got {} inputs, expected {}",
                inputs.size(), inputs_.size());
  const auto num_devices = static_cast<size_t>(mesh_.num_devices());
  std::vector<PjrtProgram::Buffers> arguments(num_devices);
  for (size_t i = 0; i < inputs.size(); ++i) {
    DIPTYCH_CHECK(
        inputs[i]->mesh() == mesh_ && inputs[i]->sharding() == inputs_[i],
        "[xla] input {} of a program of several devices is split as [{}] over a mesh of {}, expected [{}] over "
        "{}; split it as the program was compiled for",
        i, fmt::join(inputs[i]->sharding(), ", "), fmt::join(inputs[i]->mesh().sizes, "x"), fmt::join(inputs_[i], ", "),
        fmt::join(mesh_.sizes, "x"));
    for (size_t device = 0; device < num_devices; ++device) arguments[device].push_back(inputs[i]->shard(device));
  }
  const auto results = program_.run(arguments, kept);
  Buffers outputs;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    std::vector<std::shared_ptr<PjrtBuffer>> shards;
    for (const auto& of_device : results) shards.push_back(of_device.at(i));
    outputs.push_back(std::make_shared<ShardedBuffer>(mesh_, outputs_[i], std::move(shards)));
  }
  return outputs;
}

}  // namespace diptych::detail
