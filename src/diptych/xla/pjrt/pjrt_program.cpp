#include "diptych/xla/pjrt/pjrt_program.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/xla/pjrt/compile_options.h"
#include "diptych/xla/pjrt/program_cache.h"

namespace diptych::detail {
namespace {

std::string options_of(const PjrtClient& client, std::span<const size_t> devices) {
  std::vector<int> ids;
  for (const size_t device : devices) ids.push_back(client.device_id(device));
  return compile_options(client.platform(), ids);
}

PjrtLoadedExecutableHandle compile_module(const PjrtClient& client, std::string_view module, std::string_view options) {
  const PjrtApi& api = client.api();
  std::string code(module);
  constexpr std::string_view kFormat = "mlir";
  PJRT_Program program{};
  program.struct_size = sizeof(program);
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  PJRT_Client_Compile_Args args{};
  args.client = client.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  api.call(api.table().PJRT_Client_Compile, args, "compiling a program");
  return {args.executable, {&api}};
}

size_t count_outputs(const PjrtApi& api, PJRT_LoadedExecutable* executable) {
  const PjrtExecutableHandle inner = executable_of(api, executable);
  PJRT_Executable_NumOutputs_Args args{};
  args.executable = inner.get();
  api.call(api.table().PJRT_Executable_NumOutputs, args, "asking for a program's results");
  return args.num_outputs;
}

void check_not_donated(const PjrtProgram::Buffers& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    DIPTYCH_CHECK(
        !inputs[i]->is_donated(),
        "[xla] input {} of a program was donated to a program before, and holds no values any more; pass that "
        "program's result",
        i);
  }
}

}  // namespace

PjrtProgram::PjrtProgram(std::shared_ptr<const PjrtClient> client, std::string_view module, PjrtProgramOptions options)
    : client_(std::move(client)), options_(std::move(options)), executable_(nullptr, {&client_->api()}) {
  client_->api().check_process();
  const std::string compilation = options_of(*client_, options_.devices);
  ProgramCache cache(*client_, module, compilation);
  executable_ = cache.load();
  if (executable_ == nullptr) {
    executable_ = compile_module(*client_, module, compilation);
    cache.store(executable_.get());
  }
  num_outputs_ = count_outputs(client_->api(), executable_.get());
}

std::vector<std::vector<PJRT_Buffer*>> PjrtProgram::execute(std::span<const Buffers> inputs,
                                                            std::span<const int64_t> held) const {
  std::vector<std::vector<PJRT_Buffer*>> arguments(inputs.size());
  std::vector<std::vector<PJRT_Buffer*>> results(inputs.size(), std::vector<PJRT_Buffer*>(num_outputs_));
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> result_lists;
  for (size_t device = 0; device < inputs.size(); ++device) {
    arguments[device].reserve(inputs[device].size());
    for (const auto& input : inputs[device]) arguments[device].push_back(input->get());
    argument_lists.push_back(arguments[device].data());
    result_lists.push_back(results[device].data());
  }
  PJRT_ExecuteOptions options{};
  options.struct_size = sizeof(options);
  options.non_donatable_input_indices = held.data();
  options.num_non_donatable_input_indices = held.size();
  PJRT_LoadedExecutable_Execute_Args args{};
  args.executable = executable_.get();
  args.options = &options;
  args.argument_lists = argument_lists.data();
  args.num_devices = inputs.size();
  args.num_args = arguments.front().size();
  args.output_lists = result_lists.data();
  const auto lock = client_->lock_launch(inputs.size());
  client_->api().call(client_->api().table().PJRT_LoadedExecutable_Execute, args, "running a program");
  return results;
}

std::vector<PjrtProgram::Buffers> PjrtProgram::run(std::span<const Buffers> inputs,
                                                   std::span<const size_t> kept) const {
  DIPTYCH_ASSERT(inputs.size() == options_.devices.size(), "{} lists of inputs for {} devices", inputs.size(),
                 options_.devices.size());
  client_->api().check_process();
  std::vector<int64_t> held(kept.begin(), kept.end());
  for (const Buffers& of_device : inputs) {
    check_not_donated(of_device);
    // A tensor that lies over a buffer's memory would see the results that a program writes there.
    for (const size_t i : options_.donated) {
      if (i < of_device.size() && of_device[i]->is_lent_) held.push_back(static_cast<int64_t>(i));
    }
  }
  const auto results = execute(inputs, held);
  std::vector<Buffers> outputs(results.size());
  for (size_t device = 0; device < results.size(); ++device) {
    outputs[device].reserve(num_outputs_);
    for (PJRT_Buffer* const result : results[device]) {
      outputs[device].push_back(std::make_shared<PjrtBuffer>(client_, result));
    }
    for (const size_t i : options_.donated) {
      if (std::find(kept.begin(), kept.end(), i) == kept.end()) inputs[device][i]->is_donated_ = true;
    }
  }
  return outputs;
}

PjrtProgram::Buffers PjrtProgram::run(const Buffers& inputs, std::span<const size_t> kept) const {
  return std::move(run(std::span(&inputs, 1), kept).front());
}

}  // namespace diptych::detail
